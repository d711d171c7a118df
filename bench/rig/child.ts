import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { type Cleanup, onCleanup } from '../../test/cleanup.ts'

export type Child = ReturnType<typeof startChild>

/** Starts a file, relative to bench/, in a separate process that answers each message with one. */
export function startChild(cleanup: Cleanup, file: string, env: Record<string, string> = {}) {
  const path = fileURLToPath(new URL(`../${file}`, import.meta.url))
  const child = fork(path, { serialization: 'advanced', env: { ...process.env, ...env } })
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill()
    await exit
  }
  onCleanup(cleanup, stop)
  return {
    pid: child.pid ?? 0,
    async ask<Answer>(question: object): Promise<Answer> {
      child.send(question)
      const gone = new AbortController()
      const [answer] = await Promise.race([once(child, 'message', gone), ended(child, gone.signal)]).finally(() => gone.abort())
      return answer as Answer
    },
    stop,
  }
}

async function ended(child: ChildProcess, signal: AbortSignal): Promise<never> {
  const [code, killedBy] = await once(child, 'exit', { signal })
  throw new Error(`a process of the benchmark ended: ${killedBy ?? code}`)
}

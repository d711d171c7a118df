import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

export type Child = ReturnType<typeof startChild>

/** Starts bench/orders/<file> as a process of its own, that answers each message with one. */
export function startChild(file: string, args: readonly string[] = []) {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), args, { serialization: 'advanced' })
  return {
    pid: child.pid ?? 0,
    async ask<Answer>(question: object): Promise<Answer> {
      child.send(question)
      const gone = new AbortController()
      const [answer] = await Promise.race([once(child, 'message', gone), ended(child, gone.signal)]).finally(() => gone.abort())
      return answer as Answer
    },
    async stop(): Promise<void> {
      if (child.exitCode !== null || child.signalCode !== null) return
      const exit = once(child, 'exit')
      child.kill()
      await exit
    },
  }
}

async function ended(child: ChildProcess, signal: AbortSignal): Promise<never> {
  const [code, killedBy] = await once(child, 'exit', { signal })
  throw new Error(`a process of the benchmark ended: ${killedBy ?? code}`)
}

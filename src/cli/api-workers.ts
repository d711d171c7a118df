import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Logger } from 'pino'
import type { Service } from '../app/service.ts'
import type { Config } from '../config.ts'

const PROGRAM = fileURLToPath(new URL('api-worker.ts', import.meta.url))
const STRIP_TYPES = new URL('../../bin/strip-types.mjs', import.meta.url).href
const MIN_PAUSE_MS = 500
const MAX_PAUSE_MS = 10_000
/** After a run of this length the pauses begin with the shortest again. */
const STABLE_RUN_MS = 60_000
/** Longer than an API takes to cut its last requests, shorter than the patience of `serve`. */
const STOP_MS = 7_000

/** Further processes of the API, one for each config. One that ends is started again, with growing pauses. */
export function createApiWorkers(configs: readonly Config[], logger: Logger): Service {
  const stopping = new AbortController()
  let running: Promise<void>[] = []
  return {
    /** Does not wait for them: this process answers already. */
    async start() {
      running = configs.map((config, index) => keepRunning(config, index + 2, stopping.signal, logger))
    },
    async stop() {
      stopping.abort()
      await Promise.all(running)
    },
  }
}

async function keepRunning(config: Config, number: number, signal: AbortSignal, logger: Logger): Promise<void> {
  let pauseMs = MIN_PAUSE_MS
  while (!signal.aborted) {
    const startedAt = performance.now()
    const reason = await runWorker(config, signal)
    if (signal.aborted) return
    logger.error({ api_process: number, reason }, 'a process of the API ended; it is started again with pauses')
    if (performance.now() - startedAt > STABLE_RUN_MS) pauseMs = MIN_PAUSE_MS
    await delay(pauseMs, undefined, { signal }).catch(() => {})
    pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)
  }
}

/** Runs one process until it ends, and returns how. When `signal` aborts, it answers its requests and ends. */
async function runWorker(config: Config, signal: AbortSignal): Promise<string> {
  const child = fork(PROGRAM, {
    execArgv: ['--disable-warning=ExperimentalWarning', '--import', STRIP_TYPES],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    // Settings have more than JSON can express.
    serialization: 'advanced',
  })
  let patience: NodeJS.Timeout | undefined
  const end = () => {
    if (child.connected) child.disconnect()
    patience = setTimeout(() => child.kill('SIGKILL'), STOP_MS + 1_000 * config.drainDelaySeconds)
  }
  try {
    const ended = describeEnd(child)
    // Not in the environment, which other processes of the same user can read. An error is that of a process that has ended.
    child.send(config, () => {})
    signal.addEventListener('abort', end)
    return await ended
  } finally {
    signal.removeEventListener('abort', end)
    clearTimeout(patience)
  }
}

async function describeEnd(child: ChildProcess): Promise<string> {
  try {
    const [code, signal] = await once(child, 'exit')
    return signal ?? `exit status ${code}`
  } catch (error) {
    // It could not be started, for example for want of memory.
    return (error as Error).message
  }
}

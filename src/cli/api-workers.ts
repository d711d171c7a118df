import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Logger } from 'pino'
import type { Service } from '../app/service.ts'
import type { Config } from '../config.ts'
import { every, Loop } from '../loop.ts'

const PROGRAM = fileURLToPath(new URL('api-worker.ts', import.meta.url))
const STRIP_TYPES = new URL('../../bin/strip-types.mjs', import.meta.url).href
const MIN_PAUSE_MS = 500
const MAX_PAUSE_MS = 10_000
/** After a run of this length the pauses begin with the shortest again. */
const STABLE_RUN_MS = 60_000
/** Longer than an API takes to cut its last requests, shorter than the patience of `serve`. */
const STOP_MS = 7_000
/** A process is killed that leaves four in a row without an answer, which is far more than the longest stall of a request. */
const PING_EVERY_MS = 2_500
const MAX_UNANSWERED = 4
/** The limit until the first answer, which follows the start: the import of the code takes long on a busy machine. */
const MAX_UNANSWERED_AT_START = 24

/** Further processes of the API, one for each config. One that ends is started again, with growing pauses. */
export function createApiWorkers(configs: readonly Config[], logger: Logger): Service {
  const loops = configs.map((config, index) => keepRunning(config, index + 2, logger))
  return {
    /** Does not wait for them: this process answers already. */
    async start() {
      for (const loop of loops) await loop.start()
    },
    async stop() {
      await Promise.all(loops.map((loop) => loop.stop()))
    },
  }
}

function keepRunning(config: Config, number: number, logger: Logger): Loop {
  return new Loop({
    ...{ everyMs: 0, retryMs: MIN_PAUSE_MS, retryMaxMs: MAX_PAUSE_MS },
    async work(signal, well) {
      const startedAt = performance.now()
      const reason = await runWorker(config, signal)
      if (performance.now() - startedAt > STABLE_RUN_MS) well()
      throw new Error(reason)
    },
    onFailure(error) {
      const reason = (error as Error).message
      logger.error({ api_process: number, reason }, 'a process of the API ended; it is started again with pauses')
    },
  })
}

/**
 * Runs one process until it ends, and returns how. When `signal` aborts, it answers its requests and ends. Throws when it cannot be started,
 * for want of memory or descriptors.
 */
async function runWorker(config: Config, signal: AbortSignal): Promise<string> {
  const child = fork(PROGRAM, {
    execArgv: ['--disable-warning=ExperimentalWarning', '--import', STRIP_TYPES],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    // Settings have more than JSON can express.
    serialization: 'advanced',
  })
  const ended = once(child, 'exit')
  // A lack of descriptors leaves no channel, and the error follows.
  if (!child.connected) return describeEnd(await ended)
  const watch = killWhenSilent(child)
  let patience: NodeJS.Timeout | undefined
  const end = () => {
    watch.stop()
    if (child.connected) child.disconnect()
    patience = setTimeout(() => child.kill('SIGKILL'), STOP_MS + 1_000 * config.drainDelaySeconds)
  }
  try {
    // Other processes of the same user can read the environment, so the settings go through the channel. An error here
    // means that the process has ended.
    child.send(config, () => {})
    signal.addEventListener('abort', end)
    const how = describeEnd(await ended)
    return watch.wasSilent ? `no answer for ${(MAX_UNANSWERED * PING_EVERY_MS) / 1_000} s` : how
  } finally {
    watch.stop()
    signal.removeEventListener('abort', end)
    clearTimeout(patience)
  }
}

function describeEnd([code, signal]: unknown[]): string {
  return signal === null ? `exit status ${code}` : String(signal)
}

/** Counts questions rather than time: a pause of this process is one question, and kills no worker. */
function killWhenSilent(child: ChildProcess) {
  let unanswered = MAX_UNANSWERED - MAX_UNANSWERED_AT_START
  let wasSilent = false
  const stop = every(PING_EVERY_MS, () => {
    if (unanswered >= MAX_UNANSWERED) {
      wasSilent = true
      child.kill('SIGKILL')
      return
    }
    unanswered += 1
    child.send('ping', () => {})
  })
  child.on('message', () => {
    unanswered = 0
  })
  return {
    get wasSilent() {
      return wasSilent
    },
    stop,
  }
}

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Logger } from 'pino'
import { CHECK_MS, type ProcessReport, type SubscriberState, type Workers } from '../app/service.ts'
import type { Config } from '../config.ts'
import { OperatorError } from '../errors.ts'
import type { Failing } from '../http/health.ts'
import { every, Loop } from '../loop.ts'
import { type Answer, type Question, Questions } from './questions.ts'

const PROGRAM = fileURLToPath(new URL('worker.ts', import.meta.url))
const STRIP_TYPES = new URL('../../bin/strip-types.mjs', import.meta.url).href
/**
 * The size of the young generation in MiB. It saves 50 MiB and slows down only the API:
 * docs/decisions/operations-processes.md#garbage.
 */
const PIPELINE_FLAGS = ['--max-semi-space-size=4']
const MIN_PAUSE_MS = 500
const MAX_PAUSE_MS = 10_000
/** After a run of this length, the pauses between restarts begin again with the shortest. */
const STABLE_RUN_MS = 60_000
/**
 * The longest time to stop. It is longer than an API needs to end its last requests, and shorter than the patience of
 * `serve`.
 */
const STOP_MS = 7_000
/** Four intervals without an answer end a process. That is far more than the longest stall of a request. */
const PING_EVERY_MS = 2_500
const MAX_UNANSWERED = 4
/** The limit until a process has started, because importing the code takes long on a busy machine. */
const MAX_UNANSWERED_AT_START = 24
/** A process that takes longer fails in `/readyz`, and is 0 in `storefront_process_up`. */
const ANSWER_MS = CHECK_MS + 1_000
/** The state of the pipeline in the console is read within two seconds. */
const STATES_MS = 1_000

interface Refusal {
  /** The reason for an operator why the process cannot start. */
  refusal: string
  exitStatus: number
  /** The database is unavailable for now. */
  isOutage: boolean
}

/** A worker's message to its parent. */
export type WorkerMessage = 'alive' | 'started' | Question | Answer | Refusal

/** A parent's message to its workers, after their settings. */
export type ParentMessage = 'ping' | Question | Answer

/**
 * Runs the further processes. Restarts one that ends, with growing pauses. Calls `onRefused` if a first start fails for
 * a reason that an operator must remove, which an outage of the database is not.
 */
export function createWorkers(configs: readonly Config[], logger: Logger, onRefused: (error: OperatorError) => void): Workers {
  const workers = configs.map(
    (config, index): Worker => ({ config, number: index + 2, hasStarted: false, reason: null, child: null, questions: new Questions() }),
  )
  const readStates = async () =>
    (await Promise.all(workers.map((worker) => ask(worker, 'states', STATES_MS)))).flatMap((states) => states ?? [])
  const loops = workers.map((worker) => keepRunning(worker, { logger, onRefused, readStates }))
  return {
    findFailing: async () => (await Promise.all(workers.map(findFailingOf))).flat(),
    readMetrics: async () => {
      const read = await Promise.all(workers.map((worker) => ask(worker, 'metrics', ANSWER_MS)))
      return read.map((metrics, index) => ({ process: index + 2, metrics: metrics ?? null }))
    },
    readStates,
    /** Does not wait for the workers, because this process already answers. */
    async start() {
      for (const loop of loops) await loop.start()
    },
    async stop() {
      await Promise.all(loops.map((loop) => loop.stop()))
    },
  }
}

interface Worker {
  readonly config: Config
  readonly number: number
  hasStarted: boolean
  /** The reason why the process ended; null while it runs. */
  reason: string | null
  /** It is null while the process does not run. */
  child: ChildProcess | null
  readonly questions: Questions
}

async function findFailingOf(worker: Worker): Promise<Failing[]> {
  const { config, number, hasStarted, reason } = worker
  const name = `process_${number}`
  const described = `process ${number} (${config.roles.join(', ')})`
  if (reason !== null) return [{ name, reason: `${described}: ${reason}` }]
  if (!hasStarted) return [{ name, reason: `${described} is starting` }]
  const failing = await ask(worker, 'failing', ANSWER_MS)
  if (failing === undefined) return [{ name, reason: `${described} does not answer` }]
  return failing.map((each) => ({ ...each, process: number }))
}

/** Asks a worker. Returns undefined if it does not run, or does not answer in time. */
async function ask<About extends keyof ProcessReport>({ child, questions }: Worker, about: About, patienceMs: number) {
  return child === null ? undefined : questions.ask((question, onSent) => child.send(question, onSent), about, patienceMs)
}

interface Context {
  logger: Logger
  onRefused: (error: OperatorError) => void
  /** Each API process answers `GET /admin/pipeline` for the whole start. */
  readStates: () => Promise<SubscriberState[]>
}

function keepRunning(worker: Worker, { logger, onRefused, readStates }: Context): Loop {
  const { config, number } = worker
  return new Loop({
    ...{ everyMs: 0, retryMs: MIN_PAUSE_MS, retryMaxMs: MAX_PAUSE_MS },
    async work(signal, well) {
      const startedAt = performance.now()
      const { how, refusal } = await runWorker(worker, signal, readStates)
      if (refusal !== null && !refusal.isOutage && !worker.hasStarted)
        onRefused(new OperatorError(refusal.refusal, { exitStatus: refusal.exitStatus }))
      if (performance.now() - startedAt > STABLE_RUN_MS) well()
      throw new Error(refusal?.refusal ?? how)
    },
    onFailure(error) {
      const reason = (error as Error).message
      worker.reason = reason
      logger.error({ process: number, roles: config.roles, reason }, 'a process of the store ended; it is started again with pauses')
    },
  })
}

/** Returns how the process ended. After `signal` it answers its requests and ends. Throws when it cannot start. */
async function runWorker(
  worker: Worker,
  signal: AbortSignal,
  readStates: Context['readStates'],
): Promise<{ how: string; refusal: Refusal | null }> {
  const { config } = worker
  const child = fork(PROGRAM, {
    execArgv: [
      // The settings of this process's own memory and diagnostics, but two processes cannot have one inspector's port.
      ...process.execArgv.filter((flag) => !/^--(inspect|test|watch)/.test(flag)),
      ...(config.roles.includes('api') ? [] : PIPELINE_FLAGS),
      ...['--disable-warning=ExperimentalWarning', '--import', STRIP_TYPES],
    ],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    // Settings have more than JSON can express.
    serialization: 'advanced',
  })
  const ended = once(child, 'exit')
  // A lack of descriptors leaves no channel, and the error follows.
  if (!child.connected) return { how: describeEnd(await ended), refusal: null }
  let refusal = null as Refusal | null
  const watch = killWhenSilent(child)
  const answerStates = async ({ id }: Question) => {
    const answer = await readStates()
    if (child.connected) child.send({ id, answer } satisfies ParentMessage, () => {})
  }
  child.on('message', async (message: WorkerMessage) => {
    if (message === 'started') Object.assign(worker, { hasStarted: true, reason: null, child })
    if (typeof message !== 'object') return
    if ('refusal' in message) refusal = message
    else if ('about' in message) await answerStates(message)
    else worker.questions.take(message)
  })
  let patience: NodeJS.Timeout | undefined
  const end = () => {
    watch.stop()
    if (child.connected) child.disconnect()
    patience = setTimeout(() => child.kill('SIGKILL'), STOP_MS + 1_000 * config.drainDelaySeconds)
  }
  try {
    // The settings go through the channel, because other processes of the same user can read the environment. An error
    // here means that the process has ended.
    child.send(config, () => {})
    signal.addEventListener('abort', end)
    const how = describeEnd(await ended)
    // The process's last message is read before its channel ends.
    if (child.connected) await once(child, 'disconnect')
    return { how: watch.silentMs === null ? how : `no answer for ${watch.silentMs / 1_000} s`, refusal }
  } finally {
    worker.child = null
    worker.questions.end()
    watch.stop()
    signal.removeEventListener('abort', end)
    clearTimeout(patience)
  }
}

function describeEnd([code, signal]: unknown[]): string {
  return signal === null ? `exit status ${code}` : String(signal)
}

/** Counts questions, because a pause of this process is one question and must not kill a worker. */
function killWhenSilent(child: ChildProcess) {
  let [most, unanswered] = [MAX_UNANSWERED_AT_START, 0]
  let silentMs: number | null = null
  const stop = every(PING_EVERY_MS, () => {
    if (unanswered >= most) {
      silentMs = most * PING_EVERY_MS
      child.kill('SIGKILL')
      return
    }
    unanswered += 1
    child.send('ping', () => {})
  })
  child.on('message', (message: WorkerMessage) => {
    unanswered = 0
    if (message === 'started') most = MAX_UNANSWERED
  })
  return {
    get silentMs() {
      return silentMs
    },
    stop,
  }
}

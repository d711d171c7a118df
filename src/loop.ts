import { WakeSignal } from './wake-signal.ts'

/** The pause in milliseconds. `done` ends the loop, and undefined means `everyMs`. */
type Next = number | 'done' | undefined

export interface Failure {
  /** The previous round succeeded, so a loop can log each outage once. */
  isFirst: boolean
  /** The pause before the next round, in milliseconds. */
  retryMs: number
}

export interface LoopOptions {
  /** A long round calls `well` after each success, so that its next failure is a first one. */
  // biome-ignore lint/suspicious/noConfusingVoidType: a round that returns nothing is the usual one.
  work: (signal: AbortSignal, well: () => void) => Promise<Next | void> | Next | void
  everyMs: number
  firstMs?: number
  /** The pause after a failure. Each further failure doubles it up to `retryMaxMs`. The default is `everyMs`. */
  retryMs?: number
  retryMaxMs?: number
  /** Called after each round that throws, except a stopped one. Must not throw. */
  onFailure: (error: unknown, failure: Failure) => Promise<void> | void
  onRecovered?: () => void
  /** With `false`, the process may end while the loop waits. */
  ref?: boolean
}

/**
 * Repeats work until it is stopped, one round at a time.
 *
 * @example
 * const loop = new Loop({
 *   everyMs: 2_000,
 *   work: (signal) => rename(pool, signal),
 *   onFailure: (error, { isFirst }) => isFirst && logger.warn({ err: error }, 'renaming failed, will retry'),
 *   onRecovered: () => logger.info('products are renamed again'),
 * })
 */
export class Loop {
  readonly #options: LoopOptions
  readonly #stopping = new AbortController()
  readonly #wakeSignal = new WakeSignal()
  #running: Promise<void> | undefined
  #failures = 0

  constructor(options: LoopOptions) {
    this.#options = options
  }

  /** Ends the pause. During a round, another round follows at once. May be passed as a listener. */
  readonly wake = (): void => this.#wakeSignal.notify()

  get isStopped(): boolean {
    return this.#stopping.signal.aborted
  }

  /** Begins the first round and returns. Idempotent. A stopped loop stays stopped. */
  async start(): Promise<void> {
    this.#running ??= this.#run()
  }

  /** Aborts the signal of the round in flight and waits for its end. Idempotent, safe before start. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping
    let next: Next = this.#options.firstMs ?? 0
    while (next !== 'done') {
      if (next > 0) await this.#wakeSignal.wait(next, signal, this.#options)
      if (signal.aborted) return
      this.#wakeSignal.reset()
      next = await this.#round(signal)
    }
  }

  async #round(signal: AbortSignal): Promise<number | 'done'> {
    const { work, everyMs, onFailure } = this.#options
    try {
      const next = await work(signal, this.#well)
      this.#well()
      return next ?? everyMs
    } catch (error) {
      const retryMs = this.#retryMs()
      const isFirst = this.#failures++ === 0
      if (!signal.aborted) await onFailure(error, { isFirst, retryMs })
      return retryMs
    }
  }

  #retryMs(): number {
    const { everyMs, retryMs = everyMs, retryMaxMs = retryMs } = this.#options
    return Math.min(retryMs * 2 ** this.#failures, retryMaxMs)
  }

  readonly #well = (): void => {
    if (this.#failures === 0) return
    this.#failures = 0
    this.#options.onRecovered?.()
  }
}

/**
 * Calls `work`, which must not throw, every `ms` milliseconds. Returns a function that stops this. With `ref: false`,
 * the timer does not keep the process running.
 */
export function every(ms: number, work: () => void, { ref = true }: { ref?: boolean } = {}): () => void {
  const loop = new Loop({
    ...{ firstMs: ms, everyMs: ms, ref },
    work() {
      work()
    },
    onFailure(error) {
      throw error
    },
  })
  void loop.start()
  return () => void loop.stop()
}

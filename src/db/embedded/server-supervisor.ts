import { setTimeout as delay } from 'node:timers/promises'

const FIRST_PAUSE_MS = 500
const LAST_PAUSE_MS = 10_000
/** One that ran for this long begins with the shortest pause again. */
const STEADY_MS = 60_000

/** A program that runs. */
export interface RunningServer {
  /** Resolves with the reason when it ends without having been stopped, and never otherwise. */
  readonly died: Promise<string>
  stop(how: 'now' | 'wait'): Promise<void>
}

export interface KeepRunningOptions<T> {
  restart: () => Promise<T>
  /** Hears each time that the server died, or did not start again. */
  onDown: (reason: string) => void
  onUp: () => void
}

/** Starts a server again, with growing pauses, whenever it dies: on a full disk it can do nothing until somebody makes room. */
export class KeptServer<T extends RunningServer> {
  #server: T
  readonly #options: KeepRunningOptions<T>
  readonly #stopping = new AbortController()
  readonly #watching: Promise<void>
  #failure: string | null = null

  constructor(server: T, options: KeepRunningOptions<T>) {
    this.#server = server
    this.#options = options
    this.#watching = this.#watch()
  }

  /** Why there is no server now; null while one runs. */
  get failure(): string | null {
    return this.#failure
  }

  /** Idempotent. */
  async stop(how: 'now' | 'wait'): Promise<void> {
    this.#stopping.abort()
    await this.#watching
    await this.#server.stop(how)
  }

  async #watch(): Promise<void> {
    const { signal } = this.#stopping
    const stopped = new Promise<null>((resolve) => signal.addEventListener('abort', () => resolve(null)))
    let pauseMs = FIRST_PAUSE_MS
    while (!signal.aborted) {
      const startedAt = performance.now()
      const reason = await Promise.race([this.#server.died, stopped])
      if (reason === null) return
      if (performance.now() - startedAt > STEADY_MS) pauseMs = FIRST_PAUSE_MS
      this.#down(reason)
      while (this.#failure !== null && !signal.aborted) {
        await delay(pauseMs, undefined, { signal }).catch(() => {})
        pauseMs = Math.min(pauseMs * 2, LAST_PAUSE_MS)
        if (!signal.aborted) await this.#restart()
      }
    }
  }

  async #restart(): Promise<void> {
    try {
      this.#server = await this.#options.restart()
      this.#failure = null
      this.#options.onUp()
    } catch (error) {
      this.#down(error instanceof Error ? error.message : String(error))
    }
  }

  #down(reason: string): void {
    this.#failure = reason
    this.#options.onDown(reason)
  }
}

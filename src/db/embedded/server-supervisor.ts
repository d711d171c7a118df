import { setTimeout as delay } from 'node:timers/promises'
import type { Server } from './postgres-server.ts'

const MIN_PAUSE_MS = 500
const MAX_PAUSE_MS = 10_000
/** After a run of this length the pauses begin with the shortest again. */
const STABLE_RUN_MS = 60_000

interface SupervisionOptions {
  restart: () => Promise<Server>
  /** Called each time the server exits or a restart fails. */
  onDown: (reason: string) => void
  onUp: () => void
}

/** Restarts a server whenever it exits, with growing pauses: on a full disk no restart succeeds until somebody makes room. */
export class SupervisedServer {
  #server: Server
  readonly #options: SupervisionOptions
  readonly #stopping = new AbortController()
  readonly #watching: Promise<void>
  #failure: string | null = null

  constructor(server: Server, options: SupervisionOptions) {
    this.#server = server
    this.#options = options
    this.#watching = this.#watch()
  }

  /** Why no server is running; null while one is. */
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
    let pauseMs = MIN_PAUSE_MS
    while (!signal.aborted) {
      const startedAt = performance.now()
      const reason = await Promise.race([this.#server.unexpectedExit, stopped])
      if (reason === null) return
      if (performance.now() - startedAt > STABLE_RUN_MS) pauseMs = MIN_PAUSE_MS
      this.#reportDown(reason)
      while (this.#failure !== null && !signal.aborted) {
        await delay(pauseMs, undefined, { signal }).catch(() => {})
        pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)
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
      this.#reportDown(error instanceof Error ? error.message : String(error))
    }
  }

  #reportDown(reason: string): void {
    this.#failure = reason
    this.#options.onDown(reason)
  }
}

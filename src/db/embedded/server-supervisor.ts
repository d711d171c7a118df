import { Loop } from '../../loop.ts'
import type { Server } from './postgres-server.ts'

const MIN_PAUSE_MS = 500
const MAX_PAUSE_MS = 10_000
const STABLE_RUN_MS = 60_000

interface SupervisionOptions {
  restart: () => Promise<Server>
  onDown: (reason: string) => void
  onUp: () => void
}

/** Restarts a server with growing pauses, because on a full disk no restart succeeds until there is space. */
export class SupervisedServer {
  #server: Server
  readonly #options: SupervisionOptions
  readonly #loop: Loop
  readonly #stopped = Promise.withResolvers<null>()
  #failure: string | null = null

  constructor(server: Server, options: SupervisionOptions) {
    this.#server = server
    this.#options = options
    this.#loop = new Loop({
      ...{ everyMs: 0, retryMs: MIN_PAUSE_MS, retryMaxMs: MAX_PAUSE_MS },
      work: (_signal, well) => this.#run(well),
      onFailure: (error) => this.#reportDown(error instanceof Error ? error.message : String(error)),
    })
    void this.#loop.start()
  }

  get failure(): string | null {
    return this.#failure
  }

  async stop(how: 'now' | 'wait'): Promise<void> {
    this.#stopped.resolve(null)
    await this.#loop.stop()
    await this.#server.stop(how)
  }

  async #run(well: () => void): Promise<'done'> {
    if (this.#failure !== null) {
      this.#server = await this.#options.restart()
      this.#failure = null
      this.#options.onUp()
    }
    const startedAt = performance.now()
    const reason = await Promise.race([this.#server.unexpectedExit, this.#stopped.promise])
    if (reason === null) return 'done'
    if (performance.now() - startedAt > STABLE_RUN_MS) well()
    throw new Error(reason)
  }

  #reportDown(reason: string): void {
    this.#failure = reason
    this.#options.onDown(reason)
  }
}

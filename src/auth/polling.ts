import type { Logger } from 'pino'
import { isDatabaseOutage, isTimeout } from '../db/failures.ts'

/** Runs a check at an interval, one at a time. Outages of the database are not logged here: others report them. */
export class Polling {
  readonly #check: () => Promise<void>
  readonly #everyMs: number
  readonly #logger: Logger
  #timer: NodeJS.Timeout | undefined
  #running: Promise<void> | null = null

  constructor(everyMs: number, logger: Logger, check: () => Promise<void>) {
    this.#everyMs = everyMs
    this.#logger = logger
    this.#check = check
  }

  start(): Promise<void> {
    this.#timer ??= setInterval(() => {
      this.#running ??= this.#run().finally(() => {
        this.#running = null
      })
    }, this.#everyMs)
    return Promise.resolve()
  }

  /** Idempotent, safe before start. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#running
  }

  async #run(): Promise<void> {
    try {
      await this.#check()
    } catch (error) {
      if (!isDatabaseOutage(error) && !isTimeout(error)) this.#logger.warn({ err: error }, 'a periodic check failed; it is repeated')
    }
  }
}

import type { FastifyBaseLogger } from 'fastify'
import { loggableError, reasonOf } from '../db/loggable-error.ts'
import { AppError } from '../errors.ts'

const INTERVAL_MS = 10_000
const MAX_REASONS = 20
const OTHER_REASONS = 'other reasons'

/** Logs the first refusal of each reason, and ten seconds later the number of further ones. */
export class RefusalLog {
  readonly #logger: FastifyBaseLogger
  readonly #refused = new Map<string, number>()

  constructor(logger: FastifyBaseLogger) {
    this.#logger = logger
  }

  add(error: unknown, ids: { request_id: string; trace_id: string }): void {
    const reason = this.#reasonOf(error)
    const before = this.#refused.get(reason)
    this.#refused.set(reason, (before ?? -1) + 1)
    if (before !== undefined) return
    this.#logger.warn({ reason, ...ids }, 'a request was refused; others with this reason are counted for 10 s')
    this.#countLater(reason)
  }

  #countLater(reason: string): void {
    setTimeout(() => {
      const refused = this.#refused.get(reason) ?? 0
      if (refused === 0) {
        this.#refused.delete(reason)
        return
      }
      this.#refused.set(reason, 0)
      this.#logger.warn({ reason, refused }, 'requests were refused')
      this.#countLater(reason)
    }, INTERVAL_MS).unref()
  }

  #reasonOf(error: unknown): string {
    const cause = error instanceof AppError ? (error.details.cause ?? error) : error
    const { code, message } = loggableError(cause) as { code?: string; message?: string }
    // The error for a host with several addresses has a code and no message.
    const isTold = message !== undefined && message !== ''
    const reason = isTold ? [code, message].filter((part) => part !== undefined && part !== '').join(': ') : reasonOf(cause)
    return this.#refused.has(reason) || this.#refused.size < MAX_REASONS ? reason : OTHER_REASONS
  }
}

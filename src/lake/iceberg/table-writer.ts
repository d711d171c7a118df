import type { Logger } from 'pino'
import type { LakeStore } from '../lake-store.ts'
import { commitOrderEvents } from './commit-order-events.ts'

export interface TableWriterOptions {
  store: LakeStore
  /** The pause between two commits. */
  seconds: number
  logger: Logger
}

/** Commits the lake's new files to the table `order_events` from time to time. Several processes may do so at once. */
export class TableWriter {
  readonly #options: TableWriterOptions
  readonly #stopping = new AbortController()
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> | null = null
  /** What was logged last: it is retried every few minutes. */
  #reported = ''

  constructor(options: TableWriterOptions) {
    this.#options = options
  }

  async start(): Promise<void> {
    this.#timer ??= setInterval(() => this.#write(), this.#options.seconds * 1_000)
  }

  /** Idempotent, safe before start. Waits for the file that is being registered. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    this.#stopping.abort()
    await this.#writing
  }

  #write(): void {
    this.#writing ??= this.#commit().finally(() => {
      this.#writing = null
    })
  }

  async #commit(): Promise<void> {
    const { store } = this.#options
    try {
      const { damaged } = await commitOrderEvents(store, { signal: this.#stopping.signal })
      const reasons = [...damaged].map(([name, reason]) => `${store.locate(name)}: ${reason}`)
      if (reasons.length > 0)
        this.#report(reasons.join('; '), 'the Iceberg table lacks damaged files of the lake; run storefront lake repair')
      else this.#reported = ''
    } catch (error) {
      if (this.#stopping.signal.aborted) return
      this.#report(error instanceof Error ? error.message : String(error), 'the Iceberg table of the lake cannot be written; it is retried')
    }
  }

  #report(reason: string, message: string): void {
    if (reason !== this.#reported) this.#options.logger.warn({ reason }, message)
    this.#reported = reason
  }
}

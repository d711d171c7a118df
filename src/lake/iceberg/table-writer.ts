import type { Logger } from 'pino'
import { REMEDY } from '../find-damage.ts'
import type { LakeStore } from '../lake-store.ts'
import { commitEvents } from './commit-events.ts'

export interface TableWriterOptions {
  store: LakeStore
  /** The pause between two commits. */
  seconds: number
  logger: Logger
  /** Milliseconds since 1970. */
  now?: () => number
}

/** The same reason is logged again after this time. */
const REPEAT_MS = 600_000

/** Commits the lake's new files to the tables of events from time to time. Several processes may do so at once. */
export class TableWriter {
  readonly #options: TableWriterOptions
  readonly #stopping = new AbortController()
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> | null = null
  readonly #now: () => number
  /** What was logged last: it is retried every few minutes. */
  #reported = { reason: '', at: 0 }
  /** When the table last had every file of the lake; before that, when the writer was made. */
  #completeAt: number

  constructor(options: TableWriterOptions) {
    this.#options = options
    this.#now = options.now ?? Date.now
    this.#completeAt = this.#now()
  }

  /** For how long a commit that gives the table every file of the lake has been due; 0 while it is not. */
  get overdueSeconds(): number {
    return Math.max(0, (this.#now() - this.#completeAt) / 1_000 - this.#options.seconds)
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
    const { store, logger } = this.#options
    const onLost = (name: string) =>
      logger.warn({ file: store.locate(name) }, `a file of the lake is gone, and its events are in no table: ${REMEDY}`)
    const begunAt = this.#now()
    try {
      const { damaged } = await commitEvents(store, { signal: this.#stopping.signal, onLost })
      const reasons = [...damaged].map(([name, reason]) => `${store.locate(name)}: ${reason}`)
      if (reasons.length > 0) return this.#report(reasons.join('; '), 'the Iceberg tables lack damaged files of the lake')
      this.#reported.reason = ''
      this.#completeAt = begunAt
    } catch (error) {
      if (this.#stopping.signal.aborted) return
      this.#report(error instanceof Error ? error.message : String(error), 'the Iceberg table of the lake cannot be written; it is retried')
    }
  }

  #report(reason: string, message: string): void {
    const at = this.#now()
    if (reason === this.#reported.reason && at - this.#reported.at < REPEAT_MS) return
    this.#options.logger.warn({ reason }, message)
    this.#reported = { reason, at }
  }
}

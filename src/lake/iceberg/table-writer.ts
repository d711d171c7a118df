import type { Logger } from 'pino'
import { Loop } from '../../loop.ts'
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
const CANNOT_WRITE = 'the Iceberg table of the lake cannot be written; it is retried'

/** Commits the lake's new files to the tables of events from time to time. Several processes may do so at once. */
export class TableWriter {
  readonly #options: TableWriterOptions
  readonly #loop: Loop
  readonly #now: () => number
  /** What was logged last: it is retried every few minutes. */
  #reported = { reason: '', at: 0 }
  /** When the table last had every file of the lake; before that, when the writer was made. */
  #completeAt: number

  constructor(options: TableWriterOptions) {
    this.#options = options
    this.#now = options.now ?? Date.now
    this.#completeAt = this.#now()
    const everyMs = options.seconds * 1_000
    this.#loop = new Loop({
      ...{ firstMs: everyMs, everyMs },
      work: (signal) => this.#commit(signal),
      onFailure: (error) => this.#report(error instanceof Error ? error.message : String(error), CANNOT_WRITE),
    })
  }

  /** For how long a commit that gives the table every file of the lake has been due; 0 while it is not. */
  get overdueSeconds(): number {
    return Math.max(0, (this.#now() - this.#completeAt) / 1_000 - this.#options.seconds)
  }

  start(): Promise<void> {
    return this.#loop.start()
  }

  /** Waits for the file that is being registered. */
  stop(): Promise<void> {
    return this.#loop.stop()
  }

  async #commit(signal: AbortSignal): Promise<void> {
    const { store, logger } = this.#options
    const onLost = (name: string) =>
      logger.warn({ file: store.locate(name) }, `a file of the lake is gone, and its events are in no table: ${REMEDY}`)
    const begunAt = this.#now()
    const { damaged } = await commitEvents(store, { signal, onLost })
    const reasons = [...damaged].map(([name, reason]) => `${store.locate(name)}: ${reason}`)
    if (reasons.length > 0) return this.#report(reasons.join('; '), 'the Iceberg tables lack damaged files of the lake')
    this.#reported.reason = ''
    this.#completeAt = begunAt
  }

  #report(reason: string, message: string): void {
    const at = this.#now()
    if (reason === this.#reported.reason && at - this.#reported.at < REPEAT_MS) return
    this.#options.logger.warn({ reason }, message)
    this.#reported = { reason, at }
  }
}

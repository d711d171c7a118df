import type { Logger } from 'pino'
import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { OperatorError } from '../errors.ts'
import { type ActivityEnd, findActivityEnd, nameAfter } from './activity-files.ts'
import type { LakeStore } from './lake-store.ts'
import { writeActivities } from './write-activities.ts'

export interface ActivityWriterOptions {
  pool: Pool
  store: LakeStore
  /** The pause between two files. */
  flushSeconds: number
  /** The greatest number of rows in a file and in memory. */
  fileRows?: number
  logger: Logger
}

/** The lake has activities that this database has not given yet: it was restored, or is another one. */
class ActivitiesAhead extends OperatorError {
  override readonly name = 'ActivitiesAhead'
}

interface Candidate {
  upTo: number
  /** Every transaction that may have drawn an id up to `upTo` is older. */
  transactionId: string
}

/**
 * Copies activities to the lake, each to exactly one file, in order of id. The name of a file is the position that it follows, so a
 * conditional write decides which process continues. See docs/decisions/0210.
 */
export class ActivityWriter {
  readonly #options: ActivityWriterOptions
  #end: ActivityEnd | null = null
  #candidate: Candidate | null = null
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> | null = null
  #failure: string | null = null

  constructor(options: ActivityWriterOptions) {
    this.#options = options
  }

  async start(): Promise<void> {
    this.#timer ??= setInterval(() => this.#writeLater(), this.#options.flushSeconds * 1_000)
  }

  /** Idempotent, safe before start. Waits for the file that is being written. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#writing
  }

  /**
   * Writes the activities that no transaction in flight can precede, from where the lake's files end. Returns their number. Throws ActivitiesAhead,
   * ActivitiesUnreadable, or what database and store throw; the next call continues.
   */
  async write(): Promise<number> {
    const { store } = this.#options
    for (let [written, taken] = [0, -1]; ; ) {
      this.#end = await findActivityEnd(store, this.#end)
      if (this.#end.id === taken)
        throw new OperatorError(`${store.locate(nameAfter(taken))} has the name of the next file and is not a file: move it away`)
      const upTo = await this.#findSettled(this.#end.id)
      const stored = await writeActivities(this.#options, this.#end.id, upTo)
      written += stored.written
      if (!stored.isTaken) return written
      // Another process has continued from here.
      taken = this.#end.id
    }
  }

  /** The id up to which every transaction has ended; `end` when nothing new has. */
  async #findSettled(end: number): Promise<number> {
    const { pool, store } = this.#options
    const { rows } = await pool.query<{ visible: number; given: number }>(
      sql`select coalesce(max(id), 0)::bigint as visible, newest_activity_id() as given from activities`,
    )
    const { visible = 0, given = 0 } = rows[0] ?? {}
    if (given < end) {
      throw new ActivitiesAhead(
        `${store.locate('activities/')} has activities up to ${end}, and this database has given ids up to ${given}: stop the outdated store, or run storefront replay --restored`,
      )
    }
    if (this.#candidate === null && visible > end) {
      // A separate statement: a transaction that drew an id up to `visible` had its own id before, which is smaller than this one.
      const { rows: own } = await pool.query<{ id: string }>(sql`select pg_current_xact_id()::text as id`)
      this.#candidate = { upTo: visible, transactionId: own[0]?.id ?? '' }
    }
    if (this.#candidate === null) return end
    const { upTo, transactionId } = this.#candidate
    const { rows: settled } = await pool.query<{ is_settled: boolean }>(
      sql`select pg_snapshot_xmin(pg_current_snapshot()) > ${transactionId}::xid8 as is_settled`,
    )
    if (settled[0]?.is_settled !== true) return end
    this.#candidate = null
    return upTo
  }

  #writeLater(): void {
    if (this.#writing !== null) return
    const write = async () => {
      try {
        await this.write()
        this.#failure = null
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error)
        // Once for each reason: it is retried every few seconds.
        if (reason !== this.#failure) this.#options.logger.warn({ reason }, 'activities cannot be copied to the lake; it is retried')
        this.#failure = reason
      } finally {
        this.#writing = null
      }
    }
    this.#writing = write()
  }
}

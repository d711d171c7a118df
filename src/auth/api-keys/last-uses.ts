import type { Logger } from 'pino'
import { isTemporary } from '../../db/failures.ts'
import type { Pool } from '../../db/pool.ts'
import { Loop } from '../../loop.ts'

const FLUSH_MS = 2_000
/** All processes together write a key at most once in this time. */
const WRITE_EVERY_MS = 60_000

/** When each key was last used. Requests record this in memory, and a timer writes it. */
export class LastUses {
  readonly #pool: Pool
  readonly #now: () => Date
  readonly #writing: Loop
  readonly #used = new Map<string, Date>()
  /** When each key was written within the last minute, by performance.now(). */
  readonly #writtenAt = new Map<string, number>()

  constructor({ pool, logger, now }: { pool: Pool; logger: Logger; now: () => Date }) {
    this.#pool = pool
    this.#now = now
    this.#writing = new Loop({
      everyMs: FLUSH_MS,
      firstMs: FLUSH_MS,
      work: () => this.#write(false),
      // Other parts log database outages.
      onFailure(error) {
        if (!isTemporary(error)) logger.warn({ err: error }, 'the last uses of API keys could not be written, will retry')
      },
    })
  }

  note(keyId: string): void {
    this.#used.set(keyId, this.#now())
  }

  start(): Promise<void> {
    return this.#writing.start()
  }

  /** Writes the remaining uses, which are lost if the database is unavailable. Idempotent, safe before start. */
  async stop(): Promise<void> {
    await this.#writing.stop()
    await this.#write(true).catch(() => {})
  }

  async #write(isLast: boolean): Promise<void> {
    const nowMs = performance.now()
    for (const [id, at] of this.#writtenAt) if (nowMs - at >= WRITE_EVERY_MS) this.#writtenAt.delete(id)
    const due = [...this.#used].filter(([id]) => isLast || !this.#writtenAt.has(id))
    if (due.length === 0) return
    for (const [id] of due) this.#used.delete(id)
    try {
      // Skips rows that another process is writing, so writers never wait for each other.
      await this.#pool.query(
        `with due as (
          select api_keys.id, used.at
          from api_keys
          join unnest($1::uuid[], $2::timestamptz[]) as used (id, at) on used.id = api_keys.id
          where api_keys.last_used_at is null or api_keys.last_used_at <= used.at - make_interval(secs => $3)
          for no key update of api_keys skip locked
        )
        update api_keys set last_used_at = due.at from due where api_keys.id = due.id`,
        [due.map(([id]) => id), due.map(([, at]) => at), WRITE_EVERY_MS / 1000],
      )
      for (const [id] of due) this.#writtenAt.set(id, nowMs)
    } catch (error) {
      for (const [id, at] of due) if (!this.#used.has(id)) this.#used.set(id, at)
      throw error
    }
  }
}

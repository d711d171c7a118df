import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { isTimeout } from '../db/failures.ts'
import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'

/** Products of a batch at most, which ends after a fifth of a second. Caches are told up to 200 changed products by id. */
const BATCH_SIZE = 100
/** Leaves the database to orders between two batches. */
const PAUSE_MS = 20
const RETRY_MS = 5_000

/**
 * Records the products that were there before their events: those of a release that recorded none. It is at work once after such an update,
 * in batches, in every process, each in its turn; after a crash the next start continues. It must not start before the replication slot exists.
 */
export function createEventBackfill({ pool, logger }: { pool: Pool; logger: Logger }) {
  const stopping = new AbortController()
  let running: Promise<void> | undefined

  async function run(): Promise<void> {
    let batchSize = BATCH_SIZE
    while (!stopping.signal.aborted) {
      let pauseMs = PAUSE_MS
      try {
        const { rows } = await pool.query<{ has_more: boolean }>(sql`select backfill_product_events(${batchSize}) as has_more`)
        if (rows[0]?.has_more !== true) return
      } catch (error) {
        logger.warn({ err: error, batchSize }, 'existing products could not be recorded as events, will retry')
        // A slow database has time for fewer.
        if (isTimeout(error) && batchSize > 1) batchSize = Math.floor(batchSize / 2)
        else pauseMs = RETRY_MS
      }
      await delay(pauseMs, undefined, { signal: stopping.signal }).catch(() => {})
    }
  }

  return {
    async start(): Promise<void> {
      running ??= run()
    },
    /** Idempotent, safe before start. */
    async stop(): Promise<void> {
      stopping.abort()
      await running
    },
  }
}

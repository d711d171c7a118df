import type { Logger } from 'pino'
import { isTimeout } from '../db/failures.ts'
import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { Loop } from '../loop.ts'

/** The most products in a batch, which ends after 0.2 seconds. Caches are told up to 200 changed products by id. */
const BATCH_SIZE = 100
/** Leaves the database to orders between two batches. */
const PAUSE_MS = 20
const RETRY_MS = 5_000

/**
 * Records events for products from a release without events. Runs once after the update, in batches, and processes
 * take turns. After a crash the next start continues. Start it only after the replication slot exists.
 */
export function createEventBackfill({ pool, logger }: { pool: Pool; logger: Logger }): Loop {
  let batchSize = BATCH_SIZE
  return new Loop({
    everyMs: PAUSE_MS,
    retryMs: RETRY_MS,
    async work() {
      const { rows } = await pool.query<{ has_more: boolean }>(sql`select backfill_product_events(${batchSize}) as has_more`)
      return rows[0]?.has_more === true ? PAUSE_MS : 'done'
    },
    onFailure(error) {
      logger.warn({ err: error, batchSize }, 'existing products could not be recorded as events, will retry')
      // A slow database needs smaller batches.
      if (isTimeout(error)) batchSize = Math.max(1, Math.floor(batchSize / 2))
    },
  })
}

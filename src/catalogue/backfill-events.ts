import type { Logger } from 'pino'
import { isTimeout } from '../db/failures.ts'
import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { Loop } from '../loop.ts'

/** Products of a batch at most, which ends after a fifth of a second. Caches are told up to 200 changed products by id. */
const BATCH_SIZE = 100
/** Leaves the database to orders between two batches. */
const PAUSE_MS = 20
const RETRY_MS = 5_000

/**
 * Records existing products of a release that recorded no events. It runs once after such an update, in batches, in
 * every process in turn; after a crash the next start continues. It must not start before the replication slot exists.
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
      // A slow database has time for fewer.
      if (isTimeout(error)) batchSize = Math.max(1, Math.floor(batchSize / 2))
    },
  })
}

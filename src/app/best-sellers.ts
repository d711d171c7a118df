import type { Logger } from 'pino'
import { rankBestSellers } from '../catalogue/rank-best-sellers.ts'
import { isDatabaseOutage } from '../db/failures.ts'
import { loggableError } from '../db/loggable-error.ts'
import type { Pool } from '../db/pool.ts'
import { sqlState, TRANSACTION_TIMEOUT } from '../db/sql-state.ts'
import { Loop } from '../loop.ts'
import type { Service } from './service.ts'

/** The delay of the first run, which must not slow down the start. */
const FIRST_MS = 10_000
const MINUTE_MS = 60_000
const RETRY_MAX_MS = 15 * MINUTE_MS
/** The share of time that ranking may take. A shop with many sales needs seconds for one run. */
const SHARE = 0.001

/** Ranks best sellers. It runs in all API processes, and one process at a time finds the ranking due. */
export function createBestSellers({ pool, logger, firstMs = FIRST_MS }: { pool: Pool; logger: Logger; firstMs?: number }): Service {
  return new Loop({
    ...{ firstMs, everyMs: MINUTE_MS, retryMaxMs: RETRY_MAX_MS },
    async work(signal) {
      const startedAt = performance.now()
      await rankBestSellers(pool, { signal })
      return Math.max(MINUTE_MS, (performance.now() - startedAt) / SHARE)
    },
    onFailure(error, { retryMs }) {
      const message = `best sellers could not be ranked; that is retried in ${retryMs / MINUTE_MS} min`
      const level = isDatabaseOutage(error) && sqlState(error) !== TRANSACTION_TIMEOUT ? 'warn' : 'error'
      logger[level]({ err: loggableError(error) }, message)
    },
  })
}

import type { Logger } from 'pino'
import { isDatabaseOutage } from '../db/failures.ts'
import { loggableError } from '../db/loggable-error.ts'
import type { Pool } from '../db/pool.ts'
import { rollUpOrders } from '../figures/roll-up-orders.ts'
import { Loop } from '../loop.ts'
import type { Service } from './service.ts'

/** The first run waits, because it must not slow down the start. Later runs are at the beginning of each minute. */
const FIRST_MS = 5_000
const MINUTE_MS = 60_000
/** A process skips a run when another one has begun a run within this time. */
const NOT_WITHIN_SECONDS = 10

/** Computes the figures of orders once a minute. Nothing waits for it: while the database is unavailable, it pauses. */
export function createFigures({ pool, logger }: { pool: Pool; logger: Logger }): Service {
  return new Loop({
    firstMs: FIRST_MS,
    everyMs: MINUTE_MS,
    async work(signal) {
      await rollUpOrders(pool, { notWithinSeconds: NOT_WITHIN_SECONDS, signal })
      return MINUTE_MS - (Date.now() % MINUTE_MS)
    },
    onFailure(error) {
      const detail = { err: loggableError(error) }
      if (isDatabaseOutage(error)) logger.warn(detail, 'figures wait for the database')
      else logger.error(detail, 'the figures could not be stored; they are retried in a minute')
    },
  })
}

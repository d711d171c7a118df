import type { Logger } from 'pino'
import { isDatabaseOutage } from '../db/failures.ts'
import { loggableError } from '../db/loggable-error.ts'
import type { Pool } from '../db/pool.ts'
import { sqlState, TRANSACTION_TIMEOUT } from '../db/sql-state.ts'
import { rollUpOrders } from '../figures/roll-up-orders.ts'
import { Loop } from '../loop.ts'
import type { Service } from './service.ts'

/** The delay of the first run, which must not slow down the start. Later runs are at the beginning of each minute. */
const FIRST_MS = 5_000
const MINUTE_MS = 60_000
/** A process skips its run if another process began one within this time. */
const NOT_WITHIN_SECONDS = 10
/** The most orders with an unreadable history that are logged, each once. */
const MOST_LOGGED = 1_000

/** Computes the figures once a minute. Pauses while the database is unavailable. */
export function createFigures({ pool, logger }: { pool: Pool; logger: Logger }): Service {
  const logged = new Set<string>()
  const onUnreadable = (orderId: string, error: unknown) => {
    if (logged.has(orderId) || logged.size >= MOST_LOGGED) return
    logged.add(orderId)
    logger.error(
      { order_id: orderId, err: loggableError(error) },
      'the history of an order cannot be read; figures count the order as placed',
    )
  }
  return new Loop({
    firstMs: FIRST_MS,
    everyMs: MINUTE_MS,
    async work(signal) {
      await rollUpOrders(pool, { notWithinSeconds: NOT_WITHIN_SECONDS, signal, onUnreadable })
      return MINUTE_MS - (Date.now() % MINUTE_MS)
    },
    onFailure(error) {
      const detail = { err: loggableError(error) }
      // A transaction that takes too long does so again.
      if (isDatabaseOutage(error) && sqlState(error) !== TRANSACTION_TIMEOUT) logger.warn(detail, 'figures wait for the database')
      else logger.error(detail, 'the figures could not be stored; they are retried in a minute')
    },
  })
}

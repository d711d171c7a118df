import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import { loggableError } from '../db/loggable-error.ts'
import type { Pool } from '../db/pool.ts'
import type { JobQueue, QueueDefinition } from '../jobs/job-queue.ts'
import { type Erasure, eraseDueAddresses } from '../orders/erase-addresses.ts'
import { expireOrders } from '../orders/expire-orders.ts'
import { deleteExpiredKeys } from '../orders/placing/idempotency.ts'
import { eraseCopies } from './erase-copies.ts'
import type { Service } from './service.ts'

export const HOUSEKEEPING_QUEUE: QueueDefinition = {
  name: 'order-housekeeping',
  retryDelaySeconds: 60,
  retryDelayMaxSeconds: 60,
  keepSeconds: 3_600,
}
const EVERY_MINUTE = '* * * * *'

export interface HousekeepingOptions {
  pool: Pool
  jobs: JobQueue
  logger: Logger
  now: () => Date
}

/** What is erased of the orders of deleted accounts, and when. */
export function erasureOf({ retainOrderAddressDays }: Config): Erasure {
  return { eraseCopies, retainDays: retainOrderAddressDays }
}

/** Of orders, by scheduled jobs: in the processes of the API, which know the orders' settings and of which there is always one. */
export function createHousekeeping(config: Config, { pool, jobs, logger, now }: HousekeepingOptions): Service {
  const { pendingOrderTtlSeconds } = config
  const onFailed = (orderId: string, error: unknown) =>
    logger.error({ err: loggableError(error), orderId }, 'a pending order could not be cancelled; it is tried again in a minute')
  const expire = (ttlSeconds: number) => expireOrders(pool, ttlSeconds, now(), onFailed)
  return {
    async start() {
      await jobs.schedule(HOUSEKEEPING_QUEUE.name, EVERY_MINUTE, async () => {
        const deletedKeys = await deleteExpiredKeys(pool)
        const cancelledOrders = pendingOrderTtlSeconds === null ? 0 : await expire(pendingOrderTtlSeconds)
        const erasedAddresses = await eraseDueAddresses(pool, erasureOf(config), now())
        if (deletedKeys + cancelledOrders + erasedAddresses > 0)
          logger.info({ deletedKeys, cancelledOrders, erasedAddresses }, 'tidied up after orders')
      })
    },
    // The job queue stops its workers.
    async stop() {},
  }
}

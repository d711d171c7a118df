import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import type { Pool } from '../db/pool.ts'
import { expireOrders } from '../orders/expire-orders.ts'
import { deleteExpiredKeys } from '../orders/idempotency.ts'
import type { JobQueue, QueueDefinition } from '../pipeline/job-queue.ts'
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

/** Of orders, by scheduled jobs: in the processes of the API, which know the orders' settings and of which there is always one. */
export function createHousekeeping(config: Config, { pool, jobs, logger, now }: HousekeepingOptions): Service {
  const { pendingOrderTtlSeconds } = config
  return {
    async start() {
      await jobs.schedule(HOUSEKEEPING_QUEUE.name, EVERY_MINUTE, async () => {
        const deletedKeys = await deleteExpiredKeys(pool)
        const cancelledOrders = pendingOrderTtlSeconds === null ? 0 : await expireOrders(pool, pendingOrderTtlSeconds, now())
        if (deletedKeys + cancelledOrders > 0) logger.info({ deletedKeys, cancelledOrders }, 'tidied up after orders')
      })
    },
    // The job queue stops its workers.
    async stop() {},
  }
}

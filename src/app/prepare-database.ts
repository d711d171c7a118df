import type { Logger } from 'pino'
import { migrate } from '../db/migrate.ts'
import type { Pool } from '../db/pool.ts'
import { PURGE_QUEUE } from '../pipeline/cdn/purge-catalogue.ts'
import { ACCOUNT_MAIL_QUEUE } from '../pipeline/email/account-mail.ts'
import { EMAIL_QUEUE } from '../pipeline/email/email-subscriber.ts'
import { installJobQueues } from '../pipeline/job-queue.ts'
import { ensureReplicationSlot, slotNameFor } from '../pipeline/replication-slot.ts'
import { WEBHOOK_QUEUE } from '../pipeline/webhook/webhook-subscriber.ts'
import { HOUSEKEEPING_QUEUE } from './order-housekeeping.ts'

/** The queues of a store. */
export const JOB_QUEUES = [EMAIL_QUEUE, ACCOUNT_MAIL_QUEUE, WEBHOOK_QUEUE, PURGE_QUEUE, HOUSEKEEPING_QUEUE]

/** Brings schema, replication slot and job queue up to date. Several processes may do it at once. */
export async function prepareDatabase(url: string, pool: Pool, logger: Logger): Promise<void> {
  const applied = await migrate(url)
  if (applied.length > 0) logger.info({ applied }, 'migrated the database')
  const slot = await ensureReplicationSlot(pool, orderSlotOf(url))
  if (slot === 'lost') logger.error('the replication slot of the order stream is gone: order changes since then are not published')
  await installJobQueues({ url, logger, queues: JOB_QUEUES })
}

/** The replication slot of the order stream of the database at this address. */
export function orderSlotOf(url: string): string {
  return slotNameFor(decodeURIComponent(new URL(url).pathname.slice(1)))
}

import { statfs } from 'node:fs/promises'
import type { Config } from '../config.ts'
import type { Pool } from '../db/pool.ts'
import type { Metrics } from '../operations/metrics.ts'
import { PURGE_QUEUE } from '../pipeline/cdn/purge-catalogue.ts'
import { ACCOUNT_MAIL_QUEUE } from '../pipeline/email/account-mail.ts'
import { readMailQueue } from '../pipeline/email/email-deliveries.ts'
import { EMAIL_QUEUE } from '../pipeline/email/email-subscriber.ts'
import { readJobQueue } from '../pipeline/job-queue.ts'
import { countDeadLetters } from '../pipeline/parked-changes.ts'
import { readSlotStatus } from '../pipeline/replication-slot.ts'
import { readWebhookQueue } from '../pipeline/webhook/webhook-deliveries.ts'
import { countEndpoints } from '../pipeline/webhook/webhook-endpoints.ts'
import { WEBHOOK_QUEUE } from '../pipeline/webhook/webhook-subscriber.ts'
import { orderSlotOf } from './prepare-database.ts'

/** What every process knows of the whole store: the dead processes of a role can report nothing themselves. */
export function watchStore(metrics: Metrics, config: Pick<Config, 'roles' | 'expectedRoles' | 'dataDir'>, pool: Pool, url: string): void {
  metrics.setRoles(config.roles, config.expectedRoles)
  metrics.watchDatabase(() => pool.query('select 1'))
  metrics.watchSlot(() => readSlotStatus(pool, orderSlotOf(url)))
  metrics.watchQueue(EMAIL_QUEUE.name, () => readMailQueue(pool))
  metrics.watchQueue(WEBHOOK_QUEUE.name, () => readWebhookQueue(pool))
  for (const { name } of [ACCOUNT_MAIL_QUEUE, PURGE_QUEUE]) metrics.watchQueue(name, () => readJobQueue(pool, name))
  metrics.watchDeadLetters(() => countDeadLetters(pool))
  metrics.watchWebhookEndpoints(() => countEndpoints(pool))
  metrics.watchDisk(() => readDisk(config.dataDir))
}

/** Null while there is no such folder: with a database of one's own nothing may ever be written to it. */
async function readDisk(folder: string): Promise<{ freeBytes: number; sizeBytes: number } | null> {
  try {
    const { bsize, bavail, blocks } = await statfs(folder)
    return { freeBytes: bsize * bavail, sizeBytes: bsize * blocks }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

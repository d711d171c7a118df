import { statfs } from 'node:fs/promises'
import { countDeadLetters } from '../change-stream/dead-letters.ts'
import { readSlotStatus } from '../change-stream/replication-slot.ts'
import type { Config } from '../config.ts'
import { readClockDifference } from '../db/clock.ts'
import type { Pool } from '../db/pool.ts'
import { readQueueLength } from '../deliveries/delivery-kind.ts'
import type { Metrics } from '../operations/metrics.ts'
import { countEndpoints } from '../webhooks/webhook-endpoints.ts'
import { DELIVERY_KINDS } from './create-subscribers.ts'
import { catalogueSlotOf, orderSlotOf } from './prepare-database.ts'

/**
 * Measures the store's disk and backlog. Every process reports these metrics, because a dead process cannot report its
 * own.
 */
export function watchStore(metrics: Metrics, config: Pick<Config, 'roles' | 'expectedRoles' | 'dataDir'>, pool: Pool, url: string): void {
  metrics.setRoles(config.roles, config.expectedRoles)
  metrics.watchDatabase(() => readClockDifference(pool, Date.now))
  metrics.watchSlot(() => readSlotStatus(pool, orderSlotOf(url)))
  metrics.watchSlot(() => readSlotStatus(pool, catalogueSlotOf(url)), 'catalogue_stream')
  for (const kind of DELIVERY_KINDS) metrics.watchQueue(kind.name, () => readQueueLength(pool, kind))
  metrics.watchDeadLetters(() => countDeadLetters(pool))
  metrics.watchWebhookEndpoints(() => countEndpoints(pool))
  metrics.watchDisk(() => readDisk(config.dataDir))
}

/**
 * The free and total bytes of a folder's disk. Null while the folder does not exist: with DATABASE_URL the store does
 * not create it.
 */
export async function readDisk(folder: string): Promise<{ freeBytes: number; sizeBytes: number } | null> {
  try {
    const { bsize, bavail, blocks } = await statfs(folder)
    return { freeBytes: bsize * bavail, sizeBytes: bsize * blocks }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

import { setTimeout as delay } from 'node:timers/promises'
import type { Pool } from '../../db/pool.ts'
import { openReplication } from '../replication-connection.ts'
import { createReplicationSlot, findLostReason } from '../replication-slot.ts'

const SLOT_IN_USE = '55006'
const RETRY_MS = 100
const MAX_ATTEMPTS = 100
// Far below the wal_sender_timeout that the connection asks for.
const STATUS_INTERVAL_MS = 2_000

/** The slot, kept from its readers. */
export interface HeldSlot {
  /** Lets the change stream have it. Idempotent. */
  release(): Promise<void>
}

/**
 * Makes a slot anew that was lost, and holds it, so that a change stream which waits for it publishes nothing newer before the older
 * changes are refilled. Whatever is committed from here on, the slot tells of; whatever was before is in `orders` by now.
 */
export async function renewSlot(pool: Pool, url: string, slotName: string): Promise<HeldSlot> {
  if ((await findLostReason(pool, slotName)) === null) throw new Error(`the replication slot ${slotName} is not lost`)
  await dropSlot(pool, slotName)
  await createReplicationSlot(pool, slotName)
  return holdSlot(url, slotName)
}

// A reader that tries to open it holds the lost slot for a moment.
async function dropSlot(pool: Pool, slotName: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await pool.query('select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = $1', [slotName])
      return
    } catch (error) {
      if (attempt === MAX_ATTEMPTS || (error as { code?: string }).code !== SLOT_IN_USE) throw error
      await delay(RETRY_MS)
    }
  }
}

/** Keeps the slot from its readers, unless one has it. */
export async function holdSlot(url: string, slotName: string): Promise<HeldSlot> {
  try {
    // What it sends is dropped and never confirmed: the next reader gets it again.
    const connection = await openReplication(url, slotName, () => {})
    connection.ended.catch(() => {})
    connection.pause()
    const timer = setInterval(() => connection.confirm(0n), STATUS_INTERVAL_MS)
    return {
      async release() {
        clearInterval(timer)
        await connection.close().catch(() => {})
      },
    }
  } catch (error) {
    // A change stream was faster. Nothing is lost by that: only the order of an order's events may be.
    if ((error as { code?: string }).code === SLOT_IN_USE) return { release: async () => {} }
    throw error
  }
}

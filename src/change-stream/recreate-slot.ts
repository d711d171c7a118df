import { setTimeout as delay } from 'node:timers/promises'
import { connectClient } from '../db/pool.ts'
import { DUPLICATE_OBJECT, OBJECT_IN_USE, sqlState } from '../db/sql-state.ts'
import { createReplicationSlot, untilCreated } from './replication-slot.ts'

const RETRY_MS = 100
const MAX_ATTEMPTS = 100

/**
 * Drops a slot that has lost its WAL, and creates it where there is none. Keeps one that is not lost: another process may have recreated it. Returns
 * when the slot delivers every commit that is not visible by then.
 */
export async function recreateLostSlot(url: string, slotName: string): Promise<void> {
  await using stream = await connectClient(url, 'storefront-slot')
  // A reader that tries to open the lost slot uses it for a moment.
  await whileInUse(() =>
    stream.query(`select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = $1 and wal_status = 'lost'`, [
      slotName,
    ]),
  )
  while (!(await untilCreated(stream, slotName))) {
    await createReplicationSlot(stream, slotName).catch((error) => {
      if (sqlState(error) !== DUPLICATE_OBJECT) throw error
    })
  }
}

/** Retries `work` for ten seconds while a process uses the slot. */
export async function whileInUse<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      if (attempt === MAX_ATTEMPTS || sqlState(error) !== OBJECT_IN_USE) throw error
      await delay(RETRY_MS)
    }
  }
}

import { setTimeout as pause } from 'node:timers/promises'
import type { Pool } from '../src/db/pool.ts'

/** Waits until the slot of orders or of the catalogue has confirmed `position`, the position of a message. */
export async function untilConfirmed(pool: Pool, position: string, slot: '_orders' | '_catalogue' = '_orders'): Promise<void> {
  const lsn = BigInt(`0x${position.split('/')[1]}`)
  while (true) {
    const { rowCount } = await pool.query(
      `select from pg_replication_slots where database = current_database() and slot_name ~ $2 and confirmed_flush_lsn >= '0/0'::pg_lsn + $1::numeric`,
      [String(lsn), slot],
    )
    if (rowCount === 1) return
    await pause(5)
  }
}

import { setTimeout as pause } from 'node:timers/promises'
import type { Pool } from '../src/db/pool.ts'

/** Returns when the slot has confirmed `position`, the position of a message. */
export async function untilConfirmed(pool: Pool, position: string): Promise<void> {
  const lsn = BigInt(`0x${position.split('/')[1]}`)
  while (true) {
    const { rowCount } = await pool.query(
      `select from pg_replication_slots where database = current_database() and confirmed_flush_lsn >= '0/0'::pg_lsn + $1::numeric`,
      [String(lsn)],
    )
    if (rowCount === 1) return
    await pause(5)
  }
}

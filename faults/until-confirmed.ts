import { setTimeout as pause } from 'node:timers/promises'
import type { Pool } from '../src/db/pool.ts'

/** Returns once PostgreSQL was told that it need not give again what was read up to `position`, which is that of a message. */
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

import { setTimeout as delay } from 'node:timers/promises'
import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { OperatorError } from '../errors.ts'

const POLL_MS = 20
const MAX_WAIT_MS = 120_000

/**
 * Waits until the change stream has published what was committed up to `position`, so that an import is never more than one batch ahead and orders
 * that are placed meanwhile do not wait behind it. Returns at once when no stream runs: then nothing waits. Throws OperatorError after two minutes.
 */
export async function untilPublished(pool: Pool, slotName: string, position: string): Promise<void> {
  const deadline = performance.now() + MAX_WAIT_MS
  for (;;) {
    const { rows } = await pool.query<{ is_behind: boolean }>(sql`select active and confirmed_flush_lsn < ${position}::pg_lsn as is_behind
      from pg_replication_slots
      where slot_name = ${slotName}`)
    if (rows[0]?.is_behind !== true) return
    if (performance.now() > deadline) {
      throw new OperatorError(
        'the change stream publishes nothing: see /readyz of its process; the import continues where it was when it is run again',
      )
    }
    await delay(POLL_MS)
  }
}

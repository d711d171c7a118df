import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'

/** Products in one transaction while orders arrive, whose events wait behind the products' events. */
export const BUSY_BATCH_SIZE = 100
/** A store is busy if its last order is at most this old. */
const BUSY_SECONDS = 10

/**
 * Whether a change of many products must pause between its batches. Such a change takes most of a database processor
 * and delays orders and their events. See docs/decisions/catalogue-writing.md.
 */
export async function hasRecentOrders(pool: Pool): Promise<boolean> {
  const { rows } = await pool.query(sql`select from orders where created_at > now() - make_interval(secs => ${BUSY_SECONDS}) limit 1`)
  return rows.length > 0
}

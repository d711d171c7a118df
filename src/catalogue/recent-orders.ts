import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'

/** Products of one transaction while orders come in: their events wait behind those of the products. */
export const BUSY_BATCH_SIZE = 100
/** A store whose last order is older is not busy. */
const BUSY_SECONDS = 10

/**
 * Whether a change of many products pauses between its batches: it takes most of a processor of the database, for which orders and their
 * events would wait. See docs/decisions/catalogue-writing.md.
 */
export async function hasRecentOrders(pool: Pool): Promise<boolean> {
  const { rows } = await pool.query(sql`select from orders where created_at > now() - make_interval(secs => ${BUSY_SECONDS}) limit 1`)
  return rows.length > 0
}

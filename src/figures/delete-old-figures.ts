import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { KEPT_DAYS } from './roll-up-orders.ts'

/** Deletes figures that are older than any that is shown. Returns their number. */
export async function deleteOldFigures(pool: Pool, now: Date): Promise<number> {
  const oldest = new Date(now.getTime() - KEPT_DAYS * 86_400_000)
  const statements = [sql`delete from order_figures where minute < ${oldest}`, sql`delete from product_figures where slice < ${oldest}`]
  let deleted = 0
  for (const statement of statements) deleted += (await pool.query(statement)).rowCount ?? 0
  return deleted
}

import type { Pool } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'

/** Whether a customer has not proven its address, and was not moved in from another shop either: such an account costs as little as a guest. */
export async function isUnproven(pool: Pool, userId: string): Promise<boolean> {
  const { rowCount } = await pool.query(
    sql`select
    from users
    where id = ${userId} and role = 'customer' and email_verified_at is null
      and not exists (select from imported_customers where imported_customers.user_id = users.id)`,
  )
  return rowCount !== 0
}

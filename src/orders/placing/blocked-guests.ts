import type { Pool } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'

/**
 * Whether a guest has the address of a customer that the shop has blocked. The customer must have proven the address:
 * otherwise anybody could register the address of another person, and have it blocked.
 */
export async function isBlockedAddress(pool: Pool, guestId: string): Promise<boolean> {
  const { rowCount } = await pool.query(
    sql`select
    from users as guest
    join users as customer on customer.email = guest.email and customer.role <> 'guest'
    where guest.id = ${guestId} and customer.blocked_at is not null and customer.email_verified_at is not null`,
  )
  return rowCount !== 0
}

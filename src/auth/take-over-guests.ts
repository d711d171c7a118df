import type { Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'

/** The number is limited, because an account's lists read the orders of each guest. */
export const MAX_GUESTS = 1_000

/**
 * Gives an account the orders of all guests with its address. Call it only in the transaction that uses up a token
 * mailed to that address, or links a provider that has proven it. Ends the guests' sessions, so a person who only typed
 * the address cannot read or order any more. A guest stays if an operator has redirected an order's mails, since its
 * address was wrong. Returns the ids of the sessions.
 */
export async function takeOverGuests(tx: Transaction, owner: { id: string; email: string }, now: Date): Promise<string[]> {
  // Skips guests without orders, so a stranger cannot use up the limit with them.
  const { rows: guests } = await tx.query<{ id: string }>(
    sql`with taken as (
      select id
      from users
      where email = ${owner.email} and role = 'guest' and owner_id is null and exists (select from orders where user_id = users.id)
        and not exists (select from orders where user_id = users.id and orders.email <> users.email)
      order by created_at desc
      limit greatest(0, ${MAX_GUESTS} - (select count(*) from users where owner_id = ${owner.id}))
      for update
    )
    update users
    set owner_id = ${owner.id}, guest_expires_at = null
    from taken
    where users.id = taken.id
    returning users.id`,
  )
  if (guests.length === 0) return []
  const { rows } = await tx.query<{ id: string }>(
    sql`update sessions set revoked_at = ${now} where user_id = any(${guests.map(({ id }) => id)}::uuid[]) and revoked_at is null returning id`,
  )
  return rows.map(({ id }) => id)
}

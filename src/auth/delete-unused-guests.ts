import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'

const GUESTS_AT_ONCE = 1_000

/**
 * Deletes guests without orders whose sessions have been idle since their day of expiry. Guests with orders are kept
 * permanently; a used session gives another day. Several processes may run it at once. Returns the number of deleted
 * guests.
 */
export async function deleteUnusedGuests(pool: Pool): Promise<number> {
  for (let deleted = 0; ; ) {
    const { rows } = await pool.query<{ checked: number; deleted: number }>(
      sql`with due as (
        select id, guest_expires_at,
          exists (select from orders where user_id = users.id) as has_orders,
          exists (
            select from sessions
            where user_id = users.id and revoked_at is null and last_used_at > now() - interval '1 day'
          ) as is_in_use
        from users
        where guest_expires_at < now()
        order by guest_expires_at
        limit ${GUESTS_AT_ONCE}
        for update of users skip locked
      ), kept as (
        update users
        set guest_expires_at = case when due.has_orders then null else now() + interval '1 day' end
        from due
        where users.id = due.id and (due.has_orders or due.is_in_use)
      ), gone as (
        delete from users using due where users.id = due.id and not (due.has_orders or due.is_in_use) returning users.id
      )
      select (select count(*) from due)::int as checked, (select count(*) from gone)::int as deleted`,
    )
    const { checked = 0, deleted: gone = 0 } = rows[0] ?? {}
    deleted += gone
    if (checked < GUESTS_AT_ONCE) return deleted
  }
}

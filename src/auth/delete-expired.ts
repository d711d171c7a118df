import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { REMEMBER_SECONDS } from './tokens/revocations.ts'
import { eraseRetiredPrivateKeys } from './tokens/signing-keys.ts'

const STATEMENTS = [
  sql`delete from session_revocations
  where revoked_at < now() - make_interval(secs => ${REMEMBER_SECONDS})
    and (last_issued_at is null or last_issued_at < now() - make_interval(secs => ${REMEMBER_SECONDS}))`,
  // Deleting a session deletes its tokens.
  sql`delete from sessions
  where expires_at < now() - interval '1 day' or revoked_at < now() - interval '7 days' or last_used_at < now() - interval '31 days'`,
  sql`delete from refresh_tokens where expires_at < now() - interval '1 day'`,
  sql`delete from password_resets where expires_at < now()`,
  sql`delete from pending_registrations where expires_at < now()`,
  // Deleting a change deletes the addresses in it.
  sql`delete from email_changes where expires_at < now()`,
  sql`delete from auth_challenges where expires_at < now()`,
  sql`delete from totp_authenticators where confirmed_at is null and created_at < now() - interval '1 day'`,
  sql`delete from oidc_sign_ins where expires_at < now()`,
  sql`delete from oidc_codes where expires_at < now()`,
  // Mails that no process with the role `email` has sent or given up.
  sql`delete from account_mails where expires_at < now() - interval '1 day'`,
  sql`delete from signing_keys where retired_at < now() - interval '1 day'`,
  sql`delete from rate_limits where expire < extract(epoch from now()) * 1000`,
] as const

/**
 * Deletes sessions, tokens, mails, keys and limits that expired long ago and are no longer read. Idempotent. Returns
 * the number of rows.
 */
export async function deleteExpired(pool: Pool): Promise<number> {
  await eraseRetiredPrivateKeys(pool)
  let deleted = 0
  for (const statement of STATEMENTS) deleted += (await pool.query(statement)).rowCount ?? 0
  return deleted
}

const GUESTS_AT_ONCE = 1_000

/**
 * Deletes expired guests without orders and without a session used in the last day. A used session extends a guest by a
 * day; guests with orders stay permanently. Several processes may run this at once. Returns the number of deleted
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

import { isDatabaseOutage } from '../db/failures.ts'
import { deleteInBatches } from '../db/in-batches.ts'
import type { Pool } from '../db/pool.ts'
import { type Sql, sql } from '../db/sql.ts'
import { REMEMBER_SECONDS } from './tokens/revocations.ts'
import { eraseRetiredPrivateKeys } from './tokens/signing-keys.ts'

/** The rows of each table that are no longer read. */
const EXPIRED: readonly (readonly [table: string, condition: Sql])[] = [
  [
    'session_revocations',
    sql`revoked_at < now() - make_interval(secs => ${REMEMBER_SECONDS})
    and (last_issued_at is null or last_issued_at < now() - make_interval(secs => ${REMEMBER_SECONDS}))`,
  ],
  // Deleting a session deletes its tokens.
  [
    'sessions',
    sql`expires_at < now() - interval '1 day' or revoked_at < now() - interval '7 days' or last_used_at < now() - interval '31 days'`,
  ],
  ['refresh_tokens', sql`expires_at < now() - interval '1 day'`],
  ['password_resets', sql`expires_at < now()`],
  ['pending_registrations', sql`expires_at < now()`],
  // Deleting a change deletes the addresses in it.
  ['email_changes', sql`expires_at < now()`],
  ['auth_challenges', sql`expires_at < now()`],
  ['totp_authenticators', sql`confirmed_at is null and created_at < now() - interval '1 day'`],
  ['oidc_sign_ins', sql`expires_at < now()`],
  ['oidc_codes', sql`expires_at < now()`],
  // Mails that no process with the role `email` has sent or given up.
  ['account_mails', sql`expires_at < now() - interval '1 day'`],
  ['signing_keys', sql`retired_at < now() - interval '1 day'`],
  ['rate_limits', sql`expire < extract(epoch from now()) * 1000`],
]

/**
 * Deletes sessions, tokens, mails, keys and limits that expired long ago and are no longer read. Idempotent. Returns
 * the number of rows. A table that fails keeps no other one from being cleaned.
 */
export async function deleteExpired(pool: Pool): Promise<number> {
  await eraseRetiredPrivateKeys(pool)
  const failures: unknown[] = []
  let deleted = 0
  for (const [table, condition] of EXPIRED) {
    try {
      deleted += await deleteInBatches(pool, table, condition)
    } catch (error) {
      if (isDatabaseOutage(error)) throw error
      failures.push(error)
    }
  }
  if (failures.length > 0) throw failures[0]
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

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
  // Deleting a change deletes the addresses that it had.
  sql`delete from email_changes where expires_at < now()`,
  sql`delete from auth_challenges where expires_at < now()`,
  sql`delete from totp_authenticators where confirmed_at is null and created_at < now() - interval '1 day'`,
  sql`delete from oidc_sign_ins where expires_at < now()`,
  sql`delete from oidc_codes where expires_at < now()`,
  sql`delete from signing_keys where retired_at < now() - interval '1 day'`,
  sql`delete from rate_limits where expire < extract(epoch from now()) * 1000`,
] as const

/** Deletes sessions, tokens, keys and limits that expired long enough ago that nothing reads them. Idempotent. Returns the number of rows. */
export async function deleteExpired(pool: Pool): Promise<number> {
  await eraseRetiredPrivateKeys(pool)
  let deleted = 0
  for (const statement of STATEMENTS) deleted += (await pool.query(statement)).rowCount ?? 0
  return deleted
}

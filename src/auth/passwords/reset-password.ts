import { randomUUIDv7 } from 'node:crypto'
import { sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import type { Client } from '../client.ts'
import type { AuthContext } from '../context.ts'
import { parseEmail } from '../email-address.ts'
import { revokeSessionsOf } from '../sessions.ts'
import { hashToken, newToken } from '../tokens/opaque-token.ts'
import { findUserByEmail } from '../users.ts'
import { invalidOneTimeToken } from '../verify-email.ts'

const TOKEN_MS = 30 * 60_000
const NOTICE_MS = 24 * 3_600_000

/** Mails a one-time token to the account with this address. Does the same work for an unknown address. Throws `rate_limited`. */
export async function requestPasswordReset(context: AuthContext, address: string, client: Client): Promise<void> {
  const { pool, throttle, sendAccountMail, now } = context
  const email = parseEmail(address)
  await throttle.countPasswordReset(client, email)
  const mayMail = await throttle.countMail(email)
  const token = newToken()
  const expiresAt = new Date(now().getTime() + TOKEN_MS)
  const user = await inTransaction(pool, async (tx) => {
    const user = await findUserByEmail(tx, email)
    await tx.query(sql`insert into password_resets (token_hash, user_id, expires_at)
      values (${hashToken(token)}, ${user?.id ?? randomUUIDv7()}, ${expiresAt})`)
    const mail = user !== null && mayMail ? ({ kind: 'reset_password', to: email, token } as const) : ({ kind: 'none' } as const)
    await sendAccountMail(tx, { ...mail, expiresAt })
    return user
  })
  client.record('password_reset_requested', user === null ? { reason: 'unknown account' } : { user_id: user.id })
}

/** Sets a new password by a mailed token and ends every session. Throws `invalid_one_time_token`, `password_too_common`. */
export async function confirmPasswordReset(
  context: AuthContext,
  input: { token: string; password: string },
  client: Client,
): Promise<void> {
  const { pool, passwords, revocations, sendAccountMail, now } = context
  const owner = await findOwner(context, input.token)
  if (owner === null) throw invalidOneTimeToken()
  passwords.assertAcceptable(input.password, owner.email)
  const passwordHash = await passwords.hash(input.password)
  const ended = await inTransaction(pool, async (tx) => {
    // Deleting the token uses it: the second of two parallel requests finds none.
    const { rowCount } = await tx.query('delete from password_resets where token_hash = $1', [hashToken(input.token)])
    if (rowCount === 0) throw invalidOneTimeToken()
    await tx.query('delete from password_resets where user_id = $1', [owner.user_id])
    // The token was mailed: its holder has the mailbox.
    await tx.query(sql`update users set password_hash = ${passwordHash}, email_verified_at = coalesce(email_verified_at, ${now()})
      where id = ${owner.user_id}`)
    await sendAccountMail(tx, { kind: 'password_changed', to: owner.email, expiresAt: new Date(now().getTime() + NOTICE_MS) })
    return revokeSessionsOf(tx, owner.user_id, null, now())
  })
  revocations.add(...ended)
  client.record('password_reset', { user_id: owner.user_id })
}

async function findOwner({ pool, now }: AuthContext, token: string): Promise<{ user_id: string; email: string } | null> {
  const { rows } = await pool.query<{ user_id: string; email: string }>(
    `select password_resets.user_id, users.email
    from password_resets
    join users on users.id = password_resets.user_id
    where password_resets.token_hash = $1 and password_resets.expires_at > $2`,
    [hashToken(token), now()],
  )
  return rows[0] ?? null
}

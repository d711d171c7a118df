import { randomUUIDv7 } from 'node:crypto'
import type { Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import { type AccountRole, isOperatorRole } from '../../http/scopes.ts'
import type { Language } from '../../language.ts'
import type { Client } from '../client.ts'
import { type AuthContext, sendNotice } from '../context.ts'
import { parseEmail } from '../email-address.ts'
import { withdrawChanges } from '../email-change/email-changes.ts'
import { deleteChallengesOf } from '../factors/challenges.ts'
import { deleteAdded } from '../factors/reset-factors.ts'
import { revokeSessionsOf } from '../sessions.ts'
import { takeOverGuests } from '../take-over-guests.ts'
import { hashToken, newToken } from '../tokens/opaque-token.ts'
import { findUserByEmail } from '../users.ts'
import { invalidOneTimeToken } from '../verify-email.ts'

export const RESET_TOKEN_MS = 30 * 60_000

/**
 * Mails a one-time token to the account with this address. Does the same work for an unknown address. Throws
 * `rate_limited`.
 */
export async function requestPasswordReset(context: AuthContext, address: string, client: Client): Promise<void> {
  const { pool, throttle, sendAccountMail, now } = context
  const email = parseEmail(address)
  await throttle.countPasswordReset(client, email)
  const mayMail = await throttle.countMail(email, 'password reset')
  const user = await inTransaction(pool, async (tx) => {
    const user = await findUserByEmail(tx, email)
    const expiresAt = new Date(now().getTime() + RESET_TOKEN_MS)
    const token = await insertResetToken(tx, { id: user?.id ?? randomUUIDv7(), email }, expiresAt)
    const mail =
      user !== null && mayMail
        ? ({ kind: 'reset_password', to: email, language: user.language, token, isForConsole: isOperatorRole(user.role) } as const)
        : ({ kind: 'none' } as const)
    await sendAccountMail(tx, { ...mail, expiresAt })
    return user
  })
  client.record('password_reset_requested', user === null ? { reason: 'unknown account' } : { user_id: user.id })
}

/** Stores a token for a new password, valid while the account has this address. */
export async function insertResetToken(tx: Transaction, { id, email }: { id: string; email: string }, expiresAt: Date): Promise<string> {
  const token = newToken()
  await tx.query(sql`insert into password_resets (token_hash, user_id, expires_at, sent_to)
    values (${hashToken(token)}, ${id}, ${expiresAt}, ${email})`)
  return token
}

/**
 * Sets a new password by a mailed token and ends every session. Throws `invalid_one_time_token`, `password_too_common`.
 */
export async function confirmPasswordReset(
  context: AuthContext,
  input: { token: string; password: string },
  client: Client,
): Promise<void> {
  const { pool, passwords, revocations, now } = context
  const owner = await findOwner(context, input.token)
  if (owner === null) throw invalidOneTimeToken()
  await passwords.assertAcceptable(input.password, owner.email)
  const passwordHash = await passwords.hash(input.password)
  const ended = await inTransaction(pool, async (tx) => {
    // Deleting the token uses it up, so the second of two parallel requests fails.
    const { rowCount } = await tx.query('delete from password_resets where token_hash = $1', [hashToken(input.token)])
    if (rowCount === 0) throw invalidOneTimeToken()
    await tx.query('delete from password_resets where user_id = $1', [owner.user_id])
    await deleteChallengesOf(tx, owner.user_id)
    // A stranger may have requested these changes and hold a token for them.
    await withdrawChanges(tx, owner.user_id)
    // The mailed token proves the mailbox. The condition detects a simultaneous change of the account's address.
    const { rowCount: changed } = await tx.query(sql`update users
      set password_hash = ${passwordHash}, email_verified_at = coalesce(email_verified_at, ${now()})
      where id = ${owner.user_id} and email = ${owner.email}`)
    if (changed === 0) throw invalidOneTimeToken()
    // A stranger may have registered the unproven address, so every other sign-in method is removed.
    if (owner.role === 'customer' && owner.email_verified_at === null) await deleteAdded(tx, owner.user_id, null)
    const guests = await takeOverGuests(tx, { id: owner.user_id, email: owner.email }, now())
    await sendNotice(tx, context, 'password_changed', owner)
    return [...guests, ...(await revokeSessionsOf(tx, owner.user_id, null, now()))]
  })
  revocations.add(...ended)
  client.record('password_reset', { user_id: owner.user_id })
}

interface Owner {
  user_id: string
  email: string
  language: Language | null
  role: AccountRole
  email_verified_at: Date | null
}

async function findOwner({ pool, now }: AuthContext, token: string): Promise<Owner | null> {
  const { rows } = await pool.query<Owner>(
    `select password_resets.user_id, users.email, users.language, users.role, users.email_verified_at
    from password_resets
    join users on users.id = password_resets.user_id
    where password_resets.token_hash = $1 and password_resets.expires_at > $2
      and coalesce(password_resets.sent_to, users.email) = users.email`,
    [hashToken(token), now()],
  )
  return rows[0] ?? null
}

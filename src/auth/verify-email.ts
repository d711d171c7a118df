import { inTransaction } from '../db/transaction.ts'
import { AppError } from '../errors.ts'
import type { Client } from './client.ts'
import type { AuthContext } from './context.ts'
import { canonicalEmail } from './email-address.ts'
import { insertAccount } from './register.ts'
import type { TokenSet } from './sessions.ts'
import { hashToken } from './tokens/opaque-token.ts'
import type { User } from './users.ts'

interface PendingRegistration {
  email: string
  name: string | null
  password_hash: string
}

/**
 * Makes the account that a mailed token stands for and logs it in. The token proves the mailbox; the password proves that its holder is
 * who registered. Throws `invalid_one_time_token`, `invalid_credentials` (the token stays usable), `rate_limited`, and `email_taken` when
 * the address was taken meanwhile.
 */
export async function verifyEmail(
  context: AuthContext,
  input: { token: string; password: string },
  client: Client,
): Promise<TokenSet & { user: User }> {
  const pending = await findPending(context, input.token)
  if (pending === null) throw invalidOneTimeToken()
  const email = canonicalEmail(pending.email)
  const isRight = await context.throttle.guardPassword(client, email, async () => {
    return (await context.passwords.verify(input.password, pending.password_hash)) || null
  })
  if (isRight === null) {
    client.record('email_verification_failed', { reason: 'wrong password' })
    throw new AppError(
      'invalid_credentials',
      'This is not the password of the registration that the mail is about. After several registrations, take the newest mail.',
    )
  }
  const { user, opened } = await inTransaction(context.pool, async (tx) => {
    // Deleting it is using it: of two at once, one finds nothing.
    const { rowCount } = await tx.query('delete from pending_registrations where token_hash = $1', [hashToken(input.token)])
    if (rowCount === 0) throw invalidOneTimeToken()
    const account = { email, name: pending.name, passwordHash: pending.password_hash, isProven: true }
    const made = await insertAccount(tx, context, account, client)
    // Others may have tried to register with this address and a password of theirs.
    await tx.query('delete from pending_registrations where email = any($1)', [[pending.email, email]])
    return made
  })
  client.record('email_verified', { user_id: user.id, session_id: opened.sessionId })
  return { user, ...opened.tokenSet }
}

async function findPending({ pool, now }: AuthContext, token: string): Promise<PendingRegistration | null> {
  const { rows } = await pool.query<PendingRegistration>(
    'select email, name, password_hash from pending_registrations where token_hash = $1 and expires_at > $2',
    [hashToken(token), now()],
  )
  return rows[0] ?? null
}

export function invalidOneTimeToken(): AppError {
  return new AppError('invalid_one_time_token', 'The token is unknown, expired or used.')
}

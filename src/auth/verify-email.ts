import { inTransaction } from '../db/transaction.ts'
import { AppError } from '../errors.ts'
import type { Language } from '../language.ts'
import type { Client } from './client.ts'
import type { AuthContext } from './context.ts'
import { insertAccount } from './register.ts'
import type { LoginResult } from './schemas.ts'
import { takeOverGuests } from './take-over-guests.ts'
import { hashToken } from './tokens/opaque-token.ts'

/**
 * Creates the account of a mailed token and signs it in. The token proves the mailbox. The password proves that the
 * same person registered. Throws `invalid_one_time_token`, `invalid_credentials` (the token stays usable),
 * `rate_limited`, and `email_taken` if the address was taken meanwhile.
 */
export async function verifyEmail(context: AuthContext, input: { token: string; password: string }, client: Client): Promise<LoginResult> {
  const pending = await findPending(context, input.token)
  if (pending === null) throw invalidOneTimeToken()
  const { email } = pending
  const isRight = await context.throttle.guardPassword(client, email, async () => {
    return (await context.passwords.verify(input.password, pending.password_hash)) || null
  })
  if (isRight === null) {
    client.record('email_verification_failed', { reason: 'wrong password' })
    throw new AppError(
      'invalid_credentials',
      'This is not the password that was sent with the registration in the mail. After several registrations, use the newest mail.',
    )
  }
  const { user, opened, guests } = await inTransaction(context.pool, async (tx) => {
    // Deleting the token uses it up, so the second of two parallel requests fails.
    const { rowCount } = await tx.query('delete from pending_registrations where token_hash = $1', [hashToken(input.token)])
    if (rowCount === 0) throw invalidOneTimeToken()
    const account = { email, name: pending.name, language: pending.language, passwordHash: pending.password_hash, isEmailVerified: true }
    const inserted = await insertAccount(tx, context, account, client)
    // Others may have registered this address with another password.
    await tx.query('delete from pending_registrations where email = $1', [email])
    return { ...inserted, guests: await takeOverGuests(tx, inserted.user, context.now()) }
  })
  context.revocations.add(...guests)
  client.record('email_verified', { user_id: user.id, session_id: opened.sessionId })
  return { user, ...opened.tokenSet }
}

async function findPending({ pool, now }: AuthContext, token: string) {
  const { rows } = await pool.query<{ email: string; name: string | null; language: Language | null; password_hash: string }>(
    'select email, name, language, password_hash from pending_registrations where token_hash = $1 and expires_at > $2',
    [hashToken(token), now()],
  )
  return rows[0] ?? null
}

export function invalidOneTimeToken(): AppError {
  return new AppError('invalid_one_time_token', 'The token is unknown, expired or used.')
}

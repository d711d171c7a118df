import { inTransaction } from '../db/transaction.ts'
import { AppError } from '../errors.ts'
import type { Client } from './client.ts'
import type { AuthContext } from './context.ts'
import { canonicalEmail } from './email-address.ts'
import { countChallenge, openSessionOrAsk } from './factors/sign-in.ts'
import type { LoginResult } from './schemas.ts'
import { findForeignHash, findUserByEmail, lockPassword, replacePassword, type UserWithPassword } from './users.ts'

/**
 * Opens a session. An unknown address and a wrong password cost and answer the same. Throws `invalid_credentials`,
 * `rate_limited`, and `second_factor_required` with a challenge if the password alone is not enough.
 */
export async function login(context: AuthContext, input: { email: string; password: string }, client: Client): Promise<LoginResult> {
  const { pool, throttle } = context
  const email = canonicalEmail(input.email)
  const found = await throttle.guardPassword(client, email, () => checkPassword(context, email, input.password, client))
  if (found === null) throw wrongCredentials()
  const current = await rehashIfOutdated(context, found, input.password, client)
  await countChallenge(context, current, client)
  const opened = await inTransaction(pool, async (tx) => {
    return (await lockPassword(tx, current)) ? openSessionOrAsk(tx, context, current, 'password', client) : null
  })
  if (opened === null) throw wrongCredentials()
  if (opened instanceof AppError) {
    client.record('second_factor_required', { user_id: current.id })
    throw opened
  }
  client.record('logged_in', { user_id: current.id, session_id: opened.sessionId })
  const { password_hash: _, ...user } = current
  return { user, ...opened.tokenSet }
}

async function checkPassword(context: AuthContext, email: string, password: string, client: Client): Promise<UserWithPassword | null> {
  const user = await findUserByEmail(context.pool, email)
  const decoy = await findForeignHash(context.pool, email)
  if (await context.passwords.verify(password, user?.password_hash ?? null, decoy)) return user
  client.record('login_failed', user === null ? { reason: 'unknown account' } : { user_id: user.id, reason: 'wrong password' })
  return null
}

// A cheaper hash can be replaced only here, while the password is known.
async function rehashIfOutdated({ pool, passwords }: AuthContext, user: UserWithPassword, password: string, client: Client) {
  if (user.password_hash === null || !passwords.isOutdated(user.password_hash)) return user
  const password_hash = await passwords.hash(password)
  if (!(await replacePassword(pool, user, password_hash))) {
    // A parallel login rehashed it, or the password changed; the stored hash decides.
    const stored = await findUserByEmail(pool, user.email)
    return stored !== null && (await passwords.verify(password, stored.password_hash)) ? stored : user
  }
  client.record('password_rehashed', { user_id: user.id })
  return { ...user, password_hash }
}

function wrongCredentials(): AppError {
  return new AppError('invalid_credentials', 'There is no account with this e-mail address and password.')
}

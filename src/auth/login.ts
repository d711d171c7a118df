import { inTransaction } from '../db/transaction.ts'
import { AppError } from '../errors.ts'
import type { AuthContext } from './context.ts'
import { canonicalEmail } from './email-address.ts'
import { openSession, type TokenSet } from './sessions.ts'
import { findUserByEmail, type User } from './users.ts'

/** Opens a session. An unknown address and a wrong password cost the same and answer the same: `invalid_credentials`. */
export async function login(
  { pool, passwords, tokens, now }: AuthContext,
  input: { email: string; password: string },
  userAgent: string | null,
): Promise<TokenSet & { user: User }> {
  const found = await findUserByEmail(pool, canonicalEmail(input.email))
  const isRight = await passwords.verify(input.password, found?.password_hash ?? null)
  if (found === null || !isRight) throw new AppError('invalid_credentials', 'There is no account with this e-mail address and password.')
  const { password_hash: _, ...user } = found
  const tokenSet = await inTransaction(pool, (tx) => openSession(tx, tokens, user, userAgent, now()))
  return { user, ...tokenSet }
}

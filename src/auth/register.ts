import { randomUUIDv7 } from 'node:crypto'
import { inTransaction } from '../db/transaction.ts'
import type { AuthContext } from './context.ts'
import { canonicalEmail } from './email-address.ts'
import { openSession, type TokenSet } from './sessions.ts'
import { insertUser, type User } from './users.ts'

/** Makes an account and logs it in. Throws `email_taken` or `password_too_common`. */
export async function register(
  { pool, passwords, tokens, now }: AuthContext,
  input: { email: string; password: string; name?: string },
  userAgent: string | null,
): Promise<TokenSet & { user: User }> {
  const email = canonicalEmail(input.email)
  passwords.assertAcceptable(input.password, email)
  const passwordHash = await passwords.hash(input.password)
  const user: User = { id: randomUUIDv7(), email, name: input.name ?? null, role: 'customer', created_at: now() }
  const tokenSet = await inTransaction(pool, async (tx) => {
    await insertUser(tx, user, passwordHash)
    return openSession(tx, tokens, user, userAgent, user.created_at)
  })
  return { user, ...tokenSet }
}

import { inTransaction } from '../db/transaction.ts'
import { AppError } from '../errors.ts'
import type { Client } from './client.ts'
import type { AuthContext } from './context.ts'
import { hashToken } from './opaque-token.ts'
import { insertAccount } from './register.ts'
import type { TokenSet } from './sessions.ts'
import type { User } from './users.ts'

interface Pending {
  email: string
  name: string | null
  password_hash: string
  expires_at: Date
}

/** Makes the account that a mailed token stands for and logs it in. Throws `invalid_one_time_token` and, if it came too late, `email_taken`. */
export async function verifyEmail(context: AuthContext, token: string, client: Client): Promise<TokenSet & { user: User }> {
  const { user, opened } = await inTransaction(context.pool, async (tx) => {
    const { rows } = await tx.query<Pending>(
      `delete from pending_registrations where token_hash = $1
      returning email, name, password_hash, expires_at`,
      [hashToken(token)],
    )
    const [pending] = rows
    if (pending === undefined || pending.expires_at <= context.now()) throw invalidOneTimeToken()
    const account = { email: pending.email, name: pending.name, passwordHash: pending.password_hash }
    const made = await insertAccount(tx, context, account, client)
    // Others may have tried to register with this address and a password of theirs.
    await tx.query('delete from pending_registrations where email = $1', [pending.email])
    return made
  })
  client.record('email_verified', { user_id: user.id, session_id: opened.sessionId })
  return { user, ...opened.tokenSet }
}

export function invalidOneTimeToken(): AppError {
  return new AppError('invalid_one_time_token', 'The token is unknown, expired or used.')
}

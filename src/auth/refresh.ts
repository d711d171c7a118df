import type { Transaction } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import { AppError } from '../errors.ts'
import type { AuthContext } from './context.ts'
import { seal, unseal } from './sealed.ts'
import { hashToken, issueTokens, revokeSession, type Session, type TokenSet } from './sessions.ts'

const PURPOSE = 'refresh successor'

/**
 * Trades a refresh token for its successor pair. The same token again gets the same pair within the grace time (two tabs, a
 * lost answer); after it, that is a stolen token, and the whole session ends (RFC 9700 §4.14). Throws `invalid_refresh_token`.
 */
export async function refresh({ pool, tokens, refreshGraceSeconds, now }: AuthContext, refreshToken: string): Promise<TokenSet> {
  const successor = await inTransaction(pool, async (tx) => {
    const presented = await lockToken(tx, refreshToken)
    const at = now()
    if (presented === null || presented.revoked_at !== null || presented.expires_at <= at) return null
    if (presented.rotated_at === null || presented.sealed_successor === null) return rotate(tx, tokens, refreshToken, presented, at)
    if (at.getTime() - presented.rotated_at.getTime() <= refreshGraceSeconds * 1000) {
      return JSON.parse(unseal(refreshToken, PURPOSE, presented.sealed_successor)) as TokenSet
    }
    // Must be committed, so this refusal is returned and not thrown.
    await revokeSession(tx, presented.session_id, at)
    return null
  })
  if (successor === null) throw new AppError('invalid_refresh_token', 'The refresh token is unknown, expired, used before or revoked.')
  return successor
}

interface TokenRow {
  session_id: string
  expires_at: Date
  rotated_at: Date | null
  sealed_successor: Buffer | null
  session_expires_at: Date
  revoked_at: Date | null
  user_id: string
  role: 'customer' | 'admin'
}

/** Locks the token, so that of parallel uses one makes the successor, and its session, so that none slips past a revocation. */
async function lockToken(tx: Transaction, refreshToken: string): Promise<TokenRow | null> {
  const { rows } = await tx.query<TokenRow>(
    `select token.session_id, token.expires_at, token.rotated_at, token.sealed_successor,
      session.expires_at as session_expires_at, session.revoked_at, session.user_id, users.role
    from refresh_tokens as token
    join sessions as session on session.id = token.session_id
    join users on users.id = session.user_id
    where token.token_hash = $1
    for update of session, token`,
    [hashToken(refreshToken)],
  )
  return rows[0] ?? null
}

async function rotate(
  tx: Transaction,
  tokens: AuthContext['tokens'],
  refreshToken: string,
  presented: TokenRow,
  at: Date,
): Promise<TokenSet> {
  const session: Session = {
    id: presented.session_id,
    user: { id: presented.user_id, role: presented.role },
    expiresAt: presented.session_expires_at,
  }
  const successor = await issueTokens(tx, tokens, session, at)
  // Only whoever holds the old token can open this: the successor is at rest in no readable form.
  await tx.query('update refresh_tokens set rotated_at = $2, sealed_successor = $3 where token_hash = $1', [
    hashToken(refreshToken),
    at,
    seal(refreshToken, PURPOSE, JSON.stringify(successor)),
  ])
  await tx.query('update sessions set last_used_at = $2 where id = $1', [session.id, at])
  return successor
}

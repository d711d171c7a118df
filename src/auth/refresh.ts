import type { Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { AppError } from '../errors.ts'
import type { AccountRole } from '../http/scopes.ts'
import type { Client } from './client.ts'
import type { AuthContext } from './context.ts'
import { decrypt, encrypt } from './encryption.ts'
import type { TokenSet } from './schemas.ts'
import { issueTokens, revokeSession } from './sessions.ts'
import { hashToken } from './tokens/opaque-token.ts'

const PURPOSE = 'refresh successor'

type Context = Pick<AuthContext, 'pool' | 'tokens' | 'revocations' | 'refreshGraceSeconds' | 'now'>
type Refusal = 'unknown' | 'revoked' | 'expired' | 'reused'

/**
 * Exchanges a refresh token for its successor pair. A second use within the grace time gets the same pair, for two tabs
 * or a lost answer. A later use means that the token was stolen, and ends the session (RFC 9700 §4.14). Throws
 * `invalid_refresh_token`.
 */
export async function refresh(context: Context, refreshToken: string, client: Client): Promise<TokenSet> {
  // Refusals are returned, not thrown, so their revocation commits.
  const { presented, result } = await inTransaction(context.pool, async (tx) => {
    const presented = await lockToken(tx, refreshToken)
    const result = presented === null ? 'unknown' : await exchange(tx, context, refreshToken, presented)
    return { presented, result }
  })
  const who = presented === null ? {} : { user_id: presented.user_id, session_id: presented.session_id }
  if (typeof result !== 'string') {
    client.record('refreshed', who)
    return result
  }
  if (result === 'reused' && presented !== null) {
    context.revocations.add(presented.session_id)
    client.record('refresh_reuse_detected', who)
  } else {
    client.record('refresh_failed', { ...who, reason: result })
  }
  throw new AppError('invalid_refresh_token', 'The refresh token is unknown, expired, used before or revoked. Log in again.')
}

async function exchange(tx: Transaction, context: Context, refreshToken: string, presented: TokenRow): Promise<TokenSet | Refusal> {
  const now = context.now()
  if (presented.revoked_at !== null) return 'revoked'
  if (presented.rotated_at === null) {
    return presented.expires_at > now ? rotate(tx, context, refreshToken, presented, now) : 'expired'
  }
  const ageMs = now.getTime() - presented.rotated_at.getTime()
  if (ageMs < context.refreshGraceSeconds * 1000 && presented.sealed_successor !== null) {
    return withElapsedTime(JSON.parse(decrypt(refreshToken, PURPOSE, presented.sealed_successor)), ageMs)
  }
  await revokeSession(tx, presented.session_id, now)
  return 'reused'
}

/** The same pair with its remaining lifetimes. */
function withElapsedTime(tokenSet: TokenSet, ageMs: number): TokenSet {
  const seconds = Math.max(0, Math.ceil(ageMs / 1000))
  return { ...tokenSet, expires_in: tokenSet.expires_in - seconds, refresh_expires_in: tokenSet.refresh_expires_in - seconds }
}

interface TokenRow {
  session_id: string
  expires_at: Date
  rotated_at: Date | null
  sealed_successor: Buffer | null
  session_expires_at: Date
  revoked_at: Date | null
  user_id: string
  role: AccountRole
}

/** Locks the token and its session. Parallel uses then create one successor, and no use overtakes a revocation. */
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

async function rotate(tx: Transaction, context: Context, refreshToken: string, presented: TokenRow, now: Date): Promise<TokenSet> {
  const session = {
    id: presented.session_id,
    user: { id: presented.user_id, role: presented.role },
    expiresAt: presented.session_expires_at,
  }
  const successor = await issueTokens(tx, context.tokens, session, now)
  // The old token encrypts it, so the database contains no readable successor.
  const encrypted = encrypt(refreshToken, PURPOSE, JSON.stringify(successor))
  await tx.query(sql`update refresh_tokens set rotated_at = ${now}, sealed_successor = ${encrypted}
    where token_hash = ${hashToken(refreshToken)}`)
  await tx.query(
    `update refresh_tokens set sealed_successor = null
    where session_id = $1 and rotated_at <= $2 and sealed_successor is not null`,
    [session.id, new Date(now.getTime() - context.refreshGraceSeconds * 1000)],
  )
  // Never set to an earlier time. A revocation is remembered until the newest access token, issued at this time, has
  // expired.
  await tx.query('update sessions set last_used_at = greatest(last_used_at, $2) where id = $1', [session.id, now])
  return successor
}

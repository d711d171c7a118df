import { createHash, randomBytes, randomUUIDv7 } from 'node:crypto'
import type { Queryable, Transaction } from '../db/pool.ts'
import { ACCESS_TOKEN_SECONDS, type AccessTokens } from './access-token.ts'
import type { User } from './users.ts'

const DAY_MS = 86_400_000
/** A refresh token lives this long, anew with each rotation … */
const SLIDING_MS = 30 * DAY_MS
/** … but no family lives longer than this after its login. */
const ABSOLUTE_MS = 90 * DAY_MS
const REFRESH_TOKEN_BYTES = 32

/** Names are RFC 6749's (§5.1), `refresh_expires_in` is ours. Seconds. */
export interface TokenSet {
  token_type: 'Bearer'
  access_token: string
  expires_in: number
  refresh_token: string
  refresh_expires_in: number
}

/** The session that a token set is for. */
export interface Session {
  id: string
  user: Pick<User, 'id' | 'role'>
  expiresAt: Date
}

/** Opens a session, that is a family of refresh tokens, and gives its first token set. */
export async function openSession(
  tx: Transaction,
  tokens: AccessTokens,
  user: Pick<User, 'id' | 'role'>,
  userAgent: string | null,
  now: Date,
): Promise<TokenSet> {
  const session = { id: randomUUIDv7(), user, expiresAt: new Date(now.getTime() + ABSOLUTE_MS) }
  await tx.query(
    `insert into sessions (id, user_id, user_agent, created_at, last_used_at, expires_at)
    values ($1, $2, $3, $4, $4, $5)`,
    [session.id, user.id, userAgent?.slice(0, 500) ?? null, now, session.expiresAt],
  )
  return issueTokens(tx, tokens, session, now)
}

/** A fresh pair of tokens for a session. Of the refresh token only the hash is stored. */
export async function issueTokens(tx: Transaction, tokens: AccessTokens, session: Session, now: Date): Promise<TokenSet> {
  const refreshToken = randomBytes(REFRESH_TOKEN_BYTES).toString('base64url')
  const expiresAt = new Date(Math.min(now.getTime() + SLIDING_MS, session.expiresAt.getTime()))
  await tx.query('insert into refresh_tokens (token_hash, session_id, created_at, expires_at) values ($1, $2, $3, $4)', [
    hashToken(refreshToken),
    session.id,
    now,
    expiresAt,
  ])
  return {
    token_type: 'Bearer',
    access_token: await tokens.issue({ userId: session.user.id, sessionId: session.id, role: session.user.role }, now),
    expires_in: ACCESS_TOKEN_SECONDS,
    refresh_token: refreshToken,
    refresh_expires_in: Math.floor((expiresAt.getTime() - now.getTime()) / 1000),
  }
}

export function hashToken(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}

/** Whether the session still lives: not revoked, its account not deleted. */
export async function isSessionAlive(db: Queryable, sessionId: string, now: Date): Promise<boolean> {
  const { rowCount } = await db.query('select from sessions where id = $1 and revoked_at is null and expires_at > $2', [sessionId, now])
  return rowCount === 1
}

/** Ends a session and with it every token of its family. */
export async function revokeSession(db: Queryable, sessionId: string, now: Date): Promise<void> {
  await db.query('update sessions set revoked_at = $2 where id = $1 and revoked_at is null', [sessionId, now])
}

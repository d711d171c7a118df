import { randomUUIDv7 } from 'node:crypto'
import type { Static } from 'typebox'
import { BATCH_ROWS, inBatches } from '../db/in-batches.ts'
import type { Pool, Queryable, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { AppError, notFound } from '../errors.ts'
import type { IdPosition, Page, Paging } from '../http/pagination.ts'
import type { SessionView, TokenSet } from './schemas.ts'
import type { AccessTokens } from './tokens/access-token.ts'
import { hashToken, newToken } from './tokens/opaque-token.ts'
import type { User } from './users.ts'

const DAY_MS = 86_400_000
/** A refresh token's lifetime. Each rotation begins a new one, up to `ABSOLUTE_MS`. */
const SLIDING_MS = 30 * DAY_MS
/** The longest time from login to the session's end. */
const ABSOLUTE_MS = 90 * DAY_MS
const USER_AGENT_MAX_LENGTH = 500

/** The session of a token set. */
export interface Session {
  id: string
  user: Pick<User, 'id' | 'role'>
  /** The absolute end. */
  expiresAt: Date
}

/**
 * Opens a session, which is a family of refresh tokens, and issues its first token set. `authenticatedBy` lists the
 * methods of proof. Throws `account_blocked`.
 */
export async function openSession(
  tx: Transaction,
  tokens: AccessTokens,
  user: Pick<User, 'id' | 'role'>,
  userAgent: string | null,
  now: Date,
  authenticatedBy: readonly string[] = ['password'],
): Promise<{ sessionId: string; tokenSet: TokenSet }> {
  const session = { id: randomUUIDv7(), user, expiresAt: new Date(now.getTime() + ABSOLUTE_MS) }
  // With this lock, a simultaneous block or role change either ends this session or is seen here.
  const { rowCount } = await tx.query(
    `insert into sessions (id, user_id, user_agent, created_at, last_used_at, expires_at, authenticated_at, authenticated_by)
    select $1, id, $3, $4, $4, $5, $4, $6 from users where id = $2 and role = $7 and blocked_at is null for share`,
    [session.id, user.id, userAgent?.slice(0, USER_AGENT_MAX_LENGTH) ?? null, now, session.expiresAt, authenticatedBy, user.role],
  )
  if (rowCount === 0) throw await refusalOf(tx, user.id)
  return { sessionId: session.id, tokenSet: await issueTokens(tx, tokens, session, now) }
}

async function refusalOf(tx: Transaction, userId: string): Promise<AppError> {
  const { rowCount } = await tx.query('select from users where id = $1 and blocked_at is not null', [userId])
  // Since the password check, the account may have been deleted or given another role.
  if (rowCount === 0) return new AppError('invalid_credentials', 'There is no account with this e-mail address and password.')
  return new AppError('account_blocked', 'The shop has blocked this account. Ask the shop.')
}

/** Issues a new token pair for a session. Stores only the refresh token's hash. */
export async function issueTokens(tx: Transaction, tokens: AccessTokens, session: Session, now: Date): Promise<TokenSet> {
  const refreshToken = newToken()
  const expiresAt = new Date(Math.min(now.getTime() + SLIDING_MS, session.expiresAt.getTime()))
  await tx.query(sql`insert into refresh_tokens (token_hash, session_id, created_at, expires_at)
    values (${hashToken(refreshToken)}, ${session.id}, ${now}, ${expiresAt})`)
  const caller = { kind: 'account' as const, userId: session.user.id, sessionId: session.id, role: session.user.role }
  const { token, expiresIn } = await tokens.issue(caller, session.expiresAt, now)
  return {
    token_type: 'Bearer',
    access_token: token,
    expires_in: expiresIn,
    refresh_token: refreshToken,
    refresh_expires_in: Math.floor((expiresAt.getTime() - now.getTime()) / 1000),
  }
}

/** Whether the session is neither revoked nor expired, and its account exists. */
export async function isSessionAlive(db: Queryable, sessionId: string, now: Date): Promise<boolean> {
  const { rowCount } = await db.query('select from sessions where id = $1 and revoked_at is null and expires_at > $2', [sessionId, now])
  return rowCount === 1
}

/** The refresh tokens that belong to operators, used or not. */
export async function findOperatorTokens(db: Queryable, refreshTokens: readonly string[]): Promise<string[]> {
  const { rows } = await db.query<{ token_hash: Buffer }>(
    `select token.token_hash
    from refresh_tokens as token
    join sessions as session on session.id = token.session_id
    join users on users.id = session.user_id
    where token.token_hash = any($1) and users.role not in ('customer', 'guest')`,
    [refreshTokens.map(hashToken)],
  )
  return refreshTokens.filter((token) => rows.some((row) => row.token_hash.equals(hashToken(token))))
}

/** Ends the sessions of refresh tokens, used or not. Returns their ids. */
export async function revokeSessionsOfTokens(db: Queryable, refreshTokens: readonly string[], now: Date): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `update sessions set revoked_at = $2
    where id in (select session_id from refresh_tokens where token_hash = any($1)) and revoked_at is null
    returning id`,
    [refreshTokens.map(hashToken), now],
  )
  return rows.map((row) => row.id)
}

export async function revokeSession(db: Queryable, sessionId: string, now: Date): Promise<void> {
  await db.query('update sessions set revoked_at = $2 where id = $1 and revoked_at is null', [sessionId, now])
}

/** Ends a user's sessions except `keep`. Returns their ids. */
export async function revokeSessionsOf(db: Queryable, userId: string, keep: string | null, now: Date): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `update sessions set revoked_at = $3
    where user_id = $1 and revoked_at is null and id is distinct from $2
    returning id`,
    [userId, keep, now],
  )
  return rows.map((row) => row.id)
}

export async function endEverySession(db: Queryable): Promise<void> {
  await inBatches(
    db,
    sql`update sessions set revoked_at = now()
    where ctid = any (array(select ctid from sessions where revoked_at is null limit ${BATCH_ROWS}))`,
  )
}

/** Ends a user's session. Throws `not_found` if it is another user's, does not exist, or has ended. */
export async function endSession(db: Queryable, userId: string, sessionId: string, now: Date): Promise<void> {
  const { rowCount } = await db.query(sql`update sessions set revoked_at = ${now}
    where user_id = ${userId} and id = ${sessionId} and revoked_at is null`)
  if (rowCount === 0) throw notFound('session')
}

type SessionRow = Omit<SessionView, 'created_at' | 'last_used_at' | 'current'> & { created_at: Date; last_used_at: Date }

export async function listSessions(
  pool: Pool,
  caller: { userId: string; sessionId: string },
  { limit, after, page }: Paging<Static<typeof IdPosition>>,
  now: Date,
): Promise<Page<SessionView>> {
  const { rows } = await pool.query<SessionRow>(
    `select id, created_at, last_used_at, user_agent
    from sessions
    where user_id = $1 and revoked_at is null and expires_at > $2 and last_used_at > $3
      and ($4::uuid is null or id < $4)
    order by id desc
    limit $5`,
    [caller.userId, now, new Date(now.getTime() - SLIDING_MS), after?.[0] ?? null, limit + 1],
  )
  const toView = (row: SessionRow): SessionView => ({
    ...row,
    created_at: row.created_at.toISOString(),
    last_used_at: row.last_used_at.toISOString(),
    current: row.id === caller.sessionId,
  })
  return page(rows, toView, (row) => [row.id])
}

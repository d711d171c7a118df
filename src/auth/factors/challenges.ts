import type { Queryable, Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { AppError } from '../../errors.ts'
import { hashToken, newToken } from '../tokens/opaque-token.ts'
import type { FirstFactor } from './second-factors.ts'

export const CHALLENGE_SECONDS = 300
/** Answers to one challenge. People mistype codes, and each attempt is throttled too. */
const MAX_ATTEMPTS = 5

type Purpose = 'second_factor' | 'passkey_sign_in' | 'passkey_registration' | 'step_up'

/** The account that must answer, and the session that requested the challenge, or null. */
interface Bound {
  purpose: Purpose
  userId: string | null
  sessionId: string | null
  /** The proven first factor in a challenge for the second one. */
  provenBy?: FirstFactor
}

/** Makes a challenge, which replaces an earlier one of the same session and purpose. Stores only its hash. */
export async function insertChallenge(tx: Transaction, { purpose, userId, sessionId, provenBy }: Bound, now: Date): Promise<string> {
  const token = newToken()
  if (sessionId !== null) await tx.query(sql`delete from auth_challenges where session_id = ${sessionId} and purpose = ${purpose}`)
  await tx.query(sql`insert into auth_challenges (token_hash, purpose, user_id, session_id, proven_by, expires_at)
    values (${hashToken(token)}, ${purpose}, ${userId}, ${sessionId}, ${provenBy ?? null}, ${new Date(now.getTime() + CHALLENGE_SECONDS * 1000)})`)
  return token
}

/**
 * Counts an answer to a challenge and locks the challenge until `tx` ends. Throws `invalid_challenge` if it is unknown,
 * expired, used, or has another purpose or session.
 */
export async function takeChallenge(
  tx: Transaction,
  token: string,
  { purpose, sessionId }: Pick<Bound, 'purpose' | 'sessionId'>,
  now: Date,
): Promise<void> {
  const { rowCount } = await tx.query(sql`update auth_challenges set attempts = attempts + 1
    where token_hash = ${hashToken(token)} and purpose = ${purpose} and session_id is not distinct from ${sessionId}
      and expires_at > ${now} and attempts < ${MAX_ATTEMPTS}`)
  if (rowCount === 0) throw invalidChallenge()
}

/** The sign-in that waits for this challenge's second factor. Counts no attempt. Throws `invalid_challenge`. */
export async function getChallengedSignIn(db: Queryable, token: string, now: Date): Promise<{ userId: string; provenBy: FirstFactor }> {
  const { rows } = await db.query<{ user_id: string; proven_by: FirstFactor | null }>(sql`select user_id, proven_by from auth_challenges
    where token_hash = ${hashToken(token)} and purpose = 'second_factor' and expires_at > ${now}`)
  if (rows[0] === undefined) throw invalidChallenge()
  return { userId: rows[0].user_id, provenBy: rows[0].proven_by ?? 'password' }
}

export async function deleteChallenge(tx: Transaction, token: string): Promise<void> {
  await tx.query(sql`delete from auth_challenges where token_hash = ${hashToken(token)}`)
}

/**
 * Ends challenges after a sign-in method has changed. A person with the old password or provider must not complete
 * them.
 */
export async function deleteChallengesOf(db: Queryable, userId: string): Promise<void> {
  await db.query(sql`delete from auth_challenges where user_id = ${userId}`)
  await db.query(sql`delete from oidc_codes where user_id = ${userId}`)
}

function invalidChallenge(): AppError {
  return new AppError('invalid_challenge', 'The challenge is unknown, expired or used. Begin again.')
}

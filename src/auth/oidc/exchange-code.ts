import { createHash, timingSafeEqual } from 'node:crypto'
import { sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import { AppError } from '../../errors.ts'
import type { Client } from '../client.ts'
import type { AuthContext } from '../context.ts'
import { openSessionOrAsk } from '../factors/sign-in.ts'
import type { LoginResult } from '../schemas.ts'
import { hashToken } from '../tokens/opaque-token.ts'
import { getUser } from '../users.ts'
import { invalidOneTimeToken } from '../verify-email.ts'

/**
 * Opens a sign-in's session. `code_verifier` is the secret of the page that began the sign-in, so a stolen code is
 * useless in another page. Throws `invalid_one_time_token`, `rate_limited`, and `second_factor_required` like a login.
 * The first attempt uses up the code.
 */
export async function exchangeCode(
  context: AuthContext,
  input: { code: string; code_verifier: string },
  client: Client,
): Promise<LoginResult> {
  const { pool, throttle, now } = context
  await throttle.countSignIn(client)
  const opened = await inTransaction(pool, async (tx) => {
    const { rows } = await tx.query<{ user_id: string; code_challenge: string }>(
      sql`delete from oidc_codes where code_hash = ${hashToken(input.code)} and user_id is not null and expires_at > ${now()}
      returning user_id, code_challenge`,
    )
    const [code] = rows
    if (code === undefined || !isOfPage(code.code_challenge, input.code_verifier)) return null
    // The lock delays a change of the role, which then ends this session.
    const { rowCount } = await tx.query(sql`select from users where id = ${code.user_id} and role = 'customer' for share`)
    if (rowCount !== 1) return null
    const { password_hash: _, ...user } = await getUser(tx, code.user_id)
    return { user, session: await openSessionOrAsk(tx, context, user, 'oidc', client) }
  })
  if (opened === null) {
    client.record('oidc_refused', { reason: 'the code or its verifier is wrong' })
    throw invalidOneTimeToken()
  }
  const { user, session } = opened
  if (session instanceof AppError) {
    client.record('second_factor_required', { user_id: user.id })
    throw session
  }
  client.record('logged_in', { user_id: user.id, session_id: session.sessionId, method: 'oidc' })
  return { user, ...session.tokenSet }
}

/** Whether the secret belongs to the page that began (RFC 7636 §4.6). */
export function isOfPage(challenge: string, verifier: string): boolean {
  const [expected, presented] = [Buffer.from(challenge), Buffer.from(createHash('sha256').update(verifier).digest('base64url'))]
  return expected.length === presented.length && timingSafeEqual(expected, presented)
}

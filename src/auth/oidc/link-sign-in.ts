import { sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import { AppError, notFound } from '../../errors.ts'
import type { AccountCaller } from '../../http/caller.ts'
import type { Client } from '../client.ts'
import { type AuthContext, sendNotice } from '../context.ts'
import { deleteChallengesOf } from '../factors/challenges.ts'
import { assertCanSignIn } from '../factors/change-factors.ts'
import { lockCaller } from '../factors/second-factors.ts'
import { revokeSessionsOf } from '../sessions.ts'
import { hashToken } from '../tokens/opaque-token.ts'
import { invalidOneTimeToken } from '../verify-email.ts'
import { isOfPage } from './exchange-code.ts'
import { deleteSignIn, findLinkedAccount, insertSignIn, type LinkedSignIn, lockPerson, type Person } from './linked-sign-ins.ts'

/**
 * Links the caller's account to the person who signed in at a provider for this page, whatever their address there. A
 * repeated link changes nothing. Throws `invalid_one_time_token`, `sign_in_taken`, `provider_linked`, `rate_limited`,
 * `forbidden` for operators.
 */
export async function linkSignIn(
  context: AuthContext,
  input: { code: string; code_verifier: string },
  caller: AccountCaller,
  client: Client,
): Promise<LinkedSignIn> {
  const { pool, throttle, now } = context
  if (caller.role !== 'customer') throw new AppError('forbidden', 'Operators cannot sign in with a provider.')
  await throttle.countSignIn(client)
  const person = await takePerson(context, input)
  if (person === null) {
    client.record('oidc_refused', { user_id: caller.userId, reason: 'the code or its verifier is wrong' })
    throw invalidOneTimeToken()
  }
  const { linkedAt, isNew } = await inTransaction(pool, async (tx) => {
    await lockPerson(tx, person)
    const account = await lockCaller(tx, caller, now())
    const linked = await findLinkedAccount(tx, person)
    if (linked !== null && linked.id !== account.id)
      throw new AppError('sign_in_taken', 'This sign-in belongs to another account of the store. Use one of your own.')
    if (linked !== null) return { linkedAt: linked.linked_at, isNew: false }
    const linkedAt = now()
    if (!(await insertSignIn(tx, account.id, person, linkedAt)))
      throw new AppError('provider_linked', 'The account already has another sign-in with this provider. Remove that one first.')
    await sendNotice(tx, context, 'sign_in_linked', account)
    return { linkedAt, isNew: true }
  })
  if (isNew) client.record('oidc_linked', { user_id: caller.userId })
  return { issuer: person.issuer, linked_at: linkedAt.toISOString() }
}

/** A wrong verifier uses up the code too. */
async function takePerson({ pool, now }: AuthContext, input: { code: string; code_verifier: string }): Promise<Person | null> {
  const { rows } = await pool.query<Person & { code_challenge: string }>(
    sql`delete from oidc_codes
    where code_hash = ${hashToken(input.code)} and issuer is not null and expires_at > ${now()}
    returning issuer, subject, code_challenge`,
  )
  const [code] = rows
  return code !== undefined && isOfPage(code.code_challenge, input.code_verifier) ? code : null
}

/**
 * Removes a provider and ends the other sessions, which a stranger may have opened with it. Throws `not_found`,
 * `last_sign_in`.
 */
export async function unlinkSignIn(context: AuthContext, issuer: string, caller: AccountCaller, client: Client): Promise<void> {
  const { pool, revocations, now } = context
  const ended = await inTransaction(pool, async (tx) => {
    const account = await lockCaller(tx, caller, now())
    if (!(await deleteSignIn(tx, account.id, issuer))) throw notFound('linked sign-in')
    await assertCanSignIn(tx, account.id)
    // This also ends unfinished sign-ins with the provider.
    await deleteChallengesOf(tx, account.id)
    await sendNotice(tx, context, 'sign_in_unlinked', account)
    return revokeSessionsOf(tx, account.id, caller.sessionId, now())
  })
  revocations.add(...ended)
  client.record('oidc_unlinked', { user_id: caller.userId })
}

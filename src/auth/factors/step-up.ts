import type { Queryable, Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import { AppError } from '../../errors.ts'
import type { AccountCaller } from '../../http/caller.ts'
import type { Client } from '../client.ts'
import type { AuthContext } from '../context.ts'
import { getUser, type UserWithPassword } from '../users.ts'
import { CHALLENGE_SECONDS, deleteChallenge, insertChallenge, takeChallenge } from './challenges.ts'
import { listCredentials } from './passkeys.ts'
import { proveSecondFactor, type SecondFactorProof } from './prove.ts'
import { findSecondFactors, methodsOf, type ProofMethod, type SecondFactorMethod } from './second-factors.ts'
import { challengeOf, requestOptions } from './webauthn.ts'

/**
 * The methods by which the caller can prove its identity again, with a challenge for passkeys. If there are none, the
 * caller must sign in again.
 */
export async function askForStepUp({ pool, relyingParty, now }: AuthContext, { userId, sessionId }: AccountCaller) {
  const { methods, credentials, challenge } = await inTransaction(pool, async (tx) => {
    const user = await getUser(tx, userId)
    return {
      methods: await findMethods(tx, user),
      credentials: await listCredentials(tx, userId),
      challenge: await insertChallenge(tx, { purpose: 'step_up', userId, sessionId }, now()),
    }
  })
  const options = credentials.length === 0 ? null : await requestOptions(relyingParty, credentials, challenge)
  return { methods, passkey_options: options, expires_in: CHALLENGE_SECONDS }
}

/**
 * Proves the caller's identity again (recent authentication). A password is enough only for an account without a second
 * factor. Throws `invalid_second_factor`, `invalid_challenge`, `rate_limited`.
 */
export async function stepUp(
  context: AuthContext,
  { userId, sessionId }: AccountCaller,
  proof: SecondFactorProof & { password?: string },
  client: Client,
): Promise<void> {
  const { pool, passwords, throttle, now } = context
  const who = { user_id: userId, session_id: sessionId }
  const user = await getUser(pool, userId)
  const { password } = proof
  const proveWithPassword = async () => {
    const { isRequired } = await findSecondFactors(pool, user)
    if (isRequired || !(await passwords.verify(password ?? '', user.password_hash))) return null
    await inTransaction(pool, (tx) => markProven(tx, sessionId, 'password', now()))
    return 'password' as const
  }
  const proveOtherwise = () =>
    inTransaction(pool, async (tx) => {
      const challenge = proof.passkey === undefined ? '' : (challengeOf(proof.passkey.response) ?? '')
      if (proof.passkey !== undefined) {
        await takeChallenge(tx, challenge, { purpose: 'step_up', sessionId }, now())
        await deleteChallenge(tx, challenge)
      }
      const method = await proveSecondFactor(tx, context, user, { ...proof, challenge }, client)
      if (method !== null) await markProven(tx, sessionId, method, now())
      return method
    })
  const method = await (password !== undefined
    ? throttle.guardPassword(client, user.email, proveWithPassword)
    : proof.totp_code !== undefined
      ? throttle.guardCode(client, { userId, sessionId }, proveOtherwise)
      : throttle.guardProof(client, proveOtherwise))
  if (method === null) {
    client.record('step_up_failed', who)
    throw new AppError('invalid_second_factor', 'The proof is wrong, was used already, or is not a method that counts for this account.', {
      members: { methods: await findMethods(pool, user) },
    })
  }
  client.record('stepped_up', { ...who, method })
}

/** The password counts only if it is enough to sign in. */
async function findMethods(db: Queryable, user: UserWithPassword): Promise<('password' | SecondFactorMethod)[]> {
  const factors = await findSecondFactors(db, user)
  const isPasswordEnough = !factors.isRequired && user.password_hash !== null
  return [...(isPasswordEnough ? (['password'] as const) : []), ...methodsOf(factors)]
}

export async function markProven(tx: Transaction, sessionId: string, method: ProofMethod, now: Date): Promise<void> {
  await tx.query(sql`update sessions
    set authenticated_at = ${now}, authenticated_by = array(select distinct unnest(authenticated_by || ${method}::text) order by 1)
    where id = ${sessionId}`)
}

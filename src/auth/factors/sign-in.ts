import type { AuthenticationResponseJSON } from '@simplewebauthn/server'
import type { Transaction } from '../../db/pool.ts'
import { inTransaction } from '../../db/transaction.ts'
import { AppError } from '../../errors.ts'
import type { Client } from '../client.ts'
import { type AuthContext, sendNotice } from '../context.ts'
import type { LoginResult, TokenSet } from '../schemas.ts'
import { openSession } from '../sessions.ts'
import { getUser, type User } from '../users.ts'
import { CHALLENGE_SECONDS, deleteChallenge, getChallengedSignIn, insertChallenge, takeChallenge } from './challenges.ts'
import { listCredentials } from './passkeys.ts'
import { provePasskey, proveSecondFactor, type SecondFactorProof } from './prove.ts'
import { type FirstFactor, findSecondFactors, methodsOf } from './second-factors.ts'
import { challengeOf, requestOptions } from './webauthn.ts'

interface Opened {
  sessionId: string
  tokenSet: TokenSet
}

/**
 * Opens a session for an account with one proven factor, such as its password. If the account needs a second factor,
 * returns the error that asks for it. Throw this error only after the commit, which stores its challenge.
 */
export async function openSessionOrAsk(
  tx: Transaction,
  context: AuthContext,
  user: Pick<User, 'id' | 'role'>,
  provenBy: FirstFactor,
  client: Client,
): Promise<Opened | AppError> {
  const { tokens, relyingParty, now } = context
  const factors = await findSecondFactors(tx, user)
  if (!factors.isRequired) return openSession(tx, tokens, user, client.userAgent, now(), [provenBy])
  const challenge = await insertChallenge(tx, { purpose: 'second_factor', userId: user.id, sessionId: null, provenBy }, now())
  const credentials = await listCredentials(tx, user.id)
  return new AppError(
    'second_factor_required',
    'The password is right. This account also needs its second factor: POST /auth/second-factor.',
    {
      members: {
        challenge,
        expires_in: CHALLENGE_SECONDS,
        methods: methodsOf(factors),
        passkey_options: credentials.length === 0 ? null : await requestOptions(relyingParty, credentials, challenge),
      },
    },
  )
}

/** Counts the challenge of a sign-in that needs one, before its transaction. Throws `rate_limited`. */
export async function countChallenge({ pool, throttle }: AuthContext, user: Pick<User, 'id' | 'role'>, client: Client): Promise<void> {
  if ((await findSecondFactors(pool, user)).isRequired) await throttle.countSecondFactorChallenge(client, user.id)
}

/** Completes a sign-in. Throws `invalid_challenge`, `invalid_second_factor`, `rate_limited`. */
export async function completeSignIn(
  context: AuthContext,
  input: SecondFactorProof & { challenge: string },
  client: Client,
): Promise<LoginResult> {
  const { pool, throttle, tokens, now } = context
  const asked = { purpose: 'second_factor', sessionId: null } as const
  const { userId, provenBy } = await getChallengedSignIn(pool, input.challenge, now())
  const prove = () =>
    inTransaction(pool, async (tx) => {
      await takeChallenge(tx, input.challenge, asked, now())
      const { password_hash: _, ...user } = await getUser(tx, userId)
      const method = await proveSecondFactor(tx, context, user, input, client)
      // A passkey may answer only once; a code may be mistyped.
      if (method !== null || input.passkey !== undefined) await deleteChallenge(tx, input.challenge)
      if (method === null) return null
      return { user, method, ...(await openSession(tx, tokens, user, client.userAgent, now(), [provenBy, method])) }
    })
  const isCode = input.totp_code !== undefined
  const opened = await (isCode ? throttle.guardCode(client, { userId, sessionId: null }, prove) : throttle.guardProof(client, prove))
  if (opened === null) {
    client.record('second_factor_failed', { user_id: userId })
    if (isCode && (await throttle.countWrongCode(userId))) await warnOwner(context, userId)
    throw invalidSecondFactor()
  }
  client.record('logged_in', { user_id: userId, session_id: opened.sessionId, method: opened.method })
  return { user: opened.user, ...opened.tokenSet }
}

/** Somebody has the password but not the app, and only the owner knows who it was. */
async function warnOwner(context: AuthContext, userId: string): Promise<void> {
  await inTransaction(context.pool, async (tx) => {
    await sendNotice(tx, context, 'second_factor_failed', await getUser(tx, userId))
  })
}

/** Begins a sign-in without a password; the passkey names the account. Throws `rate_limited`. */
export async function askForPasskey(context: AuthContext, client: Client) {
  const { pool, throttle, relyingParty, now } = context
  await throttle.countPasskeyChallenge(client)
  const bound = { purpose: 'passkey_sign_in', userId: null, sessionId: null } as const
  const challenge = await inTransaction(pool, (tx) => insertChallenge(tx, bound, now()))
  return { options: await requestOptions(relyingParty, [], challenge), expires_in: CHALLENGE_SECONDS }
}

/** Signs in by a passkey alone, which has verified its user. Throws `invalid_challenge`, `invalid_second_factor`. */
export async function signInWithPasskey(context: AuthContext, passkey: AuthenticationResponseJSON, client: Client): Promise<LoginResult> {
  const { pool, tokens, now } = context
  const challenge = challengeOf(passkey.response)
  if (challenge === null) throw invalidSecondFactor()
  const opened = await inTransaction(pool, async (tx) => {
    await takeChallenge(tx, challenge, { purpose: 'passkey_sign_in', sessionId: null }, now())
    await deleteChallenge(tx, challenge)
    const user = await provePasskey(tx, context, passkey, challenge, client)
    return user === null ? null : { user, ...(await openSession(tx, tokens, user, client.userAgent, now(), ['passkey'])) }
  })
  if (opened === null) throw invalidSecondFactor()
  client.record('logged_in', { user_id: opened.user.id, session_id: opened.sessionId, method: 'passkey' })
  return { user: opened.user, ...opened.tokenSet }
}

export function invalidSecondFactor(): AppError {
  return new AppError('invalid_second_factor', 'The code or the passkey is wrong, was used already, or belongs to another account.')
}

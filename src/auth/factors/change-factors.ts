import type { RegistrationResponseJSON } from '@simplewebauthn/server'
import { type AuditContext, recordActivity } from '../../activity/record-activity.ts'
import type { Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import { AppError, notFound } from '../../errors.ts'
import type { AccountCaller } from '../../http/caller.ts'
import type { OwnChange } from '../client.ts'
import { type AuthContext, sendNotice } from '../context.ts'
import { revokeSessionsOf } from '../sessions.ts'
import { getUser } from '../users.ts'
import { CHALLENGE_SECONDS, deleteChallenge, insertChallenge, takeChallenge } from './challenges.ts'
import { deletePasskey, insertPasskey, listCredentials, type Passkey, updatePasskey } from './passkeys.ts'
import { deleteRecoveryCodes, replaceRecoveryCodes } from './recovery-codes.ts'
import { type Account, findSecondFactors, lockCaller, type SecondFactors } from './second-factors.ts'
import { invalidSecondFactor } from './sign-in.ts'
import { markProven } from './step-up.ts'
import { newTotpSecret, totpUri } from './totp.ts'
import { deleteTotp, insertTotp, useTotpCode } from './totp-authenticators.ts'
import { challengeOf, creationOptions, verifyRegistration } from './webauthn.ts'

const MAX_PASSKEYS = 20

type Factor = 'passkey' | 'totp'

/** Begins to set up an authenticator app. Sign-ins ask for it only after `confirmTotp`. Throws `totp_active`. */
export async function startTotp({ pool, totpEncryption, relyingParty, now }: AuthContext, { userId }: AccountCaller) {
  const secret = newTotpSecret()
  const { email } = await getUser(pool, userId)
  await inTransaction(pool, async (tx) => {
    if (await insertTotp(tx, userId, await totpEncryption.encrypt(tx, secret), now())) return
    throw new AppError('totp_active', 'The account has an authenticator app. Remove it first: DELETE /me/totp.')
  })
  return { secret, uri: totpUri(secret, relyingParty.name, email) }
}

/**
 * Activates the app, which has proven its secret. Sign-ins now ask for its codes. Returns new recovery codes unless the
 * account has some.
 */
export async function confirmTotp(context: AuthContext, code: string, change: OwnChange): Promise<{ recoveryCodes: string[] | null }> {
  const { userId } = change.caller
  return changeFactors(context, change, async (tx, account, before) => {
    if (!(await useTotpCode(tx, context.totpEncryption, { userId, code, isConfirmed: false, now: context.now() })))
      throw invalidSecondFactor()
    return afterAdding(tx, context, { ...change, account, before, factor: 'totp' })
  })
}

/** Returns options for `navigator.credentials.create`. */
export async function askForNewPasskey({ pool, relyingParty, now }: AuthContext, { userId, sessionId }: AccountCaller) {
  const user = await getUser(pool, userId)
  const challenge = await inTransaction(pool, (tx) => insertChallenge(tx, { purpose: 'passkey_registration', userId, sessionId }, now()))
  const options = await creationOptions(relyingParty, user, await listCredentials(pool, userId), challenge)
  return { options, expires_in: CHALLENGE_SECONDS }
}

/**
 * Registers a passkey. Also returns new recovery codes if the account needs some. Throws `invalid_challenge`,
 * `invalid_second_factor`, `passkey_taken`, `too_many_passkeys`.
 */
export async function addPasskey(
  context: AuthContext,
  { name, passkey: response }: { name: string; passkey: RegistrationResponseJSON },
  change: OwnChange,
): Promise<{ passkey: Passkey; recoveryCodes: string[] | null }> {
  const { pool, relyingParty, now } = context
  const { userId, sessionId } = change.caller
  const challenge = challengeOf(response.response)
  if (challenge === null) throw invalidSecondFactor()
  // A separate transaction uses up the challenge, even if the answer is wrong.
  await inTransaction(pool, async (tx) => {
    await takeChallenge(tx, challenge, { purpose: 'passkey_registration', sessionId }, now())
    await deleteChallenge(tx, challenge)
  })
  const credential = await verifyRegistration(relyingParty, response, challenge)
  if (credential === null) {
    change.client.record('passkey_refused', { user_id: userId, reason: 'registration' })
    throw invalidSecondFactor()
  }
  return changeFactors(context, change, async (tx, account, before) => {
    if (before.passkeys >= MAX_PASSKEYS)
      throw new AppError('too_many_passkeys', `The account has ${MAX_PASSKEYS} passkeys. Remove one that is no longer used first.`)
    const passkey = await insertPasskey(tx, userId, credential, name, now())
    return { passkey, ...(await afterAdding(tx, context, { ...change, account, before, factor: 'passkey' })) }
  })
}

/** Throws `not_found`, also for another account's passkey. */
export async function renamePasskey(context: AuthContext, { id, name }: { id: string; name: string }, change: OwnChange): Promise<Passkey> {
  const { passkey } = await changeFactors(context, change, async (tx, account) => {
    const passkey = await updatePasskey(tx, account.id, id, name)
    if (passkey === null) throw notFound('passkey')
    // The record omits names, which can be a person's.
    await recordFactorActivity(tx, change.auditContext, account.id, null, { passkey: 'renamed' })
    return { passkey, ended: [] }
  })
  change.client.record('account_changed', { user_id: change.caller.userId })
  return passkey
}

/** Throws `not_found`, also for another account's passkey, and `last_sign_in`. */
export async function removePasskey(context: AuthContext, id: string, change: OwnChange): Promise<void> {
  await changeFactors(context, change, async (tx, account) => {
    if (!(await deletePasskey(tx, account.id, id))) throw notFound('passkey')
    await assertCanSignIn(tx, account.id)
    return afterRemoving(tx, context, { ...change, account, factor: 'passkey' })
  })
}

/** Throws `not_found` for an account without an app. */
export async function removeTotp(context: AuthContext, change: OwnChange): Promise<void> {
  await changeFactors(context, change, async (tx, account) => {
    if (!(await deleteTotp(tx, account.id))) throw notFound('authenticator app')
    return afterRemoving(tx, context, { ...change, account, factor: 'totp' })
  })
}

/** Replaces the recovery codes. Throws `not_found` for an account that needs none. */
export async function renewRecoveryCodes(context: AuthContext, change: OwnChange): Promise<{ recoveryCodes: string[] }> {
  return changeFactors(context, change, async (tx, { id }, { isRequired }) => {
    if (!isRequired) throw notFound('second factor')
    await recordFactorActivity(tx, change.auditContext, id, null, { recovery_codes: 'renewed' })
    return { recoveryCodes: await replaceRecoveryCodes(tx, id), ended: [] }
  })
}

/**
 * Runs `work` with the locked account and its factors. The sessions that `work` ends are refused by this process at
 * once.
 */
async function changeFactors<T extends { ended: string[] }>(
  { pool, adminFactors, revocations, now }: AuthContext,
  { caller }: OwnChange,
  work: (tx: Transaction, account: Account, before: SecondFactors) => Promise<T>,
): Promise<Omit<T, 'ended'>> {
  const { ended, ...result } = await inTransaction(pool, async (tx) => {
    const account = await lockCaller(tx, caller, now())
    return work(tx, account, await findSecondFactors(tx, account))
  })
  revocations.add(...ended)
  await adminFactors.refresh()
  return result
}

async function afterAdding(
  tx: Transaction,
  context: AuthContext,
  { caller, client, auditContext, account, before, factor }: OwnChange & { account: Account; before: SecondFactors; factor: Factor },
): Promise<{ recoveryCodes: string[] | null; ended: string[] }> {
  const { now } = context
  await markProven(tx, caller.sessionId, factor, now())
  const after = await findSecondFactors(tx, account)
  // Other sessions were opened without the factor that is required now.
  const isFirst = after.isRequired && !before.isRequired
  const ended = isFirst ? await revokeSessionsOf(tx, account.id, caller.sessionId, now()) : []
  await sendNotice(tx, context, 'second_factor_added', account)
  await recordFactorActivity(tx, auditContext, account.id, null, { factor })
  client.record('second_factor_added', { user_id: account.id, method: factor })
  const needsCodes = after.isRequired && after.recoveryCodesLeft === 0
  return { recoveryCodes: needsCodes ? await replaceRecoveryCodes(tx, account.id) : null, ended }
}

async function afterRemoving(
  tx: Transaction,
  context: AuthContext,
  { caller, client, auditContext, account, factor }: OwnChange & { account: Account; factor: Factor },
): Promise<{ ended: string[] }> {
  if (!(await findSecondFactors(tx, account)).isRequired) await deleteRecoveryCodes(tx, account.id)
  // A stranger may have the device.
  const ended = await revokeSessionsOf(tx, account.id, caller.sessionId, context.now())
  await sendNotice(tx, context, 'second_factor_removed', account)
  await recordFactorActivity(tx, auditContext, account.id, { factor }, null)
  client.record('second_factor_removed', { user_id: account.id, method: factor })
  return { ended }
}

async function recordFactorActivity(
  tx: Transaction,
  auditContext: AuditContext | null,
  id: string,
  before: object | null,
  after: object | null,
) {
  if (auditContext !== null) await recordActivity(tx, auditContext, { subjectType: 'account', subjectId: id, before, after })
}

/**
 * Call after removing a way to sign in, with the account locked. Throws `last_sign_in` if only a password reset by mail
 * is left.
 */
export async function assertCanSignIn(tx: Transaction, userId: string): Promise<void> {
  const { rows } = await tx.query<{ can_sign_in: boolean }>(
    sql`select password_hash is not null
      or exists (select from passkeys where user_id = users.id)
      -- Operators cannot sign in with a provider.
      or (role = 'customer' and exists (select from oidc_identities where user_id = users.id)) as can_sign_in
    from users
    where id = ${userId}`,
  )
  if (rows[0]?.can_sign_in !== true)
    throw new AppError('last_sign_in', 'The account could not sign in any more. Set a password first: POST /auth/password-reset.')
}

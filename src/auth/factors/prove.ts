import type { AuthenticationResponseJSON } from '@simplewebauthn/server'
import type { Transaction } from '../../db/pool.ts'
import type { Client } from '../client.ts'
import { type AuthContext, sendNotice } from '../context.ts'
import type { User } from '../users.ts'
import { countPasskeyUse, lockPasskey } from './passkeys.ts'
import { useRecoveryCode } from './recovery-codes.ts'
import type { SecondFactorMethod } from './second-factors.ts'
import { useTotpCode } from './totp-authenticators.ts'
import { userHandleOf, verifyAssertion } from './webauthn.ts'

/** Exactly one of the three, as the routes' schemas require. */
export interface SecondFactorProof {
  totp_code?: string
  recovery_code?: string
  passkey?: AuthenticationResponseJSON
}

/** Checks the account's proof and uses it up. Returns null for a wrong one; the reason is only logged. */
export async function proveSecondFactor(
  tx: Transaction,
  context: AuthContext,
  user: Pick<User, 'id' | 'email' | 'language'>,
  proof: SecondFactorProof & { challenge: string },
  client: Client,
): Promise<SecondFactorMethod | null> {
  const { totpEncryption, now } = context
  if (proof.passkey !== undefined) {
    const owner = await provePasskey(tx, context, proof.passkey, proof.challenge, client)
    if (owner !== null && owner.id !== user.id) client.record('passkey_refused', { user_id: user.id, reason: 'passkey of another account' })
    return owner?.id === user.id ? 'passkey' : null
  }
  if (proof.totp_code !== undefined) {
    const code = { userId: user.id, code: proof.totp_code, isConfirmed: true, now: now() }
    return (await useTotpCode(tx, totpEncryption, code)) ? 'totp' : null
  }
  if (proof.recovery_code === undefined || !(await useRecoveryCode(tx, user.id, proof.recovery_code, now()))) return null
  await sendNotice(tx, context, 'recovery_code_used', user)
  client.record('recovery_code_used', { user_id: user.id })
  return 'recovery_code'
}

/** The account whose passkey answered this challenge; null for a wrong answer. */
export async function provePasskey(
  tx: Transaction,
  { relyingParty, now }: AuthContext,
  response: AuthenticationResponseJSON,
  challenge: string,
  client: Client,
): Promise<User | null> {
  const passkey = await lockPasskey(tx, response.id)
  if (passkey === null) {
    client.record('passkey_refused', { reason: 'unknown passkey' })
    return null
  }
  const { owner } = passkey
  const refuse = (reason: string) => {
    client.record('passkey_refused', { user_id: owner.id, reason })
    return null
  }
  const { userHandle } = response.response
  if (userHandle !== undefined && userHandle !== userHandleOf(owner.id).toString('base64url'))
    return refuse('user handle of another account')
  const signCount = await verifyAssertion(relyingParty, response, challenge, passkey)
  if (signCount === null) return refuse('wrong signature, origin or challenge')
  return (await countPasskeyUse(tx, passkey.id, signCount, now())) ? owner : refuse('the counter went back')
}

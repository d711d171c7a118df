import assert from 'node:assert/strict'
import { totpCode, totpStepOf } from '../src/auth/factors/totp.ts'
import { type Authenticator, createAuthenticator, type Forgery } from './authenticator.ts'
import { eventually } from './eventually.ts'
import { assertProblem } from './problem.ts'
import type { Account, Answer, TestStore } from './store.ts'

type Store = Pick<TestStore, 'call'>

const CODE_MS = 30_000
/** A process may stand still for five seconds. */
const CALM_MS = 6_000

/**
 * The time, for a store with the real clock: not just before the next code, with which the one that `addTotp`
 * confirms would be too old.
 */
export async function timeForCodes(): Promise<Date> {
  await eventually(async () => CODE_MS - (Date.now() % CODE_MS) > CALM_MS, { pauseMs: 100 })
  return new Date()
}

/** Sets up an authenticator app. Its code is that of `now`, plus `steps` of thirty seconds. */
export async function addTotp(store: Store, token: string, now: Date) {
  const started = await store.call('POST', '/me/totp', { token })
  assert.equal(started.status, 200, started.text)
  const secret: string = started.json.secret
  const codeAt = (time: Date, steps = 0) => totpCode(secret, totpStepOf(time) + steps)
  // The step before: the present one stays usable for what follows.
  const confirmed = await store.call('POST', '/me/totp/confirm', { token, body: { totp_code: codeAt(now, -1) } })
  assert.equal(confirmed.status, 200, confirmed.text)
  return { secret, codeAt, recoveryCodes: confirmed.json.recovery_codes as string[] | null }
}

/** Registers a passkey of a new authenticator. */
export async function addPasskey(store: Store, token: string, forgery: Forgery = {}, authenticator = createAuthenticator()) {
  const answer = await tryPasskey(store, token, authenticator, forgery)
  assert.equal(answer.status, 201, answer.text)
  return { authenticator, id: answer.json.passkey.id as string, recoveryCodes: answer.json.recovery_codes as string[] | null }
}

export async function tryPasskey(store: Store, token: string, authenticator: Authenticator, forgery: Forgery = {}): Promise<Answer> {
  const begun = await store.call('POST', '/me/passkeys/options', { token })
  assert.equal(begun.status, 200, begun.text)
  const passkey = authenticator.register(begun.json.options, forgery)
  return store.call('POST', '/me/passkeys', { token, body: { name: 'Phone', passkey } })
}

/** Signs in with the password; returns the problem that asks for the second factor. */
export async function askedForFactor(store: Store, { email, password }: Pick<Account, 'email' | 'password'>) {
  const answer = await store.call('POST', '/auth/login', { body: { email, password } })
  assertProblem(answer, 403, 'second_factor_required')
  return answer.json as { challenge: string; methods: string[]; passkey_options: { challenge: string } | null; expires_in: number }
}

export async function signInByPasskey(store: Store, authenticator: Authenticator, forgery: Forgery = {}): Promise<Answer> {
  const { json } = await store.call('POST', '/auth/passkey/options')
  return store.call('POST', '/auth/passkey', { body: { passkey: authenticator.answer(json.options, forgery) } })
}

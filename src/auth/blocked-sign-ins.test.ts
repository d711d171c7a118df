import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Browser, SHOP } from '../../test/oidc-browser.ts'
import { CLIENT, startOidcProvider } from '../../test/oidc-providers.ts'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { addPasskey, addTotp, askedForFactor, signInByPasskey, timeForCodes } from '../../test/second-factor.ts'
import { type Answer, startStore } from '../../test/store.ts'

const { issuer, state } = await startOidcProvider({ after }, { redirectUri: 'http://localhost:3000/auth/oidc/acme/callback' })
const oidcProviders = [{ id: 'acme', name: 'Acme', issuer, ...CLIENT }]
const store = await startStore({ after }, { oidcProviders, corsOrigins: [SHOP] })
const operator = await registerOperator(store)

const decide = (id: string, what: 'block' | 'unblock') =>
  store.call('POST', `/admin/customers/${id}/${what}`, {
    token: operator.token,
    ...(what === 'block' ? { body: { reason: 'fraud' } } : {}),
  })
const logIn = ({ email, password }: { email: string; password: string }) => store.call('POST', '/auth/login', { body: { email, password } })
const sessionsOf = async (id: string) =>
  (await store.pool.query('select from sessions where user_id = $1 and revoked_at is null', [id])).rowCount
const withoutIds = ({ json: { request_id: _, trace_id: __, ...problem } }: Answer) => problem

async function signInByProvider(): Promise<Answer> {
  const browser = new Browser(store)
  const { headers } = await browser.start()
  const { code = '' } = browser.outcome(await browser.comeBack(await browser.visit(headers.location ?? '')))
  return browser.exchange(code)
}

test('a blocked customer gets the same answer from every way to sign in, and no session, until the block ends', async () => {
  const ada = await store.register()
  await store.pool.query('update users set email_verified_at = now() where id = $1', [ada.id])
  const { authenticator } = await addPasskey(store, ada.token)
  state.person = { sub: 'ada', email: ada.email, email_verified: true }
  assert.equal((await signInByProvider()).json.user.id, ada.id)
  const ways: Record<string, () => Promise<Answer>> = {
    password: () => logIn(ada),
    passkey: () => signInByPasskey(store, authenticator),
    provider: signInByProvider,
  }
  assert.equal((await decide(ada.id, 'block')).status, 204)
  const byPassword = await logIn(ada)
  assertProblem(byPassword, 403, 'account_blocked')
  for (const [way, signIn] of Object.entries(ways)) assert.deepEqual(withoutIds(await signIn()), withoutIds(byPassword), way)
  assert.equal(await sessionsOf(ada.id), 0)
  assert.equal((await decide(ada.id, 'unblock')).status, 204)
  for (const [way, signIn] of Object.entries(ways)) assert.equal((await signIn()).status, 200, way)
})

test('a blocked customer with a second factor gets the same answer after the code, and the code is not used up', async () => {
  const ada = await store.register()
  const now = await timeForCodes()
  const { codeAt } = await addTotp(store, ada.token, now)
  const { challenge } = await askedForFactor(store, ada)
  assert.equal((await decide(ada.id, 'block')).status, 204)
  const body = { challenge, totp_code: codeAt(now) }
  const refused = await store.call('POST', '/auth/second-factor', { body })
  assertProblem(refused, 403, 'account_blocked')
  const plain = await store.register()
  assert.equal((await decide(plain.id, 'block')).status, 204)
  assert.deepEqual(withoutIds(refused), withoutIds(await logIn(plain)))
  assert.equal(await sessionsOf(ada.id), 0)
  assert.equal((await decide(ada.id, 'unblock')).status, 204)
  await store.ok('POST', '/auth/second-factor', { body })
})

test('a provider reveals no block to a stranger: an unlinked person or an unproven address gets the usual answer', async () => {
  const [ada, bob] = [await store.register(), await store.register()]
  await store.pool.query('update users set email_verified_at = now() where id = any($1)', [[ada.id, bob.id]])
  assert.equal((await decide(ada.id, 'block')).status, 204)
  const outcomes: (string | undefined)[] = []
  for (const { email } of [ada, bob]) {
    state.person = { sub: crypto.randomUUID(), email, email_verified: false }
    const browser = new Browser(store)
    const { headers } = await browser.start()
    outcomes.push(browser.outcome(await browser.comeBack(await browser.visit(headers.location ?? ''))).error)
  }
  assert.deepEqual(outcomes, ['email_unproven', 'email_unproven'])
})

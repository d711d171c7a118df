import assert from 'node:assert/strict'
import { after, mock, test } from 'node:test'
import { Browser, SHOP } from '../../test/oidc-browser.ts'
import { CLIENT, startForgedProvider } from '../../test/oidc-providers.ts'
import { assertProblem } from '../../test/problem.ts'
import { addTotp, timeForCodes } from '../../test/second-factor.ts'
import { type Answer, startStore } from '../../test/store.ts'
import { deleteExpired } from './delete-expired.ts'

const ATTACKER = '203.0.113.7'
const OWNER = '198.51.100.20'

// The limits use the wall clock. It is stopped at the start of an app's code step, since later codes would never come.
mock.timers.enable({ apis: ['Date'], now: Date.now() - (Date.now() % 30_000) })

const { issuer } = await startForgedProvider({ after })
const oidcProviders = [{ id: 'acme', name: 'Acme', issuer, ...CLIENT }]
const store = await startStore({ after }, { isRateLimited: true, oidcProviders, corsOrigins: [SHOP] })

const count = async (table: string, where = 'true'): Promise<number> =>
  (await store.pool.query(`select count(*)::int as n from ${table} where ${where}`)).rows[0].n
const statusesOf = (answers: Answer[]) => answers.map(({ status }) => status)
const refusedBy = (answer: Answer | undefined, limit: string) => {
  assert.ok(answer !== undefined)
  assertProblem(answer, 429, 'rate_limited')
  assert.match(answer.headers['ratelimit-policy'] ?? '', new RegExp(`^"${limit}";`))
}

test('one address gets at most sixty passkey challenges a minute, a refusal stores no row, and another address is unaffected', async () => {
  const begin = (from: string) => store.call('POST', '/auth/passkey/options', { from })
  const answers: Answer[] = []
  for (let attempt = 0; attempt < 70; attempt++) answers.push(await begin(ATTACKER))
  assert.deepEqual(statusesOf(answers), [...Array(60).fill(200), ...Array(10).fill(429)])
  refusedBy(answers.at(-1), 'passkey-address')
  assert.equal(await count('auth_challenges'), 60)
  assert.equal((await begin(OWNER)).status, 200)
  assert.equal(await count('auth_challenges'), 61)
  await store.pool.query(`update auth_challenges set expires_at = now() - interval '1 second'`)
  await deleteExpired(store.pool)
  assert.equal(await count('auth_challenges'), 0)
})

test('an IPv6 network gets four times as many challenges, whatever the number of its addresses', async () => {
  const begin = (from: string) => store.call('POST', '/auth/passkey/options', { from })
  const answers: Answer[] = []
  for (let network = 0; network < 245; network++) answers.push(await begin(`2001:db8:1:${network.toString(16)}::1`))
  assert.deepEqual(statusesOf(answers), [...Array(240).fill(200), ...Array(5).fill(429)])
  refusedBy(answers.at(-1), 'passkey-site')
  assert.equal(await count('auth_challenges'), 240)
})

test('one address begins at most sixty provider sign-ins a minute, and a refusal stores no row', async () => {
  const browser = new Browser(store)
  const query = new URLSearchParams({ return_to: `${SHOP}/`, code_challenge: browser.challenge })
  const begin = (from: string) => store.call('GET', `/auth/oidc/acme/authorize?${query}`, { from })
  const answers: Answer[] = []
  for (let attempt = 0; attempt < 70; attempt++) answers.push(await begin(ATTACKER))
  assert.deepEqual(statusesOf(answers), [...Array(60).fill(303), ...Array(10).fill(429)])
  refusedBy(answers.at(-1), 'sign-in-address')
  assert.equal(await count('oidc_sign_ins'), 60)
  assert.equal((await begin(OWNER)).status, 303)
})

test('a person with the password gets twenty second-factor challenges in five minutes, and the owner elsewhere another', async () => {
  const ada = await store.register()
  await addTotp(store, ada.token, await timeForCodes())
  const logIn = (from: string) => store.call('POST', '/auth/login', { body: { email: ada.email, password: ada.password }, from })
  const answers: Answer[] = []
  for (let attempt = 0; attempt < 22; attempt++) answers.push(await logIn(ATTACKER))
  assert.deepEqual(statusesOf(answers), [...Array(20).fill(403), 429, 429])
  refusedBy(answers.at(-1), 'second-factor-challenge')
  const where = `purpose = 'second_factor'`
  assert.equal(await count('auth_challenges', where), 20)
  assertProblem(await logIn(OWNER), 403, 'second_factor_required')
  assert.equal(await count('auth_challenges', where), 21)
})

test('a session has one challenge of each kind, however often it requests one', async () => {
  const ada = await store.register()
  for (let attempt = 0; attempt < 5; attempt++) {
    await ada.ok('POST', '/me/passkeys/options')
    await ada.ok('POST', '/auth/step-up/options')
  }
  assert.equal(await count('auth_challenges', `user_id = '${ada.id}'`), 2)
})

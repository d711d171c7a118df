import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { readAccountMails } from '../../../test/account-mails.ts'
import { createGuest } from '../../../test/guests.ts'
import { Browser, SHOP } from '../../../test/oidc-browser.ts'
import { CLIENT, type Person, startOidcProvider } from '../../../test/oidc-providers.ts'
import { assertProblem } from '../../../test/problem.ts'
import { registerOperator } from '../../../test/register-operator.ts'
import { addPasskey, addTotp, signInByPasskey } from '../../../test/second-factor.ts'
import { startSecondProcess, startStore } from '../../../test/store.ts'

let now = new Date()
const later = (seconds: number) => {
  now = new Date(now.getTime() + seconds * 1_000)
}
const { issuer, state } = await startOidcProvider({ after }, { redirectUri: 'http://localhost:3000/auth/oidc/acme/callback' })
const settings = { oidcProviders: [{ id: 'acme', name: 'Acme', issuer, ...CLIENT }], corsOrigins: [SHOP], now: () => now }
const store = await startStore({ after }, settings)

const someone = (): Person => {
  const sub = crypto.randomUUID()
  return { sub, email: `${sub}@id.example`, email_verified: true }
}

/** Sends a browser to the provider and back. */
async function visitProvider(person: Person, purpose: 'link' | 'sign_in' = 'link') {
  state.person = person
  const browser = new Browser(store)
  const start = await browser.start('acme', undefined, { purpose })
  const back = await browser.visit(start.headers.location ?? '')
  return { browser, ...browser.outcome(await browser.comeBack(back)) }
}

const present = (token: string, code = '', verifier = '') =>
  store.call('POST', '/me/sign-ins', { token, body: { code, code_verifier: verifier } })

async function link(token: string, person: Person) {
  const { browser, linkCode } = await visitProvider(person)
  return present(token, linkCode, browser.verifier)
}

async function signIn(person: Person) {
  const { browser, code = '' } = await visitProvider(person, 'sign_in')
  return browser.exchange(code)
}

const unlink = (token: string) => store.call('DELETE', '/me/sign-ins/acme', { token })
const linksOf = async (token: string) => (await store.ok('GET', '/me', { token })).sign_ins
const mailsTo = async (email: string) => (await readAccountMails(store)).flatMap(({ kind, to }) => (to === email ? [kind] : []))

test('a customer adds a provider with another address, signs in with it and removes it; the owner is told', async () => {
  const ada = await store.register()
  const person = someone()
  const linked = await link(ada.token, person)
  assert.deepEqual([linked.status, linked.json.issuer, linked.headers['cache-control']], [200, issuer, 'no-store'], linked.text)
  assert.deepEqual(await linksOf(ada.token), [linked.json])
  const opened = await signIn({ ...person, email: 'moved@id.example', email_verified: false })
  assert.equal(opened.json.user.id, ada.id)
  assert.equal(opened.json.user.email, ada.email, 'the address of the account stays')
  const again = await link(ada.token, person)
  assert.deepEqual([again.status, again.json], [200, linked.json], 'the same link again changes nothing')
  assert.deepEqual(await mailsTo(ada.email), ['sign_in_linked'])

  assert.equal((await unlink(ada.token)).status, 204)
  assert.deepEqual(await linksOf(ada.token), [])
  assertProblem(
    await store.call('GET', '/me', { token: opened.json.access_token }),
    401,
    'invalid_token',
    'others may have come in with it',
  )
  await ada.ok('GET', '/me')
  assert.deepEqual(await mailsTo(ada.email), ['sign_in_linked', 'sign_in_unlinked'])
  assertProblem(await unlink(ada.token), 404, 'not_found')
  assert.notEqual((await signIn(person)).json.user?.id, ada.id)
})

test('a person linked to another account is refused, and the answer does not say to whose', async () => {
  const [ada, eve, person] = [await store.register(), await store.register(), someone()]
  assert.equal((await link(ada.token, person)).status, 200)
  const refused = await link(eve.token, person)
  assertProblem(refused, 409, 'sign_in_taken')
  for (const secret of [ada.id, ada.email, person.email ?? '']) assert.ok(!refused.text.includes(secret))
  assert.deepEqual(await linksOf(eve.token), [])
  assert.deepEqual(await mailsTo(eve.email), [])
  assert.equal((await signIn(person)).json.user.id, ada.id)
  assertProblem(await link(ada.token, someone()), 409, 'provider_linked', 'a second person of one provider')
  assert.equal((await signIn(person)).json.user.id, ada.id)
})

test('a person is linked to one of two accounts that link at once', async () => {
  const [accounts, person] = [[await store.register(), await store.register()], someone()]
  const visits = [await visitProvider(person), await visitProvider(person)]
  const answers = await Promise.all(
    accounts.map(({ token }, index) => present(token, visits[index]?.linkCode, visits[index]?.browser.verifier)),
  )
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 409])
  const { rows } = await store.pool.query('select from oidc_identities where subject = $1', [person.sub])
  assert.equal(rows.length, 1)
})

test('a link code opens no session, a sign-in code links nothing, and each works once, in time, for its page', async () => {
  const ada = await store.register()
  const person = someone()
  const users = async () => (await store.pool.query('select count(*)::int as n from users')).rows[0].n
  const before = await users()
  const first = await visitProvider(person)
  assert.equal(first.code, undefined)
  assertProblem(await first.browser.exchange(first.linkCode ?? ''), 422, 'invalid_one_time_token', 'to sign in')
  assert.equal(await users(), before)
  assertProblem(await present(ada.token, first.linkCode, new Browser(store).verifier), 422, 'invalid_one_time_token', 'of another page')
  assertProblem(await present(ada.token, first.linkCode, first.browser.verifier), 422, 'invalid_one_time_token', 'an attempt uses it up')
  const signedIn = await visitProvider(someone(), 'sign_in')
  assertProblem(await present(ada.token, signedIn.code, signedIn.browser.verifier), 422, 'invalid_one_time_token')
  const late = await visitProvider(person)
  later(301)
  assertProblem(await present(ada.token, late.linkCode, late.browser.verifier), 422, 'invalid_one_time_token', 'after five minutes')
  const twice = await visitProvider(person)
  const answers = await Promise.all([1, 2].map(() => present(ada.token, twice.linkCode, twice.browser.verifier)))
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 422])
})

test('adding or removing a provider needs a fresh proof, and the code stays valid while the page asks for it', async () => {
  const ada = await store.register()
  later(601)
  const { browser, linkCode } = await visitProvider(someone())
  assertProblem(await present(ada.token, linkCode, browser.verifier), 403, 'step_up_required')
  assertProblem(await unlink(ada.token), 403, 'step_up_required')
  await ada.ok('POST', '/auth/step-up', { body: { password: ada.password } })
  assert.equal((await present(ada.token, linkCode, browser.verifier)).status, 200)
})

test('operators, guests and ended sessions cannot link a provider', async (t) => {
  const [operator, ada] = [await registerOperator(store), await store.register()]
  assertProblem(await link(operator.token, someone()), 403, 'forbidden')
  assertProblem(await link((await createGuest(store, 'guest@example.com')).token, someone()), 403, 'forbidden')
  const other = await startSecondProcess(t, store, settings)
  const { browser, linkCode } = await visitProvider(someone())
  await other.ok('POST', '/auth/logout', { token: ada.token })
  assertProblem(await present(ada.token, linkCode, browser.verifier), 401, 'invalid_token', 'also before this process knows')
  const { rows } = await store.pool.query('select from oidc_identities where user_id = any($1)', [[operator.id, ada.id]])
  assert.equal(rows.length, 0)
})

test('the last way to sign in cannot be removed; a provider, a passkey or a password is enough', async () => {
  const person = someone()
  const { json: ada } = await signIn(person)
  const token = ada.access_token
  assertProblem(await unlink(token), 409, 'last_sign_in')
  assert.equal((await linksOf(token)).length, 1)
  const begun = await store.ok('POST', '/auth/step-up/options', { token })
  assert.deepEqual(begun.methods, [], 'no password is asked for where there is none')
  const first = await addPasskey(store, token)
  assert.equal((await unlink(token)).status, 204)
  const remove = (id: string) => store.call('DELETE', `/me/passkeys/${id}`, { token })
  assertProblem(await remove(first.id), 409, 'last_sign_in')
  assert.equal((await signInByPasskey(store, first.authenticator)).status, 200, 'nothing was removed')
  const second = await addPasskey(store, token)
  const both = await Promise.all([remove(first.id), remove(second.id)])
  assert.deepEqual(both.map(({ status }) => status).toSorted(), [204, 409], 'two at once')
  assert.equal((await link(token, person)).status, 200)
  const json = await store.ok('GET', '/me/factors', { token })
  assert.equal((await remove(json.passkeys[0].id)).status, 204)
  assertProblem(await unlink(token), 409, 'last_sign_in')
})

test('removing a provider ends its half-finished sign-ins', async () => {
  const [ada, person] = [await store.register(), someone()]
  assert.equal((await link(ada.token, person)).status, 200)
  const { codeAt } = await addTotp(store, ada.token, now)
  const exchanged = await visitProvider(person, 'sign_in')
  const asked = assertProblem(await exchanged.browser.exchange(exchanged.code ?? ''), 403, 'second_factor_required')
  const pending = await visitProvider(person, 'sign_in')
  assert.equal((await unlink(ada.token)).status, 204)
  assertProblem(await pending.browser.exchange(pending.code ?? ''), 422, 'invalid_one_time_token')
  const body = { challenge: asked.challenge, totp_code: codeAt(now) }
  assertProblem(await store.call('POST', '/auth/second-factor', { body }), 422, 'invalid_challenge')
})

test('a person who declines at the provider returns without a link code', async () => {
  state.isDenying = true
  const { error, linkCode } = await visitProvider(someone()).finally(() => {
    state.isDenying = false
  })
  assert.deepEqual([error, linkCode], ['denied', undefined])
  const { status } = await new Browser(store).start('acme', undefined, { purpose: 'anything' })
  assert.equal(status, 400)
})

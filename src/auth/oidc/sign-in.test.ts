import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { newestToken } from '../../../test/account-mails.ts'
import { createGuest, placeOrder } from '../../../test/guests.ts'
import { Browser, SHOP } from '../../../test/oidc-browser.ts'
import { CLIENT, type Person, startOidcProvider } from '../../../test/oidc-providers.ts'
import { assertProblem, faults } from '../../../test/problem.ts'
import { addTotp, timeForCodes } from '../../../test/second-factor.ts'
import { startSecondProcess, startStore } from '../../../test/store.ts'

const BASE = 'http://localhost:3000'
const { issuer, state } = await startOidcProvider({ after }, { redirectUri: `${BASE}/auth/oidc/acme/callback` })
const oidcProviders = [{ id: 'acme', name: 'Acme', issuer, ...CLIENT }]
const store = await startStore({ after }, { oidcProviders, corsOrigins: [SHOP] })

/** Signs a person in through the provider and back, and returns the result that the page sees. */
async function signIn(person: Person, browser = new Browser(store)) {
  state.person = person
  const start = await browser.start()
  assert.equal(start.status, 303, start.text)
  const back = await browser.visit(start.headers.location ?? '')
  return { browser, back, start, ...browser.outcome(await browser.comeBack(back)) }
}

async function open(person: Person) {
  const { browser, code = '' } = await signIn(person)
  const answer = await browser.exchange(code)
  assert.equal(answer.status, 200, answer.text)
  return answer.json
}

const someone = (overrides: Partial<Person> = {}): Person => {
  const sub = crypto.randomUUID()
  return { sub, email: `${sub}@example.com`, email_verified: true, name: 'Ada Lovelace', ...overrides }
}

const prove = (email: string) => store.pool.query('update users set email_verified_at = now() where email = $1', [email])
const accountsOf = async (email: string) => (await store.pool.query('select id from users where email = $1', [email])).rows.length
const setRole = (id: string, role: string) => store.pool.query('update users set role = $2 where id = $1', [id, role])

test('a new person gets an account with a proven address and no password, and the same account the next time', async () => {
  const ada = someone()
  const german = new Browser(store)
  german.language = 'de-AT'
  const { browser, code = '', start } = await signIn(ada, german)
  assert.match(
    String(start.headers['set-cookie']),
    /^storefront_oidc_3000=[\w-]{43}; Path=\/auth\/oidc; HttpOnly; SameSite=Lax; Max-Age=600$/,
  )
  const asked = new URL(start.headers.location ?? '').searchParams
  assert.deepEqual([asked.get('code_challenge_method'), asked.get('ui_locales')], ['S256', 'de'])
  const { status, json, headers } = await browser.exchange(code)
  assert.deepEqual([status, headers['cache-control']], [200, 'no-store'])
  assert.deepEqual([json.user.email, json.user.name, json.user.role, json.user.language], [ada.email, 'Ada Lovelace', 'customer', 'de'])
  const me = await store.ok('GET', '/me', { token: json.access_token })
  assert.deepEqual(
    me.sign_ins.map((signIn: { issuer: string }) => signIn.issuer),
    [issuer],
  )
  const { rows } = await store.pool.query('select password_hash, email_verified_at from users where id = $1', [me.id])
  assert.ok(rows[0].password_hash === null && rows[0].email_verified_at !== null)
  const again = await open({ ...ada, email: 'moved@example.com', email_verified: false })
  assert.deepEqual([again.user.id, again.user.email], [me.id, ada.email], 'the subject counts, and not the address')
  for (const password of ['', 'a long enough passphrase']) {
    assertProblem(await store.call('POST', '/auth/login', { body: { email: ada.email, password } }), 401, 'invalid_credentials')
  }
})

test('an account with a proven address is linked, and its owner is told', async () => {
  const ada = await store.register()
  await prove(ada.email)
  const person = someone({ email: ada.email.toUpperCase() })
  assert.equal((await open(person)).user.id, ada.id)
  const { rows } = await store.pool.query('select count(*) from account_mails')
  assert.ok(rows[0].count >= 1)
  const { error } = await signIn(someone({ email: ada.email }))
  assert.equal(error, 'refused', 'the address was given to another person at the provider')
})

test('an account with an unproven address is not linked, even if the address is the same', async () => {
  const eve = await store.register()
  assert.equal((await signIn(someone({ email: eve.email }))).error, 'account_unproven')
  assert.deepEqual((await eve.ok('GET', '/me')).sign_ins, [])
})

test('an address that the provider has not verified neither links nor creates an account', async () => {
  const ada = await store.register()
  await prove(ada.email)
  for (const email_verified of [false, undefined, 'true', 1, null]) {
    const stranger = someone({ email_verified })
    for (const person of [someone({ email: ada.email, email_verified }), stranger]) {
      assert.equal((await signIn(person)).error, 'email_unproven', String(email_verified))
    }
    assert.equal(await accountsOf(stranger.email ?? ''), 0)
  }
  for (const email of [undefined, '', 'no address', 'a@b', `${'x'.repeat(300)}@example.com`]) {
    const { sub } = someone()
    assert.equal(
      (await signIn({ sub, email_verified: true, ...(email === undefined ? {} : { email }) })).error,
      'email_unproven',
      String(email),
    )
  }
  assert.deepEqual((await ada.ok('GET', '/me')).sign_ins, [])
})

test('a provider never signs in an operator: not by the address, and not after a promotion', async () => {
  const [operator, another, person] = [await store.register(), await store.register(), someone()]
  await prove(operator.email)
  // Another admin must exist, because the last admin cannot be demoted.
  await setRole(another.id, 'admin')
  for (const role of ['admin', 'support']) {
    await setRole(operator.id, role)
    assert.equal((await signIn(someone({ email: operator.email }))).error, 'refused', role)
  }
  const { user } = await open(person)
  const { browser, code = '' } = await signIn(person)
  await setRole(user.id, 'support')
  assertProblem(await browser.exchange(code), 422, 'invalid_one_time_token', 'promoted between the code and its exchange')
  assert.equal((await signIn(person)).error, 'refused')
})

test('a code works once, for the page that began the sign-in, within a minute', async (t) => {
  let aheadMs = 0
  const late = await startSecondProcess(t, store, { oidcProviders, corsOrigins: [SHOP], now: () => new Date(Date.now() + aheadMs) })
  const person = someone()
  const first = await signIn(person)
  assert.equal((await first.browser.exchange(first.code ?? '')).status, 200)
  assertProblem(await first.browser.exchange(first.code ?? ''), 422, 'invalid_one_time_token', 'a second time')
  const stolen = await signIn(person)
  assertProblem(await new Browser(store).exchange(stolen.code ?? ''), 422, 'invalid_one_time_token', 'put into the page of somebody else')
  assertProblem(await stolen.browser.exchange(stolen.code ?? ''), 422, 'invalid_one_time_token', 'an attempt uses it up')
  const old = await signIn(person)
  aheadMs = 61_000
  assertProblem(
    await late.call('POST', '/auth/oidc/token', { body: { code: old.code, code_verifier: old.browser.verifier } }),
    422,
    'invalid_one_time_token',
  )
  const parallel = await signIn(person)
  const both = await Promise.all([1, 2].map(() => parallel.browser.exchange(parallel.code ?? '')))
  assert.deepEqual(both.map(({ status }) => status).toSorted(), [200, 422])
})

test('a callback works once, in the browser that began the sign-in, and with its state', async () => {
  const person = someone()
  const { browser, back, start } = await signIn(person)
  const cookie = String(start.headers['set-cookie']).split(';')[0] ?? ''
  assert.equal(browser.cookie, '', 'the cookie is gone')
  assertProblem(await browser.comeBack(back, cookie), 401, 'invalid_sign_in', 'replayed with the cookie')
  state.person = person
  const [ada, eve] = [new Browser(store), new Browser(store)]
  const [startOfAda, startOfEve] = [await ada.start(), await eve.start()]
  const [backOfAda, backOfEve] = [await ada.visit(startOfAda.headers.location ?? ''), await eve.visit(startOfEve.headers.location ?? '')]
  assertProblem(await ada.comeBack(backOfEve), 401, 'invalid_sign_in', "led to a stranger's callback")
  assertProblem(await ada.comeBack(backOfAda, ''), 401, 'invalid_sign_in', 'without the cookie')
  const forged = new URL(backOfAda)
  for (const value of ['', 'x', `${forged.searchParams.get('state')}x`]) {
    forged.searchParams.set('state', value)
    assertProblem(await ada.comeBack(forged.href), 401, 'invalid_sign_in', `state ${value}`)
  }
  assert.ok(ada.outcome(await ada.comeBack(backOfAda)).code, 'none of it has ended the sign-in of the owner')
})

test('refuses a sign-in that took more than ten minutes', async (t) => {
  let aheadMs = 0
  const late = await startSecondProcess(t, store, { oidcProviders, corsOrigins: [SHOP], now: () => new Date(Date.now() + aheadMs) })
  const browser = new Browser(late)
  state.person = someone()
  const back = await browser.visit((await browser.start()).headers.location ?? '')
  aheadMs = 601_000
  assertProblem(await browser.comeBack(back), 401, 'invalid_sign_in')
})

test('a person who declines at the provider returns without a code', async () => {
  state.isDenying = true
  const { error } = await signIn(someone()).finally(() => {
    state.isDenying = false
  })
  assert.equal(error, 'denied')
})

test('a sign-in returns only to pages of allowed origins', async () => {
  for (const returnTo of [
    ...[
      'https://evil.example/',
      'http://shop.example/',
      'https://shop.example:8443/',
      'https://shop.example.evil.example/',
      '//shop.example/',
    ],
    ...[`https://shop.example@evil.example/`, 'https://me:secret@shop.example/', '/account', 'javascript:alert(1)', 'data:text/html,x', ''],
    ...[
      'https://evil.example\\@shop.example/',
      'https://shop.example/#oidc-code=mine',
      'https:evil.example',
      ' https://evil.example',
      'null',
    ],
    ...['https://shop.example\u0000.evil.example/', 'https://shop.example%2eevil.example/', 'https://shop.example%00/'],
  ]) {
    const answer = await new Browser(store).start('acme', returnTo)
    assert.equal(answer.headers.location, undefined, returnTo)
    assert.deepEqual(faults(assertProblem(answer, 400, 'invalid_query', returnTo)), ['return_to'])
  }
  for (const returnTo of [`${SHOP}/a?b=c`, `${BASE}/`, 'HTTPS://SHOP.EXAMPLE\\account']) {
    assert.equal((await new Browser(store).start('acme', returnTo)).status, 303, returnTo)
  }
  for (const query of [
    '',
    `return_to=${SHOP}/`,
    `return_to=${SHOP}/&code_challenge=short`,
    `return_to=${SHOP}/&code_challenge=${'a'.repeat(44)}`,
  ]) {
    assertProblem(await store.call('GET', `/auth/oidc/acme/authorize?${query}`), 400, 'invalid_query', query)
  }
})

test('with CORS_ORIGINS=* only pages of the store itself may begin a sign-in', async (t: TestContext) => {
  const { call } = await startSecondProcess(t, store, { oidcProviders, corsOrigins: '*' })
  assertProblem(await new Browser({ call }).start(), 400, 'invalid_query')
  assert.equal((await new Browser({ call }).start('acme', `${BASE}/shop`)).status, 303)
})

test('an account without a password gets one by mail and unlinks the provider; its erasure deletes everything', async () => {
  const person = someone()
  const { user, access_token } = await open(person)
  const body = { current_password: '', new_password: 'a long enough passphrase' }
  assertProblem(await store.call('POST', '/auth/password', { token: access_token, body }), 401, 'invalid_credentials')
  await store.ok('POST', '/auth/password-reset', { body: { email: person.email } })
  const other = await open(someone())
  assertProblem(await store.call('DELETE', '/me/sign-ins/acme', { token: access_token }), 409, 'last_sign_in')
  await signIn(person)
  const reset = { token: await newestToken(store, 'reset_password'), password: body.new_password }
  await store.ok('POST', '/auth/password-reset/confirm', { body: reset })
  const unused = await store.pool.query('select from oidc_codes where user_id = $1', [user.id])
  assert.equal(unused.rowCount, 0, 'a sign-in that was not finished before the reset never is')
  const token = (await store.ok('POST', '/auth/login', { body: { email: person.email, password: reset.password } })).access_token
  await store.ok('DELETE', '/me/sign-ins/acme', { token })
  assertProblem(await store.call('DELETE', '/me/sign-ins/acme', { token }), 404, 'not_found')
  assert.deepEqual((await store.ok('GET', '/me', { token })).sign_ins, [])
  assert.equal((await store.ok('GET', '/me', { token: other.access_token })).sign_ins.length, 1, "another account's stays")
  assert.equal((await open(person)).user.id, user.id, 'linked again, by the address that both have proven')
  await signIn(person)
  await store.ok('DELETE', '/me', { token })
  const { rows } = await store.pool.query(
    `select (select count(*) from oidc_identities where user_id = $1) as identities, (select count(*) from oidc_codes where user_id = $1) as codes`,
    [user.id],
  )
  assert.deepEqual(rows, [{ identities: 0, codes: 0 }])
  assert.notEqual((await open(person)).user.id, user.id, 'the person may come again, as somebody new')
})

test("an account with a second factor needs it after a provider's sign-in too", async () => {
  const person = someone()
  const { user, access_token: token } = await open(person)
  const { codeAt } = await addTotp(store, token, await timeForCodes())
  const { browser, code = '' } = await signIn(person)
  const asked = assertProblem(await browser.exchange(code), 403, 'second_factor_required')
  const answer = await store.call('POST', '/auth/second-factor', { body: { challenge: asked.challenge, totp_code: codeAt(new Date()) } })
  assert.deepEqual([answer.status, answer.json?.user?.id], [200, user.id], answer.text)
  const factors = await store.ok('GET', '/me/factors', { token: answer.json.access_token })
  assert.deepEqual(factors.authenticated_by, ['oidc', 'totp'], 'and not the password, which nobody has sent')
})

test("the orders of guests go to the account whose address a provider has proven, and the guests' sessions end", async () => {
  const person = someone()
  const guest = await createGuest(store, person.email ?? '')
  assert.equal((await placeOrder(store, guest.token, await store.addProduct())).status, 201)
  const stranger = await createGuest(store, `${crypto.randomUUID()}@example.com`)
  assert.equal((await placeOrder(store, stranger.token, await store.addProduct())).status, 201)
  assert.equal((await signIn({ ...person, email_verified: false })).error, 'email_unproven')
  await guest.ok('GET', '/orders')
  const { access_token: token } = await open(person)
  assert.equal((await store.ok('GET', '/orders', { token })).data.length, 1)
  assertProblem(await guest.call('GET', '/orders'), 401, 'invalid_token')
})

test('keeps a name with dots, since the address is proven; two answers for one new person at once create one account', async () => {
  assert.equal((await open(someone({ name: 'Booking.com B.V.' }))).user.name, 'Booking.com B.V.')
  const person = someone()
  state.person = person
  const browsers = [new Browser(store), new Browser(store), new Browser(store)]
  const backs: string[] = []
  for (const browser of browsers) backs.push(await browser.visit((await browser.start()).headers.location ?? ''))
  const outcomes = await Promise.all(browsers.map(async (browser, index) => browser.outcome(await browser.comeBack(backs[index] ?? ''))))
  assert.ok(
    outcomes.every(({ code }) => code !== undefined),
    JSON.stringify(outcomes),
  )
  assert.equal(await accountsOf(person.email ?? ''), 1)
})

test('an unknown provider is not found; the list has the configured providers and no secret', async () => {
  const { json, text } = await store.call('GET', '/auth/oidc')
  assert.deepEqual(json, { data: [{ id: 'acme', name: 'Acme', issuer }] })
  assert.ok(!text.includes(CLIENT.clientSecret))
  const customer = await store.register()
  for (const answer of [
    await new Browser(store).start('other'),
    await store.call('GET', '/auth/oidc/other/callback?code=x&state=y'),
    await customer.call('DELETE', '/me/sign-ins/other'),
  ]) {
    assertProblem(answer, 404, 'not_found')
  }
})

test('a browser that cannot be sent to a page of the shop gets a page in plain language, with a link back', async () => {
  const visit = (path: string, language: string) =>
    store.call('GET', path, { headers: { accept: 'text/html,application/xhtml+xml,*/*;q=0.8', 'accept-language': language } })
  for (const [path, language, status, words] of [
    ['/auth/oidc/acme/callback?code=x&state=y', 'en', 401, 'begin the sign-in again there'],
    ['/auth/oidc/acme/callback?code=x&state=y', 'de-AT', 401, 'beginnen Sie die Anmeldung dort noch einmal'],
    ['/auth/oidc/other/callback', 'fr', 404, 'recommencez la connexion'],
    [`/auth/oidc/acme/authorize?return_to=https://evil.example/&code_challenge=${'a'.repeat(43)}`, 'es', 400, 'empiece allí de nuevo'],
  ] as const) {
    const { status: answered, headers, text } = await visit(path, language)
    assert.deepEqual([answered, headers['content-type']], [status, 'text/html; charset=utf-8'], text)
    assert.ok(text.includes(words) && text.includes(`<a href="${SHOP}/">`) && !text.includes('evil'), text)
    assert.match(headers['content-security-policy'] ?? '', /^default-src 'none'; style-src 'sha256-[^']+';/)
    assert.deepEqual([headers['cache-control'], headers.vary?.includes('Accept')], ['no-store', true])
  }
  assertProblem(await store.call('GET', '/auth/oidc/acme/callback?code=x&state=y'), 401, 'invalid_sign_in', 'a program')
})

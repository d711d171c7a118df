import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { addPasskey } from '../../test/second-factor.ts'
import { startStore } from '../../test/store.ts'

// Otherwise, the operators without a second factor would lose access when one of them gets one.
const store = await startStore({ after }, { isAdminFactorRequired: false })
const operator = await registerOperator(store)
/** A token that was never issued. */
const STRANGER = 'A'.repeat(43)
const FROM_PAGE = { origin: 'http://localhost:3000' }

const signIn = (account: { email: string; password: string }, headers: Record<string, string> = FROM_PAGE) =>
  store.call('POST', '/console/session', { body: { email: account.email, password: account.password }, headers })
const refresh = (cookie: string, headers: Record<string, string> = FROM_PAGE) =>
  store.call('POST', '/console/session/refresh', { headers: { ...headers, cookie } })
const cookieOf = (answer: { headers: Record<string, string | undefined> }) => String(answer.headers['set-cookie']).split(';', 1)[0] ?? ''

test('gives the page an access token, and puts the refresh token in a cookie that scripts cannot read', async () => {
  const answer = await signIn(operator)
  assert.equal(answer.status, 200, answer.text)
  assert.deepEqual(Object.keys(answer.json).sort(), ['access_token', 'email', 'expires_in', 'operator', 'time_zone', 'token_type'])
  assert.match(
    String(answer.headers['set-cookie']),
    /^storefront_console_3000=[\w-]{43}; Max-Age=\d+; Path=\/console\/session; HttpOnly; SameSite=Strict$/,
  )
  assert.equal(answer.headers['cache-control'], 'no-store')
  await store.ok('GET', '/admin/orders', { token: answer.json.access_token })
  const refreshed = await refresh(cookieOf(answer))
  assert.deepEqual(Object.keys(refreshed.json).sort(), ['access_token', 'expires_in', 'operator', 'time_zone', 'token_type'])
  const { id, role, scopes } = await store.ok('GET', '/me', { token: answer.json.access_token })
  for (const { operator: given } of [answer.json, refreshed.json]) assert.deepEqual(given, { id, role, scopes })
  assert.notEqual(cookieOf(refreshed), cookieOf(answer))
  await store.ok('GET', '/admin/orders', { token: refreshed.json.access_token })
})

test('with TLS the browser sends the cookie over TLS only', async (t) => {
  const secure = await startStore(t, { baseUrl: 'https://shop.example/store', basePath: '/store' })
  const account = { email: 'ada@example.com', password: 'a long enough passphrase' }
  assert.equal((await secure.call('POST', '/store/auth/register', { body: account })).status, 201)
  await secure.pool.query(`update users set role = 'admin'`)
  const answer = await secure.call('POST', '/store/console/session', {
    body: account,
    headers: { origin: 'https://shop.example' },
  })
  assert.match(
    String(answer.headers['set-cookie']),
    /^__Secure-storefront_console_443=[\w-]{43}; .*; Path=\/store\/console\/session; HttpOnly; SameSite=Strict; Secure$/,
  )
})

test("behind a proxy that removes the path of BASE_URL, the cookie's path is the one that the browser sees", async (t) => {
  const proxied = await startStore(t, { baseUrl: 'https://shop.example/api', isAdminFactorRequired: false })
  const account = await registerOperator(proxied)
  const pathFor = async (headers: Record<string, string>) => {
    const body = { email: account.email, password: account.password }
    const { headers: answered } = await proxied.call('POST', '/console/session', { body, headers })
    return /Path=([^;]*)/.exec(String(answered['set-cookie']))?.[1]
  }
  assert.equal(await pathFor({ origin: 'https://shop.example' }), '/api/console/session')
  assert.equal(await pathFor({ origin: 'http://localhost:3000', host: 'localhost:3000' }), '/console/session', 'without the proxy')
})

test('a customer is refused and no session stays open', async () => {
  const customer = await store.register()
  const answer = await signIn(customer)
  assertProblem(answer, 403, 'forbidden')
  assert.equal(answer.headers['set-cookie'], undefined)
  const { rows } = await store.pool.query('select count(*)::int as open from sessions where user_id = $1 and revoked_at is null', [
    customer.id,
  ])
  assert.equal(rows[0].open, 1, 'that of the registration')
})

test('a page of another site cannot use the console session, with or without the cookie', async () => {
  const cookie = cookieOf(await signIn(operator))
  const foreign: Record<string, string>[] = [
    {},
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: 'http://localhost:3001' },
    { origin: 'https://localhost:3000' },
    { origin: 'https://127.0.0.1:42000', host: '127.0.0.1:42000' },
    { origin: 'ftp://127.0.0.1:42000', host: '127.0.0.1:42000' },
  ]
  for (const headers of foreign) {
    assertProblem(await signIn(operator, headers), 403, 'forbidden')
    assertProblem(await refresh(cookie, headers), 403, 'forbidden')
    assertProblem(await store.call('DELETE', '/console/session', { headers: { ...headers, cookie } }), 403, 'forbidden')
  }
  const tunnel = { origin: 'http://127.0.0.1:42000', host: '127.0.0.1:42000' }
  assert.equal((await refresh(cookie, tunnel)).status, 200)
})

test('without a session, or with one that has ended, it answers 204 and clears the cookie', async () => {
  for (const cookie of [
    '',
    'other=1',
    'storefront_console_3000=',
    'storefront_console_3000=nonsense',
    `storefront_console_3000=${STRANGER}`,
    `storefront_console_3000=${STRANGER}; storefront_console_3000=${STRANGER.toLowerCase()}`,
  ]) {
    const answer = await refresh(cookie)
    assert.equal(answer.status, 204, cookie)
    assert.equal(answer.headers['set-cookie'] !== undefined, cookie.includes(`=${STRANGER}`), cookie)
  }
  const opened = await signIn(operator)
  const cookie = cookieOf(opened)
  const ended = await store.call('DELETE', '/console/session', { headers: { ...FROM_PAGE, cookie } })
  assert.equal(ended.status, 204)
  assert.match(String(ended.headers['set-cookie']), /^storefront_console_3000=; Max-Age=0; /)
  assert.match(String((await refresh(cookie)).headers['set-cookie']), /^storefront_console_3000=; Max-Age=0; /)
  assertProblem(await store.call('GET', '/admin/orders', { token: opened.json.access_token }), 401, 'invalid_token')
})

test('a cookie added by a page of another subdomain does not hide a session', async () => {
  for (const place of ['before', 'after']) {
    const opened = await signIn(operator)
    const added = cookieOf(opened).replace(/=.*/, `=${STRANGER}`)
    const beside = (cookie: string) => (place === 'before' ? `${added}; ${cookie}` : `${cookie}; ${added}`)
    const refreshed = await refresh(beside(cookieOf(opened)))
    assert.equal(refreshed.status, 200, refreshed.text)
    const headers = { ...FROM_PAGE, cookie: beside(cookieOf(refreshed)) }
    assert.equal((await store.call('DELETE', '/console/session', { headers })).status, 204)
    assertProblem(await store.call('GET', '/admin/orders', { token: refreshed.json.access_token }), 401, 'invalid_token')
    assert.equal((await refresh(cookieOf(refreshed))).status, 204)
  }
})

test('a second sign-in ends the session of the cookie that it replaces', async () => {
  const first = await signIn(operator)
  const wrong = await signIn({ ...operator, password: 'not the password' }, { ...FROM_PAGE, cookie: cookieOf(first) })
  assertProblem(wrong, 401, 'invalid_credentials')
  const second = await signIn(operator, { ...FROM_PAGE, cookie: cookieOf(first) })
  assertProblem(await store.call('GET', '/admin/orders', { token: first.json.access_token }), 401, 'invalid_token')
  assert.equal((await refresh(cookieOf(first))).status, 204)
  assert.equal((await refresh(cookieOf(second))).status, 200)
})

test('the cookie renews no session of an account that is not, or no longer, an operator', async () => {
  const customer = await store.register()
  const former = await registerOperator(store)
  const cookie = cookieOf(await signIn(former))
  await store.pool.query(`update users set role = 'customer' where id = $1`, [former.id])
  for (const given of [`storefront_console_3000=${customer.refreshToken}`, cookie]) {
    const answer = await refresh(given)
    assert.equal(answer.status, 204, answer.text)
    assert.match(String(answer.headers['set-cookie']), /^storefront_console_3000=; Max-Age=0; /)
  }
})

test('a second factor and a passkey set the same cookie, for operators and the console page only', async () => {
  const [guarded, customer] = [await registerOperator(store), await store.register()]
  const { authenticator } = await addPasskey(store, guarded.token)
  const customers = await addPasskey(store, customer.token)
  const asked = await signIn(guarded)
  assertProblem(asked, 403, 'second_factor_required')
  assert.equal(asked.headers['set-cookie'], undefined)
  const send = (path: string, body: object, headers: Record<string, string> = FROM_PAGE) =>
    store.call('POST', `/console/session/${path}`, { body, headers })
  const proof = { challenge: asked.json.challenge, passkey: authenticator.answer(asked.json.passkey_options) }
  assertProblem(await send('second-factor', proof, { origin: 'https://evil.example' }), 403, 'forbidden')
  const completed = await send('second-factor', proof)
  assert.match(String(completed.headers['set-cookie']), /^storefront_console_3000=[\w-]{43}; .*HttpOnly; SameSite=Strict$/)
  assert.deepEqual(Object.keys(completed.json).sort(), ['access_token', 'email', 'expires_in', 'operator', 'time_zone', 'token_type'])
  const begin = async () => (await store.ok('POST', '/auth/passkey/options')).options
  assertProblem(await send('passkey', { passkey: authenticator.answer(await begin()) }, {}), 403, 'forbidden')
  const alone = await send('passkey', { passkey: authenticator.answer(await begin()) }, { ...FROM_PAGE, cookie: cookieOf(completed) })
  assert.equal((await refresh(cookieOf(alone))).status, 200)
  assert.equal((await refresh(cookieOf(completed))).status, 204, 'replaced')
  const refused = await send('passkey', { passkey: customers.authenticator.answer(await begin()) })
  assertProblem(refused, 403, 'forbidden')
  assert.equal(refused.headers['set-cookie'], undefined)
})

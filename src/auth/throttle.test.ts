import assert from 'node:assert/strict'
import { after, beforeEach, mock, test } from 'node:test'
import { newestToken, readAccountMails } from '../../test/account-mails.ts'
import { assertProblem } from '../../test/problem.ts'
import { type Answer, startSecondProcess, startStore, TEST_SECRET, type TestStore } from '../../test/store.ts'
import { GUESTS_OF_MAILBOX, MAILS_BY_ONE } from './limits.ts'
import { Passwords } from './passwords/password.ts'
import { Throttle } from './throttle.ts'

const ATTACKER = '203.0.113.7'
const OWNER = '198.51.100.20'

// The limits use the wall clock, which stands still here. `expire` ages counters instead. The store deletes expired
// counters by the database's clock each minute, so this clock is an hour ahead.
mock.timers.enable({ apis: ['Date'], now: Date.now() + 3_600_000 })

const store = await startStore({ after }, { isRateLimited: true })
const other = await startSecondProcess({ after }, store)
beforeEach(() => store.pool.query('truncate rate_limits'))

const login = (
  call: TestStore['call'],
  from: string,
  email: string,
  password = 'a wrong passphrase',
  headers: Record<string, string> = {},
) => call('POST', '/auth/login', { body: { email, password }, from, headers })

const countByStatus = (answers: Answer[]) =>
  Object.fromEntries([...Map.groupBy(answers, ({ status }) => status)].map(([status, group]) => [status, group.length]))

/** Ages the stored counters of one limit. */
const expire = (limit: string) => store.pool.query(`update rate_limits set expire = 1 where key like $1`, [`${limit}:%`])

test('200 wrong passwords from one address for one account are slowed down; the owner logs in from another address', async () => {
  const ada = await store.register()
  const answers: Answer[] = []
  for (let i = 0; i < 200; i++) answers.push(await login(store.call, ATTACKER, ada.email))
  const { 401: tried = 0, 429: throttled = 0 } = countByStatus(answers)
  assert.equal(tried + throttled, 200)
  assert.equal(tried, 6, 'passwords that were tried')
  const refusal = answers.findLast(({ status }) => status === 429)
  assert.ok(refusal)
  assertProblem(refusal, 429, 'rate_limited')
  const seconds = Number(refusal.headers['retry-after'])
  assert.ok(seconds >= 1 && seconds <= 900)
  assert.equal(refusal.headers.ratelimit, `"login";r=0;t=${seconds}`)
  assert.equal(refusal.headers['ratelimit-policy'], '"login";q=5;w=3600')

  assert.equal((await login(store.call, OWNER, ada.email, ada.password)).status, 200, 'the owner')
  assertProblem(await login(store.call, ATTACKER, ada.email, ada.password), 429, 'rate_limited', 'not even the right one, for now')
  assert.equal((await login(store.call, ATTACKER, (await store.register()).email, ada.password)).status, 200, 'another account')
})

test('lets no more attempts through when they arrive at the same time, in two processes', async () => {
  const ada = await store.register()
  const tries = Array.from({ length: 60 }, (_, i) => login(i % 2 === 0 ? store.call : other.call, ATTACKER, ada.email))
  const { 401: tried = 0 } = countByStatus(await Promise.all(tries))
  assert.ok(tried >= 5 && tried <= 7, `${tried} passwords were tried`)
})

test('increases the delay with each wrong password and resets it after a correct one', async () => {
  const ada = await store.register()
  for (let i = 0; i < 5; i++) assertProblem(await login(store.call, ATTACKER, ada.email), 401, 'invalid_credentials')
  for (const expected of [1, 2, 4, 8, 16, 32]) {
    assertProblem(await login(store.call, ATTACKER, ada.email), 401, 'invalid_credentials', 'its turn')
    const refusal = await login(store.call, ATTACKER, ada.email, ada.password)
    assertProblem(refusal, 429, 'rate_limited', 'too early')
    assert.equal(refusal.headers['retry-after'], String(expected))
    await expire('login-turn')
  }
  assert.equal((await login(store.call, ATTACKER, ada.email, ada.password)).status, 200, 'when the delay is over')
  for (let i = 0; i < 5; i++) assertProblem(await login(store.call, ATTACKER, ada.email), 401, 'invalid_credentials')
})

test('slows down one address that tries one password on many accounts', async () => {
  const ada = await store.register()
  const passwords = new Passwords({ threads: 1, maxWaiting: 200, cost: { memoryKib: 64, passes: 1, parallelism: 1 } })
  const hash = await passwords.hash('x')
  await store.pool.query(
    `insert into users (id, email, password_hash) select gen_random_uuid(), 'user' || n || '@example.com', $1 from generate_series(1, 110) as n`,
    [hash],
  )
  const answers: Answer[] = []
  for (let n = 1; n <= 110; n++) answers.push(await login(store.call, ATTACKER, `user${n}@example.com`))
  assert.deepEqual(countByStatus(answers), { 401: 100, 429: 10 })
  assert.equal(answers.at(-1)?.headers['ratelimit-policy'], '"login-address";q=100;w=300')
  assert.equal((await login(store.call, OWNER, ada.email, ada.password)).status, 200)
})

test('counts wrong current passwords of a password change as wrong passwords', async () => {
  const ada = await store.register()
  const change = () =>
    ada.call('POST', '/auth/password', {
      from: ATTACKER,
      body: { current_password: 'a wrong passphrase', new_password: 'quite another passphrase' },
    })
  const answers: Answer[] = []
  for (let i = 0; i < 8; i++) answers.push(await change())
  assert.deepEqual(countByStatus(answers), { 401: 6, 429: 2 })
  assertProblem(await login(store.call, ATTACKER, ada.email), 429, 'rate_limited')
})

test('limits registrations from one address, and more strictly those that reveal taken addresses', async () => {
  const ada = await store.register()
  const register = (email: string) => store.call('POST', '/auth/register', { body: { email, password: ada.password }, from: ATTACKER })
  const fresh = await Promise.all(Array.from({ length: 15 }, (_, i) => register(`customer${i}@example.com`)))
  assert.deepEqual(countByStatus(fresh), { 201: 15 })
  const answers: Answer[] = []
  for (let i = 0; i < 18; i++) answers.push(await register(ada.email))
  assert.deepEqual(countByStatus(answers), { 409: 15, 429: 3 }, 'each counts for three of sixty')
  assert.equal(answers.at(-1)?.headers['ratelimit-policy'], '"register-address";q=60;w=60')
})

test("parallel wrong passwords for many accounts in two processes cannot exceed their address's limit", async () => {
  const passwords = new Passwords({ threads: 1, maxWaiting: 200, cost: { memoryKib: 64, passes: 1, parallelism: 1 } })
  await store.pool.query(
    `insert into users (id, email, password_hash) select gen_random_uuid(), 'parallel' || n || '@example.com', $1 from generate_series(1, 150) as n`,
    [await passwords.hash('x')],
  )
  // On a busy machine some attempts wait longer than a login may, and are refused before they count.
  const loginPatiently = async (call: TestStore['call'], email: string): Promise<Answer> => {
    const answer = await login(call, ATTACKER, email)
    if (answer.status !== 503) return answer
    assertProblem(answer, 503, 'overloaded')
    return loginPatiently(call, email)
  }
  const tries = Array.from({ length: 150 }, (_, n) => loginPatiently((n % 2 === 0 ? store : other).call, `parallel${n + 1}@example.com`))
  assert.deepEqual(countByStatus(await Promise.all(tries)), { 401: 100, 429: 50 })
})

test('a correct password, a refused attempt and a failed check revert their count for the address', async () => {
  const throttle = new Throttle({ pool: store.pool, secret: TEST_SECRET, isEnabled: true, isByNetwork: true })
  const client = { address: '2001:db8:1:2::1', userAgent: null, language: null, record() {} }
  const pointsOf = async (limit: string) => {
    const { rows } = await store.pool.query('select points from rate_limits where key like $1', [`${limit}:%`])
    return rows.map(({ points }) => points)
  }
  for (let i = 0; i < 3; i++) assert.equal(await throttle.guardPassword(client, 'ada', async () => 'right'), 'right')
  await assert.rejects(
    throttle.guardPassword(client, 'ada', () => Promise.reject(new Error('too much is waiting'))),
    /too much/,
  )
  assert.deepEqual([await pointsOf('login-address'), await pointsOf('login-site')], [[0], [0]])
  let checks = 0
  const wrong = async () => {
    checks++
    return null
  }
  for (let i = 0; i < 9; i++) await throttle.guardPassword(client, 'ada', wrong).catch(() => {})
  assert.deepEqual([checks, await pointsOf('login-address'), await pointsOf('login-site')], [6, [6], [6]])
})

test('counts an IPv6 client by its /64 and, with four times the limit, by its /48', async () => {
  const throttle = new Throttle({ pool: store.pool, secret: TEST_SECRET, isEnabled: true, isByNetwork: true })
  const from = (address: string) => ({ address, userAgent: null, language: null, record() {} })
  const countAccepted = async (times: number, work: (i: number) => Promise<unknown>) => {
    const outcomes = await Promise.allSettled(Array.from({ length: times }, (_, i) => work(i)))
    return outcomes.filter(({ status }) => status === 'fulfilled').length
  }
  const register = (address: string) => throttle.countRegistration(from(address), false)
  assert.equal(await countAccepted(70, (i) => register(`2001:db8:1:2::${i}`)), 60, 'one /64')
  assert.equal(await countAccepted(300, (i) => register(`2001:db8:2:${i}::1`)), 240, '300 networks of one /48')
  assert.equal(await countAccepted(5, () => register('2001:db8:3:1::1')), 5, 'another /48')
  assert.equal(await countAccepted(70, () => register('192.0.2.1')), 60, 'an IPv4 address')
  const wrong = (address: string, account: string) => throttle.guardPassword(from(address), account, async () => null)
  assert.equal(await countAccepted(450, (i) => wrong(`2001:db8:4:${i}::1`, `account ${i}`)), 400)
  const reset = (address: string, account: string) => throttle.countPasswordReset(from(address), account)
  assert.equal(await countAccepted(260, (i) => reset(`2001:db8:5:${i}::1`, `account ${i}`)), 240)
})

test("many networks of one IPv6 site use up no more of an address's mails or guests than one network", async () => {
  const throttle = new Throttle({ pool: store.pool, secret: TEST_SECRET, isEnabled: true, isByNetwork: true })
  const from = (address: string) => ({ address, userAgent: null, language: null, record() {} })
  const mail = (address: string) => throttle.countRegistrationMail(from(address), 'ada@shop.example')
  let mails = 0
  for (let i = 0; i < 20; i++) if (await mail(`2001:db8:1:${i}::1`)) mails += 1
  assert.equal(mails, MAILS_BY_ONE.points)
  assert.equal(await mail('2001:db8:2::1'), true, 'of another site')
  const guests = Array.from({ length: 20 }, (_, i) => throttle.countGuest(from(`2001:db8:3:${i}::1`), 'ada@shop.example'))
  const made = (await Promise.allSettled(guests)).filter(({ status }) => status === 'fulfilled')
  assert.equal(made.length, GUESTS_OF_MAILBOX.points)
})

test('limits mails to one account without locking out its owner', async () => {
  const ada = await store.register()
  const reset = (from: string) => store.call('POST', '/auth/password-reset', { body: { email: ada.email }, from })
  const answers: Answer[] = []
  for (let i = 0; i < 7; i++) answers.push(await reset(ATTACKER))
  assert.deepEqual(countByStatus(answers), { 202: 5, 429: 2 })
  for (let i = 0; i < 8; i++) assert.equal((await reset(`192.0.2.${i}`)).status, 202, 'another address')
  const { rows } = await store.pool.query('select count(*) from password_resets where user_id = $1', [ada.id])
  assert.deepEqual(rows, [{ count: 13 }])
})

test("registrations with an address use up none of its owner's reset mails", async (t) => {
  const store = await startStore(t, { isRateLimited: true, isEmailVerificationRequired: true })
  const email = 'ada@example.com'
  await store.pool.query(`insert into users (id, email, role, created_at) values (gen_random_uuid(), $1, 'customer', now())`, [email])
  const body = { email, password: 'the passphrase of a stranger' }
  for (const network of ['192.0.2.1', '192.0.2.2', '192.0.2.3'])
    for (let i = 0; i < 4; i++) assert.equal((await store.call('POST', '/auth/register', { body, from: network })).status, 202)
  await store.ok('POST', '/auth/password-reset', { body: { email }, from: OWNER })
  const kinds = Object.groupBy(await readAccountMails(store), ({ kind }) => kind)
  assert.deepEqual([kinds.already_registered?.length, kinds.reset_password?.length], [10, 1])
})

test('one network uses up four of the ten registration mails to an address, so its owner still gets one', async (t) => {
  const store = await startStore(t, { isRateLimited: true, isEmailVerificationRequired: true })
  const email = 'ada@example.com'
  const register = (password: string, from: string) => store.call('POST', '/auth/register', { body: { email, password }, from })
  const mails = async () => (await readAccountMails(store)).filter(({ to, kind }) => to === email && kind === 'verify_email').length
  for (let i = 0; i < 12; i++) assert.equal((await register('the passphrase of a stranger', ATTACKER)).status, 202)
  assert.equal(await mails(), 4)
  assert.equal((await register('the passphrase of ada', OWNER)).status, 202)
  assert.equal(await mails(), 5)
  const body = { token: await newestToken(store, 'verify_email'), password: 'the passphrase of ada' }
  await store.ok('POST', '/auth/verify-email', { body, from: OWNER })
})

test('counts clients behind a proxy only if TRUST_PROXY names the proxy', async (t) => {
  const wrongFrom = async (store: TestStore, from: string, forwarded: string) => {
    const email = `${forwarded}@example.com`.replaceAll(/[:, ]/g, '-')
    const answers: Answer[] = []
    for (let i = 0; i < 8; i++)
      answers.push(await login(store.call, from, email, 'wrong', { 'x-forwarded-for': forwarded.replace('N', String(i)) }))
    return countByStatus(answers)[429] ?? 0
  }
  assert.ok((await wrongFrom(store, ATTACKER, '10.9.9.N')) > 0, 'by default the header counts for nothing')
  const behind = await startStore(t, { isRateLimited: true, trustProxy: ['10.0.0.0/8', '::1'] })
  assert.equal(await wrongFrom(behind, '10.1.2.3', '203.0.113.N'), 0, 'eight clients')
  assert.ok((await wrongFrom(behind, '10.1.2.3', '6.6.6.N, 203.0.113.9')) > 0, 'what the client itself put in front counts for nothing')
  assert.ok((await wrongFrom(behind, ATTACKER, '203.0.113.N')) > 0, 'not from the proxy')
  for (const forms of ['203.0.113.N:4123N', '"203.0.113.N"', '[2001:db8:0:N::1]:443', '::ffff:203.0.113.N'])
    assert.equal(await wrongFrom(behind, '10.1.2.3', forms), 0, forms)
  const refused = await behind.call('POST', '/auth/guest', {
    body: { email: 'ada@example.com' },
    from: '10.1.2.3',
    headers: { 'x-forwarded-for': 'unknown' },
  })
  assertProblem(refused, 400, 'malformed_request')
  const hops = await startStore(t, { isRateLimited: true, trustProxy: 1 })
  assert.equal(await wrongFrom(hops, '10.1.2.3', '6.6.6.6, 203.0.113.N'), 0)
  assert.ok((await wrongFrom(hops, '10.1.2.3', '6.6.6.N, 203.0.113.9')) > 0)
})

test('stores nothing readable about the clients that it counts', async () => {
  const ada = await store.register()
  await login(store.call, ATTACKER, ada.email)
  const { rows } = await store.pool.query('select key, points from rate_limits')
  assert.ok(rows.length >= 3)
  for (const { key } of rows) assert.match(key, /^[a-z-]+:[A-Za-z0-9_-]{43}$/)
})

test('counts nothing when rate limits are off', async (t) => {
  const store = await startStore(t)
  const ada = await store.register()
  const answers: Answer[] = []
  for (let i = 0; i < 30; i++) answers.push(await login(store.call, ATTACKER, ada.email))
  assert.deepEqual(countByStatus(answers), { 401: 30 })
  assert.equal((await store.pool.query('select from rate_limits')).rowCount, 0)
})

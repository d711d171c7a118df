import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { newestToken, readAccountMails } from '../../test/account-mails.ts'
import { eventually } from '../../test/eventually.ts'
import { createGuest, placeOrder } from '../../test/guests.ts'
import { assertProblem } from '../../test/problem.ts'
import { startSecondProcess, startStore, type TestStore } from '../../test/store.ts'
import { MAX_GUESTS } from './take-over-guests.ts'

const PASSWORD = 'a long enough passphrase'

const numbersOf = async ({ call }: Pick<TestStore, 'call'>, token: string, query = '') =>
  (await call('GET', `/orders${query}`, { token })).json.data.map(({ number }: { number: string }) => number)

const reset = async (store: TestStore, email: string) => {
  await store.call('POST', '/auth/password-reset', { body: { email } })
  return newestToken(store, 'reset_password')
}
const confirmReset = ({ call }: Pick<TestStore, 'call'>, token: string) =>
  call('POST', '/auth/password-reset/confirm', { body: { token, password: PASSWORD } })
const logIn = async ({ call }: Pick<TestStore, 'call'>, email: string): Promise<string> =>
  (await call('POST', '/auth/login', { body: { email, password: PASSWORD } })).json.access_token

test('a registration that proves the address takes over the orders of its guests, and of no other address', async (t) => {
  const store = await startStore(t, { isEmailVerificationRequired: true })
  const other = await startSecondProcess(t, store)
  const lamp = await store.addProduct()
  const [first, second] = [await createGuest(store, 'Ada@Example.com'), await createGuest(store, 'ada@example.com')]
  const strangers = await createGuest(store, 'adá@example.com')
  const placed: string[] = []
  for (const { token } of [first, second, first, strangers]) placed.push((await placeOrder(store, token, lamp)).json.number)
  const [one = '', two = '', three = ''] = placed
  await store.call('POST', '/auth/register', { body: { email: 'ADA@example.com', password: PASSWORD } })
  assert.deepEqual(await numbersOf(store, first.token), [three, one], 'a registration alone changes nothing')

  const token = await newestToken(store, 'verify_email')
  const json = await store.ok('POST', '/auth/verify-email', { body: { token, password: PASSWORD } })
  const ada = json.access_token
  assert.deepEqual(await numbersOf(store, ada), [three, two, one])
  assert.deepEqual(await numbersOf(store, ada, '?limit=2'), [three, two])
  const page = await store.ok('GET', '/orders?limit=2', { token: ada })
  assert.deepEqual(await numbersOf(store, ada, `?limit=2&cursor=${page.next_cursor}`), [one])
  assert.deepEqual(await numbersOf(store, ada, '?status=confirmed'), [])
  assert.deepEqual(await numbersOf(store, strangers.token), placed.slice(3))
  for (const guest of [first, second]) {
    assertProblem(await store.call('GET', '/orders', { token: guest.token }), 401, 'invalid_token', 'its session has ended')
    await eventually(async () => (await other.call('GET', '/orders', { token: guest.token })).status === 401, { what: 'in every process' })
    const refreshed = await store.call('POST', '/auth/refresh', { body: { refresh_token: guest.refreshToken } })
    assertProblem(refreshed, 401, 'invalid_refresh_token')
  }
  const { rows } = await store.pool.query('select number::text, user_id, version from orders order by orders.number')
  const owners = [first, second, first, strangers].map(({ id }, index) => ({ number: placed[index], user_id: id, version: 1 }))
  assert.deepEqual(rows, owners, 'the rows, of which events are made, have not changed')

  const [order] = (await store.ok('GET', '/orders?limit=1', { token: ada })).data
  assert.equal((await store.ok('GET', `/orders/${order.id}`, { token: ada })).number, three)
  assert.equal((await store.ok('POST', `/orders/${order.id}/cancel`, { token: ada })).status, 'cancelled')
})

test('a password reset by mail takes over the orders; an unproven account does not get them', async (t) => {
  const store = await startStore(t)
  const lamp = await store.addProduct()
  const guest = await createGuest(store, 'ada@example.com')
  const { number } = (await placeOrder(store, guest.token, lamp)).json
  const eve = await store.register({ email: 'ada@example.com', password: 'the passphrase of eve' })
  assert.deepEqual(await numbersOf(store, eve.token), [], 'with EMAIL_VERIFICATION=off anybody can type an address')

  const tokens = [await reset(store, 'ada@example.com'), await reset(store, 'ada@example.com')]
  const statuses = await Promise.all(tokens.map(async (token) => (await confirmReset(store, token)).status))
  assert.ok(statuses.includes(204), 'one of two at once, or both')
  assert.deepEqual(await numbersOf(store, await logIn(store, 'ada@example.com')), [number])
  assertProblem(await eve.call('GET', '/orders'), 401, 'invalid_token')
  for (const token of tokens) assertProblem(await confirmReset(store, token), 422, 'invalid_one_time_token', 'used')

  const later = await createGuest(store, 'ada@example.com')
  await placeOrder(store, later.token, lamp)
  assert.deepEqual(await numbersOf(store, await logIn(store, 'ada@example.com')), [number], 'a login proves no address')
})

test('spellings of one mailbox are one address, and look-alikes are different addresses', async (t) => {
  const store = await startStore(t)
  const lamp = await store.addProduct()
  const spellings = [
    'kim@bücher.example',
    'KIM@BÜCHER.example',
    'Kim@xn--bcher-kva.example',
    'kim@bu\u0308cher.example',
    '\u212Aim@bücher.example',
  ]
  const others = ['kım@bücher.example', 'kim@bucher.example', 'kim@bücher.example.org', 'ｋim@bücher.example', 'kim+1@bücher.example']
  for (const email of [...spellings, ...others]) await placeOrder(store, (await createGuest(store, email)).token, lamp)
  await store.register({ email: 'kim@bücher.example' })
  await confirmReset(store, await reset(store, 'kim@bücher.example'))
  assert.equal((await numbersOf(store, await logIn(store, 'kim@bücher.example'))).length, spellings.length)
  const { rows } = await store.pool.query(`select count(*)::int as free from users where role = 'guest' and owner_id is null`)
  assert.deepEqual(rows, [{ free: others.length }])
  for (const email of ['a\u0000b@example.com', 'a\nb@example.com', 'a\u200bb@example.com', 'a b@example.com', '"a"@example.com', 'a@b']) {
    assertProblem(await store.call('POST', '/auth/guest', { body: { email } }), 422, 'invalid_body', JSON.stringify(email))
  }
})

test('a token mailed to an address that the account no longer has proves nothing', async (t) => {
  const store = await startStore(t)
  const lamp = await store.addProduct()
  const eve = await store.register({ email: 'eve@example.com' })
  const ada = await createGuest(store, 'ada@example.com')
  await placeOrder(store, ada.token, lamp)
  const token = await reset(store, 'eve@example.com')
  await store.pool.query(`update users set email = 'ada@example.com' where id = $1`, [eve.id])
  assertProblem(await confirmReset(store, token), 422, 'invalid_one_time_token')
  const { rows } = await store.pool.query(
    'select owner_id, (select email_verified_at from users where id = $2) as proven from users where id = $1',
    [ada.id, eve.id],
  )
  assert.deepEqual(rows, [{ owner_id: null, proven: null }])
})

test('erasing the account erases its guests too, and the number of guests is limited', async (t) => {
  const store = await startStore(t)
  const lamp = await store.addProduct()
  const guest = await createGuest(store, 'ada@example.com')
  await placeOrder(store, guest.token, lamp, {}, { 'idempotency-key': '"k"' })
  await store.pool.query(
    `with made as (
      insert into users (id, email, role, created_at)
      select gen_random_uuid(), 'ada@example.com', 'guest', now() - make_interval(days => number)
      from generate_series(1, $1::int) as made (number)
      returning id
    )
    insert into orders (id, user_id, status, items, total_amount, currency, status_history, created_at, updated_at)
    select gen_random_uuid(), made.id, 'pending', items, total_amount, currency, status_history, now(), now() from made cross join orders`,
    [MAX_GUESTS + 5],
  )
  await store.register({ email: 'ada@example.com' })
  await confirmReset(store, await reset(store, 'ada@example.com'))
  const count = async () =>
    (await store.pool.query(`select count(*) filter (where owner_id is not null)::int as owned, count(*)::int as all from users`)).rows[0]
  assert.deepEqual(await count(), { owned: MAX_GUESTS, all: MAX_GUESTS + 7 }, 'the newest')
  await confirmReset(store, await reset(store, 'ada@example.com'))
  assert.equal((await count()).owned, MAX_GUESTS)

  const token = await logIn(store, 'ada@example.com')
  const startedAt = performance.now()
  assert.equal((await numbersOf(store, token, '?limit=100')).length, 100)
  t.diagnostic(`a page of ${MAX_GUESTS} guests: ${(performance.now() - startedAt).toFixed(1)} ms`)
  await store.ok('DELETE', '/me', { token })
  assert.deepEqual(await count(), { owned: 0, all: 6 })
  const { rows } = await store.pool.query(
    'select (select count(*)::int from idempotency_keys) as keys, exists (select from deleted_accounts where user_id = $1) as is_noted',
    [guest.id],
  )
  assert.deepEqual(rows, [{ keys: 0, is_noted: true }])
})

test("mails about a guest's orders go to the account that took it over, and all guests of a mailbox share its limit", async (t) => {
  const store = await startStore(t, { roles: ['api', 'stream', 'email'], mailMaxPerHour: 3 })
  const lamp = await store.addProduct()
  const email = `${randomUUID()}@example.com`
  for (let i = 0; i < 5; i++) await placeOrder(store, (await createGuest(store, email)).token, lamp)
  const other = await createGuest(store, 'bob@example.com')
  await placeOrder(store, other.token, lamp)
  const mails = async () =>
    (
      await store.pool.query(
        `select users.email, mail.send_after > now() + interval '30 minutes' as waits
        from email_deliveries as mail join users on users.id = mail.user_id`,
      )
    ).rows
  await eventually(async () => (await mails()).length === 6, { what: 'a mail for each order' })
  const waiting = (await mails()).filter(({ waits }) => waits)
  assert.deepEqual(waiting, [
    { email, waits: true },
    { email, waits: true },
  ])
  // Waiting mails are set to failed, because the test must end with an empty queue.
  await store.pool.query(`update email_deliveries set status = 'failed' where send_after > now() + interval '30 minutes'`)
  assert.deepEqual(await readAccountMails(store), [])
})

test("a person who proves an address that an operator has corrected does not get the guest's order", async (t) => {
  const store = await startStore(t)
  const lamp = await store.addProduct()
  const [wrong, right] = [await createGuest(store, 'wrong@example.com'), await createGuest(store, 'wrong@example.com')]
  const [order, kept] = [(await placeOrder(store, wrong.token, lamp)).json, (await placeOrder(store, right.token, lamp)).json]
  await store.pool.query('update orders set email = $2 where id = $1', [order.id, 'ada@example.com'])
  await store.call('POST', '/auth/register', { body: { email: 'wrong@example.com', password: PASSWORD } })
  await confirmReset(store, await reset(store, 'wrong@example.com'))
  const owner = await logIn(store, 'wrong@example.com')
  assert.deepEqual(await numbersOf(store, owner), [kept.number])
  assertProblem(await store.call('GET', `/orders/${order.id}`, { token: owner }), 404, 'not_found')
  assert.deepEqual(await numbersOf(store, wrong.token), [order.number], 'the guest still has it')
})

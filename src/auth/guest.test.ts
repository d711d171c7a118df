import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { createGuest, placeOrder } from '../../test/guests.ts'
import { assertProblem } from '../../test/problem.ts'
import { startSecondProcess, startStore } from '../../test/store.ts'
import { takeTurns } from '../../test/take-turns.ts'
import { deleteUnusedGuests } from './delete-expired.ts'

const PASSWORD = 'a long enough passphrase'

test('a guest orders with a key, and sees, cancels and limits its orders like a customer; nobody else sees them', async (t) => {
  const store = await startStore(t, { maxPendingOrdersPerUser: 2 })
  const lamp = await store.addProduct({ stock: 10 })
  const email = `${randomUUID()}@example.com`
  const [ada, other] = [await createGuest(store, email), await createGuest(store, email)]
  const me = await ada.call('GET', '/me')
  assert.deepEqual([me.json.role, me.json.email, me.json.scopes], ['guest', email, []])

  const key = { 'idempotency-key': '"k"' }
  const first = await placeOrder(store, ada.token, lamp, { client_reference: 'r' }, key)
  assert.equal(first.status, 201)
  const repeated = await placeOrder(store, ada.token, lamp, { client_reference: 'r' }, key)
  assert.deepEqual([repeated.text, repeated.headers['idempotency-replayed']], [first.text, 'true'])
  assertProblem(await placeOrder(store, ada.token, lamp, { client_reference: 'r' }), 409, 'client_reference_taken')
  assert.equal((await placeOrder(store, ada.token, lamp)).status, 201)
  assertProblem(await placeOrder(store, ada.token, lamp), 409, 'too_many_pending_orders')

  const id = first.json.id
  for (const [method, path] of [
    ['GET', `/orders/${id}`],
    ['POST', `/orders/${id}/cancel`],
  ] as const) {
    assertProblem(await other.call(method, path), 404, 'not_found', `${method} by a guest with the same address`)
  }
  assert.deepEqual((await other.ok('GET', '/orders')).data, [])
  const sameAgain = await placeOrder(store, other.token, lamp, { client_reference: 'r' }, key)
  assert.deepEqual(
    [sameAgain.text, sameAgain.headers['idempotency-replayed']],
    [first.text, 'true'],
    'guests of an address share their keys',
  )
  assert.equal((await placeOrder(store, other.token, lamp)).status, 201)

  assert.equal((await ada.ok('POST', `/orders/${id}/cancel`)).status, 'cancelled')
  const { rows } = await store.pool.query('select user_id, status from orders where id = $1', [id])
  assert.deepEqual(rows, [{ user_id: ada.id, status: 'cancelled' }])
  assert.equal((await ada.ok('GET', '/orders')).data.length, 2)
  assert.deepEqual(await store.readStock(lamp), [8])
})

test('an address with an account or guests gets the same answer as a new one; a guest never becomes its account', async (t) => {
  const store = await startStore(t)
  const [ada, admin] = [await store.register(), await store.register()]
  await store.pool.query(`update users set role = 'admin' where id = $1`, [admin.id])
  const unknown = `${randomUUID()}@example.com`
  const answers = await Promise.all(
    [unknown, ada.email, admin.email, unknown, ada.email.toUpperCase()].map((email) =>
      store.call('POST', '/auth/guest', { body: { email } }),
    ),
  )
  // Ids and tokens are random and have constant lengths.
  const shapes = answers.map(({ status, headers, text, json }) => {
    const { 'x-request-id': _id, date: _date, ...stable } = headers
    return { status, stable, length: text.length, role: json.user.role, name: json.user.name, expires: json.expires_in }
  })
  for (const shape of shapes) assert.deepEqual(shape, shapes[0])
  const ids = answers.map(({ json }) => json.user.id)
  assert.equal(new Set([...ids, ada.id, admin.id]).size, 7, 'each is an account of its own')
  for (const { json } of answers) {
    const token = json.access_token
    assertProblem(await store.call('GET', '/admin/orders', { token }), 403, 'forbidden')
    assert.equal((await store.ok('GET', '/me', { token })).id, json.user.id)
  }
})

test('nobody can log in as a guest, or reset or change its password; an account with its address is untouched', async (t) => {
  const store = await startStore(t)
  const email = `${randomUUID()}@example.com`
  const guest = await createGuest(store, email)
  const login = () => store.call('POST', '/auth/login', { body: { email, password: PASSWORD } })
  const [ofGuest, ofNobody] = [
    await login(),
    await store.call('POST', '/auth/login', { body: { email: 'no@example.com', password: PASSWORD } }),
  ]
  const { request_id: _a, trace_id: _b, ...first } = assertProblem(ofGuest, 401, 'invalid_credentials')
  const { request_id: _c, trace_id: _d, ...second } = assertProblem(ofNobody, 401, 'invalid_credentials')
  assert.deepEqual(first, second)
  for (const current_password of ['', PASSWORD]) {
    const body = { current_password, new_password: 'another long passphrase' }
    assertProblem(await guest.call('POST', '/auth/password', { body }), 401, 'invalid_credentials')
  }
  await store.ok('POST', '/auth/password-reset', { body: { email } })
  const { rows } = await store.pool.query('select user_id from password_resets')
  assert.notEqual(rows[0].user_id, guest.id)

  const account = await store.register({ email })
  assert.notEqual(account.id, guest.id)
  assert.equal((await login()).json.user.id, account.id)
  const refreshed = await store.call('POST', '/auth/refresh', { body: { refresh_token: guest.refreshToken } })
  assert.equal((await store.ok('GET', '/me', { token: refreshed.json.access_token })).id, guest.id)
  await assert.rejects(store.pool.query(`update users set password_hash = 'x' where id = $1`, [guest.id]), /users_guest_has_no_password/)
  await assert.rejects(store.pool.query(`update users set role = 'customer' where id = $1`, [guest.id]), /users_email_unique/)
})

test('a guest logs out and erases itself, and its orders stay under its id', async (t) => {
  const store = await startStore(t)
  const lamp = await store.addProduct()
  const [ada, bob] = [await createGuest(store, 'ada@example.com'), await createGuest(store, 'bob@example.com')]
  await placeOrder(store, ada.token, lamp, {}, { 'idempotency-key': '"k"' })
  await bob.ok('POST', '/auth/logout')
  assertProblem(await bob.call('GET', '/me'), 401, 'invalid_token')
  await ada.ok('DELETE', '/me')
  assertProblem(await ada.call('GET', '/me'), 401, 'invalid_token')
  const { rows } = await store.pool.query(
    `select array(select id from users) as users, array(select user_id from orders) as buyers, array(select user_id from deleted_accounts) as deleted,
      (select count(*)::int from idempotency_keys) as keys`,
  )
  assert.deepEqual(rows, [{ users: [bob.id], buyers: [ada.id], deleted: [ada.id], keys: 0 }])
})

test('one client can create 30 of 1,000 guests, a client elsewhere is unaffected, and refusals store no row', async (t) => {
  const store = await startStore(t, { isRateLimited: true })
  const create = (email: string, from: string) => takeTurns(() => store.call('POST', '/auth/guest', { body: { email }, from }))
  const answers = []
  for (let part = 0; part < 10; part++) {
    answers.push(...(await Promise.all(Array.from({ length: 100 }, () => create(`${randomUUID()}@example.com`, '203.0.113.7')))))
  }
  assert.equal(answers.filter(({ status }) => status === 201).length, 30)
  const refused = answers.filter(({ status }) => status !== 201)
  for (const answer of refused) assertProblem(answer, 429, 'rate_limited')
  assert.ok(Number(refused[0]?.headers['retry-after']) > 0)
  const { rows } = await store.pool.query('select count(*)::int as guests, (select count(*)::int from sessions) as sessions from users')
  assert.deepEqual(rows, [{ guests: 30, sessions: 30 }])

  const statuses = await Promise.all(Array.from({ length: 12 }, async () => (await create('ada@example.com', '198.51.100.20')).status))
  assert.deepEqual(statuses.toSorted(), [...Array(10).fill(201), 429, 429], 'of one address from one client: ten')
  assert.equal((await create('ada@example.com', '192.0.2.5')).status, 201, 'a stranger cannot use up the limit of the address')
})

test('guests without orders are deleted after a week without use; those with orders stay', async (t) => {
  const store = await startStore(t)
  const other = await startSecondProcess(t, store)
  const lamp = await store.addProduct()
  const create = () => createGuest(store, 'ada@example.com')
  const [old, busy, buyer, young] = [await create(), await create(), await create(), await create()]
  await placeOrder(store, buyer.token, lamp)
  const account = await store.register({ email: 'ada@example.com' })
  assert.equal(await deleteUnusedGuests(store.pool), 0)
  await store.pool.query(`update users set guest_expires_at = now() - interval '1 second' where id = any($1)`, [
    [old.id, busy.id, buyer.id],
  ])
  await store.pool.query(`update sessions set last_used_at = now() - interval '8 days' where user_id = any($1)`, [[old.id, buyer.id]])

  const counts = await Promise.all([deleteUnusedGuests(store.pool), deleteUnusedGuests(store.pool)])
  assert.equal(
    counts.reduce((sum, count) => sum + count),
    1,
  )
  const { rows } = await store.pool.query('select id, guest_expires_at > now() as is_waiting from users order by created_at')
  assert.deepEqual(rows, [
    { id: busy.id, is_waiting: true },
    { id: buyer.id, is_waiting: null },
    { id: young.id, is_waiting: true },
    { id: account.id, is_waiting: null },
  ])
  assertProblem(await store.call('GET', '/me', { token: old.token }), 401, 'invalid_token')
  assert.equal((await other.ok('GET', '/orders', { token: buyer.token })).data.length, 1)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { createGuest, placeOrder } from '../../test/guests.ts'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { startSecondProcess, startStore } from '../../test/store.ts'
import { COUNTED_ORDERS } from './customers.ts'

const REASON = 'Stolen cards of Jane Roe'

test('operators find customers by address, id and order, page by page, with counts and totals of their orders', async (t) => {
  const store = await startStore(t)
  const { token } = await registerOperator(store)
  const [lamp, vase] = [await store.addProduct({ amount: 500 }), await store.addProduct({ amount: 700, currency: 'USD' })]
  const emails = ['anna@example.com', 'anna.b@example.com', 'annika@example.com', 'bert%@example.com', 'bert_@example.com']
  const accounts = await Promise.all(emails.map((email) => store.register({ email })))
  const guest = await createGuest(store, 'anna@example.com')
  const anna = accounts[0] ?? assert.fail()
  const first = (await placeOrder(store, anna.token, lamp)).json
  await placeOrder(store, anna.token, vase)
  const cancelled = (await placeOrder(store, anna.token, lamp)).json
  await store.call('POST', `/orders/${cancelled.id}/cancel`, { token: anna.token })
  const last = (await placeOrder(store, guest.token, lamp)).json

  await store.call('PATCH', '/me', { token: anna.token, body: { language: 'de' } })
  const search = (query: string) => store.ok('GET', `/admin/customers?${query}`, { token })
  const emailsOf = async (query: string) => (await search(query)).data.map(({ email }: { email: string }) => email)
  assert.deepEqual(await emailsOf('email=ANN'), ['anna.b@example.com', 'anna@example.com', 'anna@example.com', 'annika@example.com'])
  assert.deepEqual(await emailsOf('email=bert%25'), ['bert%@example.com'], 'a pattern is text')
  assert.deepEqual(await emailsOf('email=x'), [])
  assert.deepEqual(await emailsOf(`number=${last.number}`), ['anna@example.com'])
  assert.deepEqual(await emailsOf('number=1'), [])
  const found = (await search(`id=${anna.id}`)).data[0]
  assert.deepEqual(found, await store.ok('GET', `/admin/customers/${anna.id}`, { token }))
  assert.equal(found.language, 'de')
  const { last_order_at, ...orders } = found.orders
  const totals = [
    { amount: 500, currency: 'EUR' },
    { amount: 700, currency: 'USD' },
  ]
  assert.deepEqual(orders, { count: 3, is_complete: true, totals })
  assert.equal(last_order_at, cancelled.created_at)

  await store.pool.query('update users set owner_id = $1 where id = $2', [anna.id, guest.id])
  const both = (await search(`number=${last.number}`)).data[0]
  assert.deepEqual([both.id, both.orders.count, both.orders.totals[0]], [anna.id, 4, { amount: 1_000, currency: 'EUR' }])
  await store.pool.query(
    `insert into orders (id, user_id, status, items, total_amount, currency, status_history, created_at, updated_at)
    select gen_random_uuid(), user_id, status, items, total_amount, currency, status_history, now(), now()
    from orders cross join generate_series(1, $2::int) where id = $1`,
    [first.id, COUNTED_ORDERS],
  )
  const many = (await search(`id=${anna.id}`)).data[0].orders
  assert.deepEqual([many.count, many.is_complete, many.totals[0].amount], [COUNTED_ORDERS, false, COUNTED_ORDERS * 500])

  const operator = await store.ok('GET', '/me', { token })
  assertProblem(await store.call('GET', `/admin/customers/${operator.id}`, { token }), 404, 'not_found')
})

test("a customer's totals are the current order totals, with adjustments and without cancelled units", async (t) => {
  const store = await startStore(t)
  const { token } = await registerOperator(store)
  const [ada, lamp] = [await store.register(), await store.addProduct({ amount: 500 })]
  const order = await ada.ok('POST', '/orders', { body: { items: [{ product_id: lamp.id, quantity: 5 }] } })
  await placeOrder(store, ada.token, lamp)
  const changes: [string, object][] = [
    ['cancellations', { lines: [{ product_id: lamp.id, quantity: 3 }] }],
    ['adjustments', { kind: 'shipping', label: 'Express', amount: { amount: 490, currency: 'EUR' } }],
    ['adjustments', { kind: 'discount', label: 'Voucher', amount: { amount: -90, currency: 'EUR' } }],
    ['transitions', { to: 'confirmed' }],
  ]
  for (const [path, body] of changes) {
    const answer = await store.call('POST', `/admin/orders/${order.id}/${path}`, { token, body })
    assert.equal(answer.status, 200, answer.text)
  }
  const { orders } = await store.ok('GET', `/admin/customers/${ada.id}`, { token })
  assert.deepEqual([orders.count, orders.totals], [2, [{ amount: 1_900, currency: 'EUR' }]])
})

test("a customer's total stops at the largest exact JSON number", async (t) => {
  const store = await startStore(t)
  const { token } = await registerOperator(store)
  const [ada, palace] = [await store.register(), await store.addProduct({ amount: Number.MAX_SAFE_INTEGER })]
  for (let placed = 0; placed < 2; placed++) await placeOrder(store, ada.token, palace)
  const { orders } = await store.ok('GET', `/admin/customers/${ada.id}`, { token })
  assert.deepEqual([orders.count, orders.totals], [2, [{ amount: Number.MAX_SAFE_INTEGER, currency: 'EUR' }]])
})

test('a blocked customer is signed out in every process and sees the block only with the right password, and the orders stay', async (t) => {
  const store = await startStore(t)
  const other = await startSecondProcess(t, store)
  const { token, id: operatorId } = await registerOperator(store)
  const lamp = await store.addProduct({ stock: 100 })
  const [ada, bob] = [await store.register(), await store.register()]
  const order = (await placeOrder(store, ada.token, lamp)).json
  const block = (id: string, reason = REASON) => store.call('POST', `/admin/customers/${id}/block`, { token, body: { reason } })
  const logIn = (password = ada.password) => store.call('POST', '/auth/login', { body: { email: ada.email, password } })

  const answers = await Promise.all([...Array.from({ length: 8 }, () => placeOrder(store, ada.token, lamp)), block(ada.id), logIn()])
  const placed = answers.filter(({ status }) => status === 201).length
  assert.equal(answers[8]?.status, 204)
  assertProblem(await placeOrder(store, ada.token, lamp), 401, 'invalid_token', 'from the answer on')
  await eventually(async () => (await other.call('GET', '/me', { token: ada.token })).status === 401, { what: 'in the other process too' })
  const refreshed = await other.call('POST', '/auth/refresh', { body: { refresh_token: ada.refreshToken } })
  assertProblem(refreshed, 401, 'invalid_refresh_token')
  assertProblem(await logIn(), 403, 'account_blocked')
  assertProblem(await logIn('a wrong passphrase'), 401, 'invalid_credentials')
  const alive = await store.pool.query('select from sessions where user_id = $1 and revoked_at is null', [ada.id])
  assert.equal(alive.rowCount, 0, 'a login at the same moment has left none')
  const { rows } = await store.pool.query('select count(*)::int as orders from orders where user_id = $1', [ada.id])
  assert.deepEqual(rows, [{ orders: placed + 1 }], 'each order that was answered with 201, and the first')
  assert.equal((await store.ok('GET', `/admin/orders/${order.id}`, { token })).status, 'pending')
  await bob.ok('GET', '/me')

  assert.equal((await block(ada.id, 'Another reason')).status, 204)
  const shown = await store.ok('GET', `/admin/customers/${ada.id}`, { token })
  assert.equal(shown.blocked_reason, 'Another reason')
  await store.ok('POST', `/admin/customers/${ada.id}/unblock`, { token })
  assert.equal((await logIn()).status, 200)
  const { rows: activities } = await store.pool.query(
    `select action, actor_id, subject_id, before, after, activities::text like '%Roe%' as is_personal from activities order by id`,
  )
  const common = { actor_id: operatorId, subject_id: ada.id, is_personal: false }
  assert.deepEqual(activities, [
    { ...common, action: 'blockCustomer', before: { blocked: false }, after: { blocked: true } },
    { ...common, action: 'blockCustomer', before: { blocked: true }, after: { blocked: true } },
    { ...common, action: 'unblockCustomer', before: { blocked: true }, after: { blocked: false } },
  ])
  for (const id of [operatorId, order.id]) assertProblem(await block(id), 404, 'not_found')
  assertProblem(await ada.call('POST', `/admin/customers/${bob.id}/block`, { body: { reason: 'x' } }), 401, 'invalid_token')
})

test("an operator's erasure of a customer does the same as the customer's own, once", async (t) => {
  const store = await startStore(t)
  const { token } = await registerOperator(store)
  const lamp = await store.addProduct()
  const ada = await store.register()
  await placeOrder(store, ada.token, lamp, {}, { 'idempotency-key': '"k"' })
  await ada.call('POST', '/me/addresses', {
    body: { address: { name: 'Ada', line1: 'Ring 1', city: 'Wien', postal_code: '1010', country: 'AT' } },
  })
  const erase = () => store.call('DELETE', `/admin/customers/${ada.id}`, { token })
  const statuses = (await Promise.all([erase(), erase()])).map(({ status }) => status)
  assert.deepEqual(statuses.toSorted(), [204, 404])
  assertProblem(await ada.call('GET', '/me'), 401, 'invalid_token')
  const { rows } = await store.pool.query(
    `select (select count(*)::int from users where id = $1) as users, (select count(*)::int from customer_addresses) as addresses,
      (select count(*)::int from idempotency_keys) as keys, (select count(*)::int from deleted_accounts) as noted,
      (select count(*)::int from orders) as orders, (select array_agg(action) from activities) as actions`,
    [ada.id],
  )
  assert.deepEqual(rows, [{ users: 0, addresses: 0, keys: 0, noted: 1, orders: 1, actions: ['eraseCustomer'] }])
})

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { makeKey } from '../../test/api-keys.ts'
import { createGuest } from '../../test/guests.ts'
import { assertProblem, faults } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { type Answer, startSecondProcess, startStore } from '../../test/store.ts'
import { expireGuestOrders } from './expire-orders.ts'

const store = await startStore({ after }, { isNetworkLimited: true, duplicateOrderSeconds: 60, maxQuantityPerProductAndUser: 50 })
const [support, colleague] = [await registerOperator(store, 'support'), await registerOperator(store, 'support')]
const HOME = { name: 'Ada', line1: 'Ring 1', city: 'Wien', postal_code: '1010', country: 'AT' }

interface Placing {
  by?: { token: string }
  key?: string | null
  at?: Pick<typeof store, 'call'>
}

/** Orders one unit for a customer. Repeats the request while the same order is being placed. */
async function place(
  product: { id: string },
  body: object,
  { by = support, key = randomUUID(), at = store }: Placing = {},
): Promise<Answer> {
  for (;;) {
    const answer = await at.call('POST', '/admin/orders', {
      token: by.token,
      body: { items: [{ product_id: product.id, quantity: 1 }], shipping_address: HOME, ...body },
      headers: key === null ? {} : { 'idempotency-key': key },
    })
    if (answer.json.code !== 'request_in_progress') return answer
  }
}
const prove = (id: string) => store.pool.query('update users set email_verified_at = now() where id = $1', [id])
const listed = async (token: string): Promise<string[]> =>
  (await store.call('GET', '/orders', { token })).json.data.map(({ id }: { id: string }) => id)
const guestsOf = async (email: string) =>
  (
    await store.pool.query<{ id: string; owner_id: string | null; language: string | null }>(
      'select id, owner_id, language from users where email = $1 and role = $2',
      [email, 'guest'],
    )
  ).rows
const block = async (id: string) => {
  const admin = await registerOperator(store)
  assert.equal((await store.call('POST', `/admin/customers/${id}/block`, { token: admin.token, body: { reason: 'fraud' } })).status, 204)
}

test("an operator's order for an account belongs to the customer, and its history and the activities name the operator", async () => {
  const [lamp, ada] = [await store.addProduct({ stock: 5 }), await store.register()]
  const answer = await place(lamp, { customer_id: ada.id.toUpperCase(), note: 'Called.' })
  assert.equal(answer.status, 201, answer.text)
  const { id, user_id, refundable, status_history } = answer.json
  assert.match(answer.headers.location ?? '', new RegExp(`/admin/orders/${id}$`))
  assert.deepEqual([user_id, refundable, await store.readStock(lamp)], [ada.id, [], [4]])
  assert.deepEqual(status_history[0].actor, { type: 'admin', id: support.id })
  const read = (await store.call('GET', `/admin/orders/${id}`, { token: support.token })).json
  const { timeline: _, ...order } = read
  assert.deepEqual(answer.json, order, 'the answer is the order')
  assert.deepEqual(await listed(ada.token), [id])
  const { rows } = await store.pool.query('select actor_type, actor_id, action, after from activities where subject_id = $1', [id])
  const after = { status: 'pending', version: 1, total: order.total }
  assert.deepEqual(rows, [{ actor_type: 'admin', actor_id: support.id, action: 'placeOrderForCustomer', after }])
  const cancelled = await store.call('POST', `/orders/${id}/cancel`, { token: ada.token })
  assert.deepEqual([cancelled.status, await store.readStock(lamp)], [200, [5]], 'the customer may cancel it')
})

test('an operator and a key see the sum before, and a key that only reads orders does not', async () => {
  const lamp = await store.addProduct({ stock: 5 })
  const quote = (token: string) =>
    store.call('POST', '/admin/orders/quote', { token, body: { items: [{ product_id: lamp.id, quantity: 2 }] } })
  const [placing, reading] = [await makeKey(store, ['orders:place']), await makeKey(store, ['orders:read'])]
  const quoted = await quote(support.token)
  assert.equal(quoted.status, 200, quoted.text)
  assert.deepEqual([quoted.json.items[0].quantity, quoted.json.is_available], [2, true])
  assert.deepEqual((await quote(placing.key)).json, quoted.json)
  assertProblem(await quote(reading.key), 403, 'forbidden')
  const placed = await place(lamp, {
    email: 'quoted@example.com',
    items: [{ product_id: lamp.id, quantity: 2 }],
    expected_total: quoted.json.total,
  })
  assert.equal(placed.status, 201, placed.text)
})

test('an API key with the scope places orders, and the history has its id', async () => {
  const [lamp, ada] = [await store.addProduct({ stock: 5 }), await store.register()]
  const { key, id } = await makeKey(store, ['orders:place'])
  const answer = await place(lamp, { customer_id: ada.id }, { by: { token: key } })
  assert.deepEqual([answer.status, answer.json.status_history?.[0].actor], [201, { type: 'key', id }], answer.text)
})

test('one key places one order for one guest, even when two operators send it to two processes at once', async (t) => {
  const second = await startSecondProcess(t, store)
  const [lamp, email, key] = [await store.addProduct({ stock: 50 }), 'at-once@example.com', randomUUID()]
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      place(
        lamp,
        { email: i % 2 === 0 ? email : email.toUpperCase() },
        { key, by: i % 3 === 0 ? support : colleague, at: i % 4 < 2 ? store : second },
      ),
    ),
  )
  assert.deepEqual(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size, 1)
  assert.equal(answers[0]?.status, 201)
  assert.deepEqual([await store.readStock(lamp), (await guestsOf(email)).length], [[49], 1])
  const { rowCount } = await store.pool.query('select from activities where subject_id = $1', [answers[0]?.json.id])
  assert.equal(rowCount, 1)
  assertProblem(await place(lamp, { email, note: 'Ring twice.' }, { key }), 422, 'idempotency_key_reused')
  const ada = await store.register()
  for (const body of [{ email: 'another@example.com' }, { customer_id: ada.id }]) {
    assertProblem(await place(lamp, body, { key, by: colleague }), 422, 'idempotency_key_reused', 'for another customer')
  }
  assert.deepEqual(await store.readStock(lamp), [49])
})

test('the account with the proven address owns the guest and can see and cancel its order; an unproven account cannot', async () => {
  const [lamp, ada, bob] = [await store.addProduct({ stock: 5 }), await store.register(), await store.register()]
  await prove(ada.id)
  const key = randomUUID()
  assertProblem(await place(lamp, { email: ada.email, items: [{ product_id: lamp.id, quantity: 6 }] }, { key }), 409, 'insufficient_stock')
  const { json } = await place(lamp, { email: ada.email, language: 'de' }, { key })
  assertProblem(await place(lamp, { email: ada.email, language: 'fr' }, { key }), 422, 'idempotency_key_reused')
  assert.deepEqual(await listed(ada.token), [json.id])
  assert.equal((await store.call('POST', `/orders/${json.id}/cancel`, { token: ada.token })).status, 200)
  assert.equal((await place(lamp, { email: bob.email })).status, 201)
  assert.deepEqual(await listed(bob.token), [])
  const [own] = await guestsOf(ada.email)
  assert.deepEqual([own?.owner_id, own?.language, (await guestsOf(bob.email))[0]?.owner_id], [ada.id, 'de', null])
})

test('refuses an order without a key or a customer, for an operator, for an erased account, and for a blocked customer', async () => {
  const [lamp, ada, bob] = [await store.addProduct({ stock: 5 }), await store.register(), await store.register()]
  assertProblem(await place(lamp, { customer_id: ada.id }, { key: null }), 400, 'idempotency_key_required')
  assert.deepEqual(faults(assertProblem(await place(lamp, {}), 422, 'invalid_body')), ['#'])
  assertProblem(await place(lamp, { customer_id: ada.id, email: ada.email }), 422, 'invalid_body')
  assert.deepEqual(faults(assertProblem(await place(lamp, { customer_id: ada.id, language: 'de' }), 422, 'invalid_body')), ['#/language'])
  assert.deepEqual(faults(assertProblem(await place(lamp, { email: 'Ada <ada@example.com>' }), 422, 'invalid_body')), ['#/email'])
  for (const id of [randomUUID(), support.id]) {
    assert.deepEqual(faults(assertProblem(await place(lamp, { customer_id: id }), 422, 'invalid_body')), ['#/customer_id'])
  }
  assert.equal((await store.call('DELETE', '/me', { token: bob.token })).status, 204)
  assertProblem(await place(lamp, { customer_id: bob.id }), 422, 'invalid_body')
  await prove(ada.id)
  await block(ada.id)
  assertProblem(await place(lamp, { customer_id: ada.id }), 403, 'account_blocked')
  assertProblem(await place(lamp, { email: ada.email }), 403, 'account_blocked')
  assert.deepEqual(await store.readStock(lamp), [5])
})

test('a retry finds its order after the customer was blocked, and places nothing after the customer was erased', async () => {
  const [lamp, ada, email] = [await store.addProduct({ stock: 5 }), await store.register(), 'erased@example.com']
  const admin = await registerOperator(store)
  for (const customer of [{ email }, { customer_id: ada.id }]) {
    const key = randomUUID()
    const first = await place(lamp, customer, { key })
    await block(first.json.user_id)
    const again = await place(lamp, customer, { key, by: colleague })
    assert.deepEqual([again.status, again.text, again.headers['idempotency-replayed']], [201, first.text, 'true'])
    assertProblem(await place(lamp, customer), 403, 'account_blocked')
    assert.equal((await store.call('DELETE', `/admin/customers/${first.json.user_id}`, { token: admin.token })).status, 204)
    assertProblem(await place(lamp, customer, { key }), 422, 'idempotency_key_reused')
  }
  assert.deepEqual([await store.readStock(lamp), await guestsOf(email)], [[3], []])
})

test('a key that was used for another customer is refused before the stock is checked', async () => {
  const [lamp, key] = [await store.addProduct({ stock: 1 }), randomUUID()]
  assert.equal((await place(lamp, { email: 'mistyped@example.com' }, { key })).status, 201)
  for (const body of [
    { email: 'corrected@example.com' },
    { email: 'corrected@example.com', expected_total: { amount: 1, currency: 'EUR' } },
    { customer_id: randomUUID() },
  ]) {
    assertProblem(await place(lamp, body, { key, by: colleague }), 422, 'idempotency_key_reused')
  }
  assert.deepEqual(await guestsOf('corrected@example.com'), [])
  const both = await store.addProduct({ stock: 1 })
  const next = randomUUID()
  const answers = await Promise.all(['mistyped', 'corrected'].map((name) => place(both, { email: `${name}@example.com` }, { key: next })))
  assert.deepEqual(answers.map(({ json }) => json.code ?? 'placed').sort(), ['idempotency_key_reused', 'placed'])
})

test("the customer's limits apply, and the limits of a guest's network do not", async () => {
  const [lamp, ada] = [await store.addProduct({ stock: 100 }), await store.register()]
  const many = (quantity: number) => ({ items: [{ product_id: lamp.id, quantity }] })
  assertProblem(await place(lamp, { customer_id: ada.id, ...many(51) }), 409, 'purchase_limit')
  const { json } = await place(lamp, { email: 'shares@example.com', ...many(40) })
  assert.equal(json.status, 'pending', JSON.stringify(json))
  await store.pool.query(`update orders set created_at = now() - interval '2 days' where id = $1`, [json.id])
  assert.equal(await expireGuestOrders(store.pool, 3_600, new Date()), 0)
})

test("refuses an order that repeats the customer's own recent order, with the id of that order", async () => {
  const [lamp, email] = [await store.addProduct({ stock: 5 }), 'twice@example.com']
  const guest = await createGuest(store, email)
  const body = { items: [{ product_id: lamp.id, quantity: 1 }], shipping_address: HOME }
  const first = await store.call('POST', '/orders', { token: guest.token, body })
  const refused = await place(lamp, { email })
  assert.equal(assertProblem(refused, 409, 'probably_placed_already').order_id, first.json.id)
  assert.match(refused.headers.location ?? '', new RegExp(`/admin/orders/${first.json.id}$`))
  assert.equal((await place(lamp, { email, again: true })).status, 201)
  const late = await store.call('POST', '/orders', { token: guest.token, body })
  assert.equal(assertProblem(late, 409, 'probably_placed_already').order_id, undefined, 'a guest learns no other id')
})

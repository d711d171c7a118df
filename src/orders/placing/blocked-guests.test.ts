import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createGuest, placeOrder } from '../../../test/guests.ts'
import { assertProblem } from '../../../test/problem.ts'
import { registerOperator } from '../../../test/register-operator.ts'
import { startStore } from '../../../test/store.ts'

const store = await startStore({ after })
const operator = await registerOperator(store)
const lamp = await store.addProduct({ stock: 5 })
const soldOut = await store.addProduct({ stock: 0 })

const prove = (id: string) => store.pool.query('update users set email_verified_at = now() where id = $1', [id])
const decide = (id: string, what: 'block' | 'unblock') =>
  store.call('POST', `/admin/customers/${id}/${what}`, {
    token: operator.token,
    ...(what === 'block' ? { body: { reason: 'fraud' } } : {}),
  })
const ordersOf = async (id: string) => (await store.pool.query('select from orders where user_id = $1', [id])).rowCount
const withoutIds = ({ request_id: _, trace_id: __, ...problem }: Record<string, unknown>) => problem

test("refuses a guest with a blocked customer's proven address like that customer, until the block ends", async () => {
  const ada = await store.register()
  await prove(ada.id)
  const [early, other] = [await createGuest(store, ada.email), await createGuest(store, 'somebody@example.com')]
  const before = (await placeOrder(store, early.token, lamp, {}, { 'idempotency-key': '"early"' })).json
  assert.equal((await decide(ada.id, 'block')).status, 204)
  const late = await createGuest(store, ada.email.toUpperCase())
  const refused = await placeOrder(store, late.token, lamp)
  assertProblem(refused, 403, 'account_blocked')
  const body = { email: ada.email, password: ada.password }
  assert.deepEqual(withoutIds(refused.json), withoutIds((await store.call('POST', '/auth/login', { body })).json))
  assertProblem(await placeOrder(store, early.token, lamp), 403, 'account_blocked', 'a session from before the block')
  const replay = await placeOrder(store, early.token, lamp, {}, { 'idempotency-key': '"early"' })
  assert.deepEqual([replay.status, replay.json.id], [201, before.id], 'what was placed stays placed')
  assert.equal((await store.call('GET', `/orders/${before.id}`, { token: early.token })).status, 200)
  assert.equal((await placeOrder(store, other.token, lamp)).status, 201)
  assert.deepEqual([await ordersOf(late.id), await ordersOf(early.id), await store.readStock(lamp)], [0, 1, [3]], 'no stock was taken')
  assert.equal((await decide(ada.id, 'unblock')).status, 204)
  assert.equal((await placeOrder(store, late.token, lamp)).status, 201)
})

test('a guest learns of a block only by an order that would otherwise have been placed', async () => {
  const ada = await store.register()
  await prove(ada.id)
  assert.equal((await decide(ada.id, 'block')).status, 204)
  const [blocked, free] = [await createGuest(store, ada.email), await createGuest(store, 'nobody@example.com')]
  const probe = async (path: string, body: object) => {
    const answers = [blocked, free].map(({ token }) => store.call('POST', path, { token, body }))
    const [one, two] = await Promise.all(answers)
    assert.deepEqual([one?.status, withoutIds(one?.json)], [two?.status, withoutIds(two?.json)], JSON.stringify(body))
    return one?.json.code
  }
  const items = [{ product_id: lamp.id, quantity: 1 }]
  const codes = [
    await probe('/orders/quote', { items }),
    await probe('/orders', { items: [] }),
    await probe('/orders', { items: [{ product_id: crypto.randomUUID(), quantity: 1 }] }),
    await probe('/orders', { items: [{ product_id: soldOut.id, quantity: 1 }] }),
    await probe('/orders', { items: [{ product_id: lamp.id, quantity: 1_000 }] }),
    await probe('/orders', { items, expected_total: { amount: 1, currency: 'EUR' } }),
  ]
  assert.deepEqual(codes, [undefined, 'invalid_body', 'unknown_product', 'insufficient_stock', 'purchase_limit', 'price_changed'])
  assertProblem(await placeOrder(store, blocked.token, lamp), 403, 'account_blocked')
})

test("a blocked customer's unproven address, or an address typed by a blocked guest, blocks nobody else", async () => {
  const eve = await store.register({ email: 'victim@example.com' })
  const typed = await createGuest(store, 'typed@example.com')
  for (const { id } of [eve, typed]) assert.equal((await decide(id, 'block')).status, 204)
  for (const email of ['victim@example.com', 'typed@example.com'])
    assert.equal((await placeOrder(store, (await createGuest(store, email)).token, await store.addProduct())).status, 201, email)
  assertProblem(await placeOrder(store, typed.token, lamp), 401, 'invalid_token')
})

test('guests with a blocked and with a free address who order at once are refused and served independently', async () => {
  const ada = await store.register()
  await prove(ada.id)
  assert.equal((await decide(ada.id, 'block')).status, 204)
  const product = await store.addProduct({ stock: 8 })
  const guests = await Promise.all(
    Array.from({ length: 8 }, (_, i) => createGuest(store, i % 2 === 0 ? ada.email : `guest${i}@example.com`)),
  )
  const answers = await Promise.all(guests.map(({ token }) => placeOrder(store, token, product)))
  assert.deepEqual(
    answers.map(({ status }) => status),
    [403, 201, 403, 201, 403, 201, 403, 201],
  )
  assert.deepEqual(await store.readStock(product), [4])
})

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createGuest, type Guest } from '../../test/guests.ts'
import { assertProblem } from '../../test/problem.ts'
import { startSecondProcess, startStore } from '../../test/store.ts'
import { expireGuestOrders, expireOrders } from './expire-orders.ts'

const store = await startStore({ after }, { isNetworkLimited: true })
const guest = () => createGuest(store, 'grace@shop.example')
const order = (by: { token: string }, product: { id: string }, quantity: number, from = '192.0.2.1', call = store.call) =>
  call('POST', '/orders', { token: by.token, from, body: { items: [{ product_id: product.id, quantity }] } })
const holdsOf = async (product: { id: string }) =>
  (
    await store.pool.query<{ pieces: number }>('select coalesce(sum(quantity), 0)::int as pieces from guest_holds where product_id = $1', [
      product.id,
    ])
  ).rows[0]?.pieces

test('guests of one network hold a fifth of a product at most, all together, until an order is no longer pending', async () => {
  const lamp = await store.addProduct({ stock: 100 })
  const [grace, other] = [await guest(), await guest()]
  const { limits } = assertProblem(await order(grace, lamp, 21), 409, 'purchase_limit')
  assert.deepEqual(limits, [{ product_id: lamp.id, requested: 21, bought: 0, limit: 20 }])
  const placed = await order(grace, lamp, 20)
  assert.equal(placed.status, 201, placed.text)
  assert.equal(assertProblem(await order(other, lamp, 1), 409, 'purchase_limit').limits[0].bought, 20)
  assert.equal((await order(other, lamp, 16, '192.0.2.2')).status, 201)
  assert.equal((await order(await store.register(), lamp, 40)).status, 201)
  assert.equal((await store.call('POST', `/orders/${placed.json.id}/cancel`, { token: grace.token })).status, 200)
  assert.equal(await holdsOf(lamp), 16)
  assert.equal((await order(other, lamp, 10)).status, 201)
})

test('the networks of one IPv6 site, which its customer chooses, are one', async () => {
  const lamp = await store.addProduct({ stock: 100 })
  assert.equal((await order(await guest(), lamp, 20, '2001:db8:1:1::1')).status, 201)
  assert.equal(assertProblem(await order(await guest(), lamp, 1, '2001:db8:1:ffff::2'), 409, 'purchase_limit').limits[0].bought, 20)
  assert.equal((await order(await guest(), lamp, 1, '2001:db8:2:1::1')).status, 201)
})

test('a guest can buy ten pieces of what there are few of, and any number of what is not counted', async () => {
  const [vase, poster] = [await store.addProduct({ stock: 5 }), await store.addProduct({ stock: null })]
  assert.equal((await order(await guest(), vase, 5)).status, 201)
  assert.equal((await order(await guest(), poster, 5_000)).status, 201)
})

test('the share holds when many guests order at once, in two processes', async (t) => {
  const second = await startSecondProcess(t, store)
  const lamp = await store.addProduct({ stock: 100 })
  const guests: Guest[] = await Promise.all(Array.from({ length: 24 }, guest))
  const answers = await Promise.all(guests.map((by, i) => order(by, lamp, 3, '192.0.2.1', i % 2 === 0 ? store.call : second.call)))
  const placed = answers.filter(({ status }) => status === 201)
  for (const answer of answers) if (answer.status !== 201) assertProblem(answer, 409, 'purchase_limit')
  assert.equal(placed.length, 6)
  assert.equal(await holdsOf(lamp), 18)
  assert.deepEqual(await store.readStock(lamp), [82])
})

test("cancels guests' orders after their own time, and not those of customers or of a guest whose address an account has proven", async () => {
  const lamp = await store.addProduct({ stock: 100 })
  const [grace, proven, ada] = [await guest(), await guest(), await store.register()]
  const ids: string[] = []
  for (const by of [grace, proven, ada]) ids.push((await order(by, lamp, 1)).json.id)
  await store.pool.query('update users set owner_id = $1 where id = $2', [ada.id, proven.id])
  const later = new Date(Date.now() + 2 * 3_600_000)
  await expireGuestOrders(store.pool, 3_600, later)
  const { rows } = await store.pool.query('select status from orders where id = any($1) order by number', [ids])
  assert.deepEqual(
    rows.map(({ status }) => status),
    ['cancelled', 'pending', 'pending'],
  )
  assert.equal(await expireOrders(store.pool, 7 * 86_400, later), 0)
  assert.deepEqual(await store.readStock(lamp), [98])
})

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
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
    await store.pool.query<{ units: number }>('select coalesce(sum(quantity), 0)::int as units from guest_holds where product_id = $1', [
      product.id,
    ])
  ).rows[0]?.units

test('the guests of one network together hold at most a fifth of a product while their orders are pending', async () => {
  const lamp = await store.addProduct({ stock: 100 })
  const [grace, other] = [await guest(), await guest()]
  const { limits } = assertProblem(await order(grace, lamp, 21), 409, 'purchase_limit')
  assert.deepEqual(limits, [{ product_id: lamp.id, requested: 21, bought: 0, limit: 10 }], 'what a fifth of any stock from 51 to 100 has')
  const placed = await order(grace, lamp, 20)
  assert.equal(placed.status, 201, placed.text)
  assert.equal(assertProblem(await order(other, lamp, 1), 409, 'purchase_limit').limits[0].bought, 20)
  assert.equal((await order(other, lamp, 16, '192.0.2.2')).status, 201)
  assert.equal((await order(await store.register(), lamp, 40)).status, 201)
  assert.equal((await store.call('POST', `/orders/${placed.json.id}/cancel`, { token: grace.token })).status, 200)
  assert.equal(await holdsOf(lamp), 16)
  assert.equal((await order(other, lamp, 10)).status, 201)
})

test('the networks of one IPv6 site count as one, because its customer chooses among them', async () => {
  const lamp = await store.addProduct({ stock: 100 })
  assert.equal((await order(await guest(), lamp, 20, '2001:db8:1:1::1')).status, 201)
  assert.equal(assertProblem(await order(await guest(), lamp, 1, '2001:db8:1:ffff::2'), 409, 'purchase_limit').limits[0].bought, 20)
  assert.equal((await order(await guest(), lamp, 1, '2001:db8:2:1::1')).status, 201)
})

test('a guest can buy ten units of a scarce product, and any number of an uncounted one', async () => {
  const [vase, poster] = [await store.addProduct({ stock: 5 }), await store.addProduct({ stock: null })]
  assert.equal((await order(await guest(), vase, 5)).status, 201)
  assert.equal((await order(await guest(), poster, 5_000)).status, 201)
})

test('the guests of a network keep to their share when many order at once from two processes', async (t) => {
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

test('above twenty units, answers that place no order do not tell one stock level from another', async () => {
  const [less, more] = [await store.addProduct({ stock: 137 }), await store.addProduct({ stock: 163 })]
  const [low, high, few] = [
    await store.addProduct({ stock: 52 }),
    await store.addProduct({ stock: 99 }),
    await store.addProduct({ stock: 1 }),
  ]
  const [scarce, shared] = [await store.addProduct({ stock: 137 }), await store.addProduct({ stock: 75 })]
  const [grace, ada] = [await guest(), await store.register()]
  const line = (product: { id: string }, quantity: number) => ({ product_id: product.id, quantity })
  const wrong = { expected_total: { amount: 1, currency: 'EUR' } }
  /** Requests that are refused at any stock level, or that place nothing. */
  const questions = (by: { token: string }, of: { id: string }, quantity: number): [path: string, body: object][] => [
    ['/orders/quote', { items: [line(of, quantity)] }],
    ['/orders/quote', { items: [line(of, quantity), line({ id: randomUUID() }, 1)] }],
    ['/orders', { items: [line(of, quantity), line({ id: randomUUID() }, 1)] }],
    ['/orders', { items: [line(of, quantity)], ...wrong }],
    ['/orders', { items: [line(of, quantity), line(few, 9_999)] }],
    // The other line is short only by the exact stock or, for guests, only by the exact share.
    ['/orders', { items: [line(of, quantity), by === grace ? line(shared, 20) : line(scarce, 200)] }],
  ]
  const known = new Map([few, scarce, shared].map(({ id }, place) => [id, String(place)]))
  const told = async (product: { id: string }, by: { token: string }, quantity: number) => {
    const answers = questions(by, product, quantity).map(([path, body]) =>
      store.call('POST', path, { token: by.token, body, from: '192.0.2.77' }),
    )
    return (await Promise.all(answers)).map(({ status, json }) => {
      const { code, is_available, shortages, limits } = json
      const text = JSON.stringify([
        status,
        code,
        is_available,
        shortages,
        limits,
        json.errors?.map(({ detail }: { detail: string }) => detail),
      ])
      return text.replaceAll(/[\da-f]{8}-[\da-f-]{27}/g, (id) => (id === product.id ? 'asked' : (known.get(id) ?? 'unknown')))
    })
  }
  for (const by of [grace, ada]) {
    for (const quantity of [5, 20, 21, 27, 28, 32, 33, 50, 120, 137, 138, 150, 163, 164, 200, 201, 1_000]) {
      assert.deepEqual(await told(less, by, quantity), await told(more, by, quantity), `${quantity} units of 137 and 163`)
    }
    for (const quantity of [5, 10, 11, 15, 19, 20, 21, 51, 52, 53, 99, 100, 101, 1_000]) {
      assert.deepEqual(await told(low, by, quantity), await told(high, by, quantity), `${quantity} units of 52 and 99`)
    }
  }
  assert.deepEqual(await store.readStock(less, more, low, high, few, scarce, shared), [137, 163, 52, 99, 1, 137, 75])
  const quote = async (quantity: number) =>
    (await store.call('POST', '/orders/quote', { token: ada.token, body: { items: [line(less, quantity)] } })).json.is_available
  assert.deepEqual([await quote(200), await quote(201)], [true, false], 'only the magnitude')
  assertProblem(await order(ada, less, 138), 409, 'insufficient_stock')
  assertProblem(await order(grace, less, 28, '192.0.2.78'), 409, 'purchase_limit')
  const [placed, bought] = [await order(grace, less, 27, '192.0.2.78'), await order(ada, less, 110)]
  assert.deepEqual([placed.status, bought.status], [201, 201])
})

test('where accounts need a proven address, an unproven account has the limits of a guest and shares those of its network', async (t) => {
  const strict = await startSecondProcess(t, store, { isEmailVerificationRequired: true })
  const lamp = await store.addProduct({ stock: 100 })
  const [eve, ada, moved] = [await store.register(), await store.register(), await store.register()]
  await store.pool.query('update users set email_verified_at = now() where id = $1', [ada.id])
  await store.pool.query(`insert into imported_customers (id, user_id, digest) values ($1, $2, '')`, [randomUUID(), moved.id])
  const take = (by: { token: string }, quantity: number, call = strict.call) => order(by, lamp, quantity, '192.0.2.60', call)
  assertProblem(await take(eve, 21), 409, 'purchase_limit')
  const held = await take(eve, 15)
  assert.equal(held.status, 201, held.text)
  assertProblem(await take(await guest(), 6), 409, 'purchase_limit')
  assert.deepEqual([(await take(ada, 21)).status, (await take(moved, 21)).status], [201, 201])
  assert.equal((await take(eve, 21, store.call)).status, 201, 'where no proof is required, an account has no such bound')
  const later = new Date(Date.now() + 2 * 3_600_000)
  await expireGuestOrders(store.pool, 3_600, later)
  const statusOf = async () => (await store.call('GET', `/orders/${held.json.id}`, { token: eve.token })).json.status
  assert.equal(await statusOf(), 'cancelled')
  const again = await take(eve, 5)
  await store.pool.query('update users set email_verified_at = now() where id = $1', [eve.id])
  await expireGuestOrders(store.pool, 3_600, later)
  assert.equal(
    (await store.call('GET', `/orders/${again.json.id}`, { token: eve.token })).json.status,
    'pending',
    'a proof ends the bounds',
  )
})

test('expires orders of guests after their own time, but not of customers or of guests whose address an account has proven', async () => {
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

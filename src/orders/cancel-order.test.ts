import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { setStatus } from '../../test/broken-rows.ts'
import { eventually, untilTaken } from '../../test/eventually.ts'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { type Account, type Answer, startSecondProcess, startStore } from '../../test/store.ts'
import { inTransaction } from '../db/transaction.ts'

const store = await startStore({ after }, { customerCancel: 'confirmed' })
const [ada, bob] = [await store.register(), await store.register()]

const cancel = (id: string, by: Account = ada) => store.call('POST', `/orders/${id}/cancel`, { token: by.token })

async function place(items: { product_id: string; quantity: number }[], more: object = {}): Promise<Answer['json']> {
  const placed = await store.call('POST', '/orders', { token: ada.token, body: { items, ...more } })
  assert.equal(placed.status, 201, placed.text)
  return placed.json
}

async function readOrder(id: string) {
  const { rows } = await store.pool.query('select status, version, status_history from orders where id = $1', [id])
  return rows[0]
}

test('cancels an order, returns its stock and records the actor', async () => {
  const lamp = await store.addProduct({ stock: 5 })
  const download = await store.addProduct({ stock: null })
  const placed = await place([
    { product_id: lamp.id, quantity: 2 },
    { product_id: download.id, quantity: 3 },
  ])
  const cancelled = await cancel(placed.id)
  assert.equal(cancelled.status, 200, cancelled.text)
  const { updated_at, status_history, ...rest } = cancelled.json
  assert.ok(updated_at >= placed.created_at)
  assert.deepEqual(status_history, [
    ...placed.status_history,
    { status: 'cancelled', at: updated_at, actor: { type: 'customer', id: ada.id }, reason: null },
  ])
  const { updated_at: _, status_history: __, ...before } = placed
  before.items = before.items.map((item: { quantity: number }) => ({ ...item, cancelled: item.quantity }))
  assert.deepEqual(rest, { ...before, status: 'cancelled', allowed_transitions: [], version: 2 })

  assert.deepEqual(await readOrder(placed.id), { status: 'cancelled', version: 2, status_history })
  assert.deepEqual(await store.readStock(lamp, download), [5, null])
  const { timeline: ___, ...read } = (await store.call('GET', `/orders/${placed.id}`, { token: ada.token })).json
  assert.deepEqual(read, cancelled.json)
})

test('shows a sold-out product in stock again when its order is cancelled', async () => {
  const lamp = await store.addProduct({ stock: 1 })
  const isSeenInStock = (expected: boolean) =>
    eventually(async () => (await store.call('GET', `/products/${lamp.id}`)).json.in_stock === expected, { what: `in stock: ${expected}` })
  const placed = await place([{ product_id: lamp.id, quantity: 1 }])
  await isSeenInStock(false)
  await cancel(placed.id)
  await isSeenInStock(true)
  await place([{ product_id: lamp.id, quantity: 1 }])
})

test('cancels a confirmed order, and refuses a later cancellation with the moves that remain', async () => {
  const lamp = await store.addProduct({ stock: 100 })
  for (const [status, allowed] of [
    ['shipped', ['delivered', 'returned']],
    ['delivered', ['returned']],
    ['returned', []],
    ['cancelled', []],
  ] as const) {
    const placed = await place([{ product_id: lamp.id, quantity: 1 }])
    await setStatus(store.pool, [placed.id], status)
    const [before, stock] = [await readOrder(placed.id), await store.readStock(lamp)]
    const problem = assertProblem(await cancel(placed.id), 409, 'illegal_transition', status)
    assert.equal(problem.current_status, status)
    assert.deepEqual(problem.allowed_transitions, allowed)
    assert.deepEqual([await readOrder(placed.id), await store.readStock(lamp)], [before, stock])
  }
  const confirmed = await place([{ product_id: lamp.id, quantity: 1 }])
  await setStatus(store.pool, [confirmed.id], 'confirmed')
  assert.equal((await cancel(confirmed.id)).status, 200)
})

test('customers see and use the cancellations that the shop allows, and operators cancel until an order is shipped', async (t) => {
  const { token } = await registerOperator(store)
  for (const [customerCancel, expected] of [
    ['pending', { pending: 200, confirmed: 409 }],
    ['confirmed', { pending: 200, confirmed: 200 }],
    ['never', { pending: 409, confirmed: 409 }],
  ] as const) {
    const { call } = await startSecondProcess(t, store, { customerCancel })
    for (const status of ['pending', 'confirmed'] as const) {
      const lamp = await store.addProduct({ stock: 4 })
      const body = { items: [{ product_id: lamp.id, quantity: 3 }] }
      const placed = (await call('POST', '/orders', { token: ada.token, body })).json
      if (status !== 'pending') await setStatus(store.pool, [placed.id], status)
      const one = await call('GET', `/orders/${placed.id}`, { token: ada.token })
      const all = await call('GET', '/orders?limit=1', { token: ada.token })
      for (const order of [one.json, all.json.data[0], ...(status === 'pending' ? [placed] : [])]) {
        assert.equal(order.allowed_transitions.includes('cancelled'), expected[status] === 200, `${customerCancel} ${status}`)
      }
      const answer = await call('POST', `/orders/${placed.id}/cancel`, { token: ada.token })
      assert.equal(answer.status, expected[status], `${customerCancel} ${status}`)
      if (answer.status === 200) continue
      const { detail, current_status, allowed_transitions } = assertProblem(answer, 409, 'illegal_transition')
      assert.deepEqual(
        [detail, current_status, allowed_transitions],
        [`Only the shop can cancel a ${status} order. Ask the shop.`, status, one.json.allowed_transitions],
      )
      const moved = await call('POST', `/admin/orders/${placed.id}/transitions`, { token, body: { to: 'cancelled' } })
      assert.equal(moved.status, 200, moved.text)
    }
  }
})

test('accepts a cancellation that names a content type but has no body', async () => {
  const lamp = await store.addProduct()
  for (const raw of ['', '{}']) {
    const placed = await place([{ product_id: lamp.id, quantity: 1 }])
    const cancelled = await store.call('POST', `/orders/${placed.id}/cancel`, { token: ada.token, raw })
    assert.equal(cancelled.status, 200, cancelled.text)
  }
})

test('refuses a second cancellation and returns the stock once', async () => {
  const lamp = await store.addProduct({ stock: 4 })
  const placed = await place([{ product_id: lamp.id, quantity: 3 }])
  assert.equal((await cancel(placed.id)).status, 200)
  assertProblem(await cancel(placed.id), 409, 'illegal_transition')
  assert.deepEqual(await store.readStock(lamp), [4])
  assert.equal((await readOrder(placed.id)).version, 2)
})

test('returns the stock once when several requests cancel at the same time', async () => {
  const lamp = await store.addProduct({ stock: 4 })
  const placed = await place([{ product_id: lamp.id, quantity: 3 }])
  const cancellations = await inTransaction(store.pool, async (holder) => {
    await holder.query('select from inventory where product_id = $1 for update', [lamp.id])
    // An account has a share of the places. Its other requests wait for their turn, or are refused under load, and
    // find the order cancelled.
    const waiting = Array.from({ length: 5 }, () => untilTaken(() => cancel(placed.id)))
    await eventually(async () => (await countWaiting()) >= 2, { what: 'cancellations that wait for a lock' })
    return waiting
  })
  assert.deepEqual((await Promise.all(cancellations)).map(({ status }) => status).sort(), [200, ...Array(4).fill(409)])
  assert.deepEqual(await store.readStock(lamp), [4])
  const { version, status_history } = await readOrder(placed.id)
  assert.deepEqual([version, status_history.length], [2, 2])
})

async function countWaiting(): Promise<number> {
  const { rows } = await store.pool.query<{ count: number }>(
    `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  )
  return rows[0]?.count ?? 0
}

test("answers for another customer's order as for a missing one", async () => {
  const lamp = await store.addProduct({ stock: 4 })
  const placed = await place([{ product_id: lamp.id, quantity: 3 }])
  const theirs = assertProblem(await cancel(placed.id, bob), 404, 'not_found')
  const none = assertProblem(await cancel(randomUUID(), bob), 404, 'not_found')
  assert.deepEqual({ ...theirs, request_id: '', trace_id: '' }, { ...none, request_id: '', trace_id: '' })
  assert.equal((await readOrder(placed.id)).status, 'pending')
  assert.deepEqual(await store.readStock(lamp), [1])
})

test('cancels an order whose product has left the catalogue', async () => {
  const [lamp, vase] = [await store.addProduct({ stock: 4 }), await store.addProduct({ stock: 4 })]
  const placed = await place([
    { product_id: lamp.id, quantity: 1 },
    { product_id: vase.id, quantity: 1 },
  ])
  await store.pool.query('delete from products where id = $1', [lamp.id])
  assert.equal((await cancel(placed.id)).status, 200)
  assert.deepEqual(await store.readStock(vase), [4])
})

test('neither loses nor adds stock when orders and cancellations of the same products cross', async () => {
  const products = await Promise.all(Array.from({ length: 6 }, () => store.addProduct({ stock: 8 })))
  const basket = products.map(({ id }) => ({ product_id: id, quantity: 1 }))
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, async (_, i) => {
      const items = i % 2 === 0 ? basket : basket.toReversed()
      const placed = await store.call('POST', '/orders', { token: ada.token, body: { items } })
      if (placed.status !== 201) return placed.status
      return i % 4 < 2 ? (await cancel(placed.json.id)).status : placed.status
    }),
  )
  assert.deepEqual(
    outcomes.filter((status) => ![200, 201, 409].includes(status)),
    [],
  )
  const kept = outcomes.filter((status) => status === 201).length
  for (const product of products) assert.deepEqual(await store.readStock(product), [8 - kept])
})

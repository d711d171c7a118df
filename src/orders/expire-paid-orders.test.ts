import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { addBuyer } from '../../test/buyers.ts'
import { eventually } from '../../test/eventually.ts'
import { startStore } from '../../test/store.ts'
import type { Pool } from '../db/pool.ts'
import { expireOrders } from './expire-orders.ts'
import { type HistoryEntry, PAYMENT_STATES, type PaymentState } from './order-changes.ts'
import { isMoneyHeld, paymentOf } from './order-charges.ts'

const store = await startStore({ after }, { pendingOrderTtlSeconds: 3_600 })
const [ada, operator] = [await store.register(), await addBuyer(store, 'admin')]

async function place(product: { id: string }): Promise<string> {
  const { json } = await store.call('POST', '/orders', { token: ada.token, body: { items: [{ product_id: product.id, quantity: 1 }] } })
  await store.pool.query(`update orders set created_at = created_at - interval '2 hours' where id = $1`, [json.id])
  return json.id
}
async function pay(id: string, state: PaymentState, reference = 'pi_1') {
  const answer = await store.call('PUT', `/admin/orders/${id}/payment`, {
    ...{ token: operator.token, body: { provider: 'stripe', reference, state } },
  })
  assert.equal(answer.status, 200, answer.text)
}
const statusOf = async (id: string) => (await store.pool.query('select status from orders where id = $1', [id])).rows[0]?.status

test('the scheduled job does not cancel an order whose payment is authorized, paid or partially refunded', async () => {
  const lamp = await store.addProduct({ stock: 10 })
  const outcomes: [PaymentState[], string][] = [
    [[], 'cancelled'],
    [['pending'], 'cancelled'],
    [['authorized'], 'pending'],
    [['authorized', 'failed'], 'cancelled'],
    [['paid'], 'pending'],
    [['paid', 'partially_refunded'], 'pending'],
    [['paid', 'refunded'], 'cancelled'],
  ]
  // The orders only become old after every payment is known.
  const ids = await Promise.all(outcomes.map(() => place(lamp)))
  await store.pool.query(`update orders set created_at = created_at + interval '2 hours' where id = any($1)`, [ids])
  for (const [index, [states]] of outcomes.entries()) for (const state of states) await pay(ids[index] ?? '', state)
  await store.pool.query(`update orders set created_at = created_at - interval '2 hours' where id = any($1)`, [ids])
  const expected = outcomes.map(([, status]) => status)
  await eventually(async () => (await Promise.all(ids.map(statusOf))).filter((status) => status === 'cancelled').length >= 4, {
    what: 'the scheduled job',
    timeoutMs: 240_000,
  })
  await expireOrders(store.pool, 3_600, new Date())
  assert.deepEqual(await Promise.all(ids.map(statusOf)), expected)
  assert.deepEqual(await store.readStock(lamp), [7])
})

test('keeps an order whose payment arrives after the scheduled job has found it', async () => {
  const lamp = await store.addProduct({ stock: 10 })
  const [paid, other] = [await place(lamp), await place(lamp)]
  let found: string[] = []
  const payAfterQuery = async (text: string, values: unknown[]) => {
    const result = await store.pool.query<{ id: string }>(text, values)
    if (found.length === 0) {
      found = result.rows.map(({ id }) => id)
      await pay(paid, 'paid')
    }
    return result
  }
  const pool = new Proxy(store.pool, {
    get: (target, name) => (name === 'query' ? payAfterQuery : Reflect.get(target, name, target).bind(target)),
  }) as Pool
  assert.equal(await expireOrders(pool, 3_600, new Date()), 1)
  assert.ok(found.includes(paid))
  assert.deepEqual([await statusOf(paid), await statusOf(other)], ['pending', 'cancelled'])
})

test('the index of the scheduled job has only orders that can expire, so no run reads paid ones', async () => {
  const lamp = await store.addProduct({ stock: 1_000 })
  await place(lamp)
  const paid = await Promise.all(Array.from({ length: 120 }, () => place(lamp)))
  const entry = { change: { type: 'payment', provider: 'p', reference: 'r', state: 'paid' } }
  await store.pool.query(
    `update orders
    set version = version + 1, status_history = status_history || jsonb_build_array(status_history -> -1 || $2::jsonb)
    where id = any($1)`,
    [paid, JSON.stringify(entry)],
  )
  const read: unknown[] = []
  const pool = new Proxy(store.pool, {
    get: (target, name) => {
      if (name !== 'query') return Reflect.get(target, name, target).bind(target)
      return async (statement: { text: string; values: unknown[] }) => {
        const { rows } = await store.pool.query(`explain (analyze, format json) ${statement.text}`, statement.values)
        read.push(rows[0]['QUERY PLAN'][0].Plan)
        return store.pool.query(statement)
      }
    },
  }) as Pool
  assert.equal(await expireOrders(pool, 3_600, new Date()), 1)
  assert.match(JSON.stringify(read), /orders_expiring_created_at_id_idx/)
  assert.doesNotMatch(JSON.stringify(read), /Rows Removed by Filter":[1-9]/)
})

test('the database and the API agree on whether money is held', async () => {
  const state = fc.constantFrom(...PAYMENT_STATES)
  const payment = fc.record({
    type: fc.constant('payment' as const),
    provider: fc.constantFrom('a', 'b'),
    reference: fc.constantFrom('1', '2'),
    state,
  })
  const other = fc.constantFrom(undefined, { type: 'adjustment_voided' as const, adjustment: 1, amount: 0 })
  const entry: fc.Arbitrary<HistoryEntry> = fc
    .oneof({ weight: 4, arbitrary: payment }, { weight: 1, arbitrary: other })
    .map((change) => ({ status: 'pending', at: '2026-01-01T00:00:00Z', ...(change === undefined ? {} : { change }) }))
  const histories = fc.sample(fc.array(entry, { maxLength: 7 }), { numRuns: 2_000, seed: 1 })
  const { rows } = await store.pool.query<{ held: boolean }>(
    'select order_holds_money(history) as held from unnest($1::jsonb[]) with ordinality as given (history, place) order by place',
    [histories.map((history) => JSON.stringify(history))],
  )
  const expected = histories.map((history) => isMoneyHeld(paymentOf(history)))
  assert.deepEqual(
    rows.map(({ held }) => held),
    expected,
  )
  assert.equal(new Set(expected).size, 2)
})

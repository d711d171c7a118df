import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { addBuyer, addBuyers } from '../../test/buyers.ts'
import { startStore } from '../../test/store.ts'
import { expireOrders } from './expire-orders.ts'
import { allowedTransitions, ORDER_STATUSES, type OrderStatus } from './order-status.ts'

const store = await startStore({ after })
const [admin, buyers] = [await addBuyer(store, 'admin'), await addBuyers(store, 2)]

const DAY_MS = 86_400_000

/** An action of one of several clients. `order` is an index of the orders that exist at that time. */
type Action =
  | { kind: 'place'; buyer: number; quantities: number[] }
  | { kind: 'retry'; order: number }
  | { kind: 'cancel'; order: number }
  | { kind: 'move'; order: number; to: OrderStatus; restock: boolean }
  | { kind: 'expire' }

const order = fc.nat({ max: 20 })
const action: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('place' as const),
      buyer: fc.nat({ max: 1 }),
      quantities: fc.array(fc.nat({ max: 3 }), { minLength: 3, maxLength: 3 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('retry' as const), order }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('cancel' as const), order }) },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('move' as const), order, to: fc.constantFrom(...ORDER_STATUSES), restock: fc.boolean() }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('expire' as const) }) },
)

interface Placed {
  id: string
  buyer: number
  body: object
  key: string
  text: string
}

/** Runs the actions of each round at once. Returns the orders that were answered with 201. */
async function play(products: { id: string }[], rounds: Action[][]): Promise<Placed[]> {
  const placed: Placed[] = []
  const tokenOf = (buyer: number) => buyers[buyer]?.token ?? ''
  const send = (one: Omit<Placed, 'id' | 'text'>) =>
    store.call('POST', '/orders', { token: tokenOf(one.buyer), body: one.body, headers: { 'idempotency-key': one.key } })
  const run = async (step: Action) => {
    if (step.kind === 'place') {
      const items = products.flatMap(({ id }, i) =>
        (step.quantities[i] ?? 0) > 0 ? [{ product_id: id, quantity: step.quantities[i] }] : [],
      )
      if (items.length === 0) return
      const one = { buyer: step.buyer, body: { items: step.buyer === 0 ? items : items.toReversed() }, key: randomUUID() }
      const [first, twin] = await Promise.all([send(one), send(one)])
      assert.ok([201, 409].includes(first.status), first.text)
      if (first.status === 201 && twin.status === 201) assert.equal(twin.json.id, first.json.id)
      const answer = first.status === 201 ? first : twin
      if (answer.status === 201) placed.push({ ...one, id: answer.json.id, text: answer.text })
      return
    }
    if (step.kind === 'expire') return void (await expireOrders(store.pool, 1, new Date(Date.now() + DAY_MS)))
    const target = placed[step.order % Math.max(1, placed.length)]
    if (target === undefined) return
    if (step.kind === 'retry') return assert.equal((await send(target)).text, target.text)
    const restock = step.kind === 'move' && step.to === 'returned' && step.restock
    const answer =
      step.kind === 'cancel'
        ? await store.call('POST', `/orders/${target.id}/cancel`, { token: tokenOf(target.buyer) })
        : await store.call('POST', `/admin/orders/${target.id}/transitions`, { token: admin.token, body: { to: step.to, restock } })
    assert.ok([200, 409].includes(answer.status), answer.text)
    // The order itself does not show whether its goods were restocked.
    if (restock && answer.status === 200) restocked.add(target.id)
  }
  for (const round of rounds) await Promise.all(round.map(run))
  return placed
}

const restocked = new Set<string>()

test('keeps stock and orders in balance whatever happens to orders, in any sequence', async () => {
  const stocks = fc.array(fc.nat({ max: 12 }), { minLength: 3, maxLength: 3 })
  const rounds = fc.array(fc.array(action, { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 6 })
  await fc.assert(
    fc.asyncProperty(stocks, rounds, async (initial, script) => {
      const products = await Promise.all(initial.map((stock) => store.addProduct({ stock })))
      const placed = await play(products, script)
      const ids = products.map(({ id }) => id)
      const { rows: orders } = await store.pool.query<{
        id: string
        status: OrderStatus
        version: number
        items: { product_id: string; quantity: number }[]
        status_history: { status: OrderStatus }[]
      }>(`select id, status, version, items, status_history from orders where items -> 0 ->> 'product_id' = any($1)`, [ids])
      assert.deepEqual(orders.map(({ id }) => id).sort(), placed.map(({ id }) => id).sort(), 'one order for each key, and no other')

      for (const { status, version, status_history } of orders) {
        const path = status_history.map((change) => change.status)
        assert.deepEqual([path.length, path[0], path.at(-1)], [version, 'pending', status])
        for (let i = 1; i < path.length; i++)
          assert.ok(allowedTransitions(path[i - 1] as OrderStatus).includes(path[i] as OrderStatus), path.join())
      }
      const gone = orders.filter(({ id, status }) => status !== 'cancelled' && !restocked.has(id)).flatMap(({ items }) => items)
      const { rows: levels } = await store.pool.query<{ id: string; available: number; in_stock: boolean }>(
        'select id, available, in_stock from products join inventory on product_id = id where id = any($1)',
        [ids],
      )
      for (const [i, id] of ids.entries()) {
        const sold = gone.filter(({ product_id }) => product_id === id).reduce((sum, { quantity }) => sum + quantity, 0)
        const level = levels.find((row) => row.id === id)
        assert.equal((level?.available ?? -1) + sold, initial[i], 'stock + sold = initial')
        assert.equal(level?.in_stock, (level?.available ?? -1) > 0)
      }
    }),
    { numRuns: 25, endOnFailure: true },
  )
})

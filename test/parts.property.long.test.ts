import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import fc from 'fast-check'
import type { OrderEvent } from '../src/orders/events.ts'
import { expireOrders } from '../src/orders/expire-orders.ts'
import { addBuyer } from './buyers.ts'
import { queryFolder } from './lake-harness.ts'
import { assertOrder, assertRefunds, type Item, type Tally, textOf } from './order-tally.ts'
import { startAuditedStore } from './pipeline-audit.ts'
import { TEST_SECRET } from './store.ts'
import { serve } from './store-process.ts'

const store = await startAuditedStore({ after }, { maxPendingOrdersPerUser: null })
const env = {
  ...{ DATABASE_URL: store.addresses.api, STOREFRONT_SECRET: TEST_SECRET, DATA_DIR: store.config.dataDir },
  ...{ BASE_URL: 'http://localhost:3000', ROLES: 'api', OPS_PORT: 'off', CUSTOMER_CANCEL: 'confirmed' },
}
const processes = await Promise.all([serve({ after }, { env }), serve({ after }, { env })])
const stopPipeline = await store.startPipeline()
const [buyer, operator] = [await addBuyer(store), await addBuyer(store, 'admin')]
/** Few enough for some amendments to find too little. */
const INITIAL = 16
const CHARGE = 100
const PAYMENT = { provider: 'stripe', reference: 'pi_1', state: 'paid' }

type Kind = 'shipments' | 'cancellations' | 'returns'
/** What one of two operators does, each at a process of its own. `order` counts among the orders that there are. */
type Step =
  | { kind: Kind; order: number; process: boolean; quantities: number[]; restock: boolean }
  | { kind: 'rest'; to: 'shipped' | 'cancelled' | 'returned' | 'delivered'; order: number; process: boolean }
  | { kind: 'customer'; order: number; process: boolean }
  | { kind: 'amend'; order: number; process: boolean; name: 'shipping_address' | 'email' | 'parcel'; text: string; parcel: number }
  | { kind: 'lines'; order: number; process: boolean; quantities: number[]; price: 'now' | 'then' }
  | { kind: 'charge'; order: number; process: boolean }
  | { kind: 'pay'; order: number; process: boolean }
  | { kind: 'refund'; order: number; process: boolean; amount: number; reference: string | null }
  | { kind: 'expire'; order: number; process: boolean }

const place = { order: fc.nat({ max: 2 }), process: fc.boolean() }
const quantities = fc.array(fc.nat({ max: 3 }), { minLength: 2, maxLength: 2 })
const part = (kind: Kind) => fc.record({ kind: fc.constant(kind), ...place, quantities, restock: fc.boolean() })
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: part('shipments') },
  { weight: 4, arbitrary: part('cancellations') },
  { weight: 4, arbitrary: part('returns') },
  {
    weight: 2,
    arbitrary: fc.record({
      ...{ kind: fc.constant('rest' as const), ...place },
      to: fc.constantFrom('shipped' as const, 'cancelled' as const, 'returned' as const, 'delivered' as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('customer' as const), ...place }) },
  {
    weight: 5,
    arbitrary: fc.record({
      ...{ kind: fc.constant('amend' as const), ...place },
      name: fc.constantFrom('shipping_address' as const, 'email' as const, 'parcel' as const),
      text: fc.constantFrom('GB', 'FR', 'DE'),
      parcel: fc.integer({ min: 2, max: 4 }),
    }),
  },
  {
    weight: 7,
    arbitrary: fc.record({
      ...{ kind: fc.constant('lines' as const), ...place },
      // -1 names the product not at all.
      quantities: fc.array(fc.integer({ min: -1, max: 8 }), { minLength: 2, maxLength: 2 }),
      price: fc.constantFrom('now' as const, 'then' as const),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('charge' as const), ...place }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('pay' as const), ...place }) },
  {
    weight: 6,
    arbitrary: fc.record({
      ...{ kind: fc.constant('refund' as const), ...place },
      amount: fc.constantFrom(1, 250, 1_000, 6_000),
      // The others have one of their own.
      reference: fc.constantFrom(null, 'r 1'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('expire' as const), ...place }) },
)

/** Answers to amendments: the state of an order at its version. */
const amended: AmendedOrder[] = []
interface AmendedOrder {
  id: string
  version: number
  status: string
  total: { amount: number }
  items: Item[]
  shipping_address: { country: string } | null
}

const bodyOf = ({ name, text, parcel }: Extract<Step, { kind: 'amend' }>) =>
  ({
    shipping_address: { shipping_address: { name: 'Ada', line1: '1 Street', city: 'Town', postal_code: '1', country: text } },
    email: { email: `${text}@example.com` },
    parcel: { parcel: { version: parcel, tracking: { carrier: text, number: '1' } } },
  })[name]

/** How often an amendment has moved units. */
const changes = { lines: 0, refunds: 0, refused: 0, repeated: 0 }

interface Whole {
  tally: Tally
  to: string
  version: number
}

/** Counts what expiry has cancelled: to count it twice changes nothing. */
async function countExpired(tallies: readonly Tally[], wholes: Whole[]): Promise<void> {
  // A payment may be reported after it.
  const { rows } = await store.pool.query<{ id: string; version: number }>(
    `select id, place as version
    from orders
    cross join jsonb_array_elements(status_history) with ordinality as history (entry, place)
    where id = any($1) and entry ->> 'status' = 'cancelled' and entry -> 'actor' ->> 'type' = 'system'`,
    [tallies.map(({ id }) => id)],
  )
  for (const { id, version } of rows) {
    const tally = tallies.find((each) => each.id === id)
    if (tally !== undefined) wholes.push({ tally, to: 'cancelled', version })
  }
}

/**
 * A whole move takes all units that can make it, and no later change of its kind is possible: what is missing is what
 * it took.
 */
function countWholes(wholes: Whole[]): void {
  for (const { tally, to } of wholes.splice(0).sort((a, b) => a.version - b.version)) {
    for (let i = 0; i < 2; i++) {
      const [ordered = 0, shipped = 0, cancelled = 0] = [tally.ordered, tally.shipped, tally.cancelled].map((n) => n[i])
      if (to === 'shipped') tally.shipped[i] = ordered - cancelled
      if (to === 'returned') tally.returned[i] = shipped
      if (to === 'cancelled') {
        tally.cancelled[i] = ordered - shipped
        tally.restocked[i] = (tally.restocked[i] ?? 0) + ordered - shipped - cancelled
      }
    }
  }
}

const COUNTED = { shipments: 'shipped', cancellations: 'cancelled', returns: 'returned' } as const

async function post(url: string, path: string, token: string, body: object = {}, method = 'POST') {
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` }
  const answer = await fetch(`${url}${path}`, { method, headers, body: JSON.stringify(body) })
  return { status: answer.status, text: await answer.text(), isRepeat: answer.headers.get('idempotency-replayed') === 'true' }
}

async function play(products: string[], rounds: Step[][]): Promise<Tally[]> {
  const token = operator.token
  const tallies: Tally[] = []
  for (const ordered of [
    [5, 4],
    [1, 3],
    [6, 0],
  ]) {
    const items = products.flatMap((product_id, i) => ((ordered[i] ?? 0) > 0 ? [{ product_id, quantity: ordered[i] }] : []))
    const placed = await store.call('POST', '/orders', { token: buyer.token, body: { items } })
    assert.equal(placed.status, 201, placed.text)
    const none = () => [0, 0]
    const counts = { ordered: [...ordered], shipped: none(), cancelled: none(), returned: none(), restocked: none() }
    tallies.push({ id: placed.json.id, placed: ordered, charges: 0, paid: null, refunded: 0, silent: 0, ...counts })
    // The last one stays pending.
    if (tallies.length < 3) {
      const confirmed = await store.call('POST', `/admin/orders/${placed.json.id}/transitions`, { token, body: { to: 'confirmed' } })
      assert.equal(confirmed.status, 200, confirmed.text)
    }
  }
  const run = async (one: Step) => {
    const tally = tallies[one.order]
    if (tally === undefined) return
    const { url } = processes[one.process ? 0 : 1]
    const add = (to: number[], units: readonly number[]) => {
      for (const [i, count] of units.entries()) to[i] = (to[i] ?? 0) + count
    }
    if (one.kind === 'amend') {
      const answer = await post(url, `/admin/orders/${tally.id}/amendments`, token, bodyOf(one))
      assert.ok([200, 409].includes(answer.status) || (answer.status === 422 && one.name === 'parcel'), answer.text)
      if (answer.status === 200) amended.push(JSON.parse(answer.text).order)
      return
    }
    if (one.kind === 'lines') {
      const lines = products.flatMap((product_id, i) =>
        (one.quantities[i] ?? -1) < 0 ? [] : [{ product_id, quantity: one.quantities[i], price: one.price }],
      )
      if (lines.length === 0) return
      const answer = await post(url, `/admin/orders/${tally.id}/amendments`, token, { lines })
      const mayBeUnknown = products.some((_, i) => tally.placed[i] === 0)
      assert.ok([200, 409].includes(answer.status) || (answer.status === 422 && mayBeUnknown), answer.text)
      if (answer.status !== 200) return
      const { order, stock, due } = JSON.parse(answer.text)
      amended.push(order)
      // The payment covers what is left of it.
      if (due !== null) assert.equal(due.amount, order.total.amount - (order.refundable[0]?.left.amount ?? 0))
      for (const { product_id, quantity } of stock) {
        const moved = products.map((id) => (id === product_id ? Math.abs(quantity) : 0))
        for (const to of quantity > 0 ? [tally.cancelled, tally.restocked] : [tally.ordered]) add(to, moved)
      }
      changes.lines += stock.length > 0 ? 1 : 0
      return
    }
    if (one.kind === 'charge') {
      const body = { kind: 'shipping', label: 'Delivery', amount: { amount: CHARGE, currency: 'EUR' } }
      const answer = await post(url, `/admin/orders/${tally.id}/adjustments`, token, body)
      assert.ok([200, 409].includes(answer.status), answer.text)
      if (answer.status !== 200) return
      tally.charges += CHARGE
      tally.silent += 1
      return
    }
    if (one.kind === 'pay') {
      const answer = await post(url, `/admin/orders/${tally.id}/payment`, token, PAYMENT, 'PUT')
      assert.equal(answer.status, 200, answer.text)
      if (answer.isRepeat) return
      tally.paid = JSON.parse(answer.text).refundable[0]?.left.amount
      tally.silent += 1
      return
    }
    if (one.kind === 'refund') {
      const amount = one.reference === null ? one.amount : 250
      const body = { amount: { amount, currency: 'EUR' }, reference: one.reference ?? randomUUID() }
      const answer = await post(url, `/admin/orders/${tally.id}/refunds`, token, body)
      assert.ok([200, 409].includes(answer.status), answer.text)
      const { code, left } = JSON.parse(answer.text)
      if (code === 'refund_exceeded') assert.ok(left.amount < amount, answer.text)
      changes[answer.status === 409 ? 'refused' : answer.isRepeat ? 'repeated' : 'refunds'] += 1
      if (answer.status !== 200 || answer.isRepeat) return
      tally.refunded += amount
      tally.silent += 1
      return
    }
    if (one.kind === 'expire') {
      await expireOrders(store.pool, 0, new Date(Date.now() + 1_000))
      return
    }
    if (one.kind === 'customer' || one.kind === 'rest') {
      const answer =
        one.kind === 'customer'
          ? await post(url, `/orders/${tally.id}/cancel`, buyer.token)
          : await post(url, `/admin/orders/${tally.id}/transitions`, token, { to: one.to })
      assert.ok([200, 409].includes(answer.status), answer.text)
      // The units are known only once no other change of the round is in flight.
      if (answer.status === 200)
        wholes.push({ tally, to: one.kind === 'customer' ? 'cancelled' : one.to, version: JSON.parse(answer.text).version })
      return
    }
    const lines = products.flatMap((product_id, i) => ((one.quantities[i] ?? 0) > 0 ? [{ product_id, quantity: one.quantities[i] }] : []))
    if (lines.length === 0) return
    const body = one.kind === 'returns' ? { lines, restock: one.restock } : { lines }
    const answer = await post(url, `/admin/orders/${tally.id}/${one.kind}`, token, body)
    const isKnown = products.every((_, i) => (one.quantities[i] ?? 0) === 0 || (tally.placed[i] ?? 0) > 0)
    assert.ok([200, 409].includes(answer.status) || (answer.status === 422 && !isKnown), answer.text)
    if (answer.status !== 200) return
    add(tally[COUNTED[one.kind]], one.quantities)
    if (one.kind === 'cancellations' || (one.kind === 'returns' && one.restock)) add(tally.restocked, one.quantities)
  }
  // So that some refunds are accepted, and one is repeated, in whatever script.
  await run({ kind: 'pay', order: 0, process: true })
  await Promise.all([true, false].map((process) => run({ kind: 'refund', order: 0, process, amount: 250, reference: 'r 1' })))
  const wholes: Whole[] = []
  for (const round of rounds) {
    await Promise.all(round.map(run))
    await countExpired(tallies, wholes)
    countWholes(wholes)
  }
  await expireOrders(store.pool, 0, new Date(Date.now() + 1_000))
  await countExpired(tallies, wholes)
  countWholes(wholes)
  return tallies
}

test('stock, totals and lake are in balance whatever parts are shipped, cancelled, returned, amended, charged and refunded by two processes', async () => {
  const played: Tally[] = []
  const prices = [1_000, 250]
  const products: string[][] = []
  const rounds = fc.array(fc.array(step, { minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 6 })
  await fc.assert(
    fc.asyncProperty(rounds, async (script) => {
      const added = await Promise.all(prices.map((amount) => store.addProduct({ stock: INITIAL, amount })))
      const ids = added.map(({ id }) => id)
      const tallies = await play(ids, script)
      const stock = await store.readStock(...added)
      for (const i of [0, 1]) {
        const gone = tallies.reduce((sum, { ordered, restocked }) => sum + (ordered[i] ?? 0) - (restocked[i] ?? 0), 0)
        assert.equal(stock[i], INITIAL - gone, 'stock')
      }
      for (const tally of tallies) {
        const { json } = await store.call('GET', `/admin/orders/${tally.id}`, { token: operator.token })
        assertOrder(json, tally, ids, prices)
        assertRefunds(json, tally)
        played.push(tally)
        products.push(ids)
      }
    }),
    { numRuns: 25, endOnFailure: true },
  )

  await store.untilDelivered(played.reduce((sum, { silent }) => sum + silent, 0))
  const { rows } = await queryFolder(
    store.lake,
    'select order_id, status, version, total_amount, original_amount, to_json(items) from orders',
  )
  for (const [index, tally] of played.entries()) {
    const [, status, , total, original, text] = rows.find(([id]) => id === tally.id) ?? assert.fail(tally.id)
    const items: Item[] = JSON.parse(String(text))
    const shown = { status, items, total: { amount: Number(total) }, original_total: { amount: Number(original) } }
    assertOrder(shown, tally, products[index] ?? [], prices)
  }
  const versions = await queryFolder(
    store.lake,
    'select order_id, version, status, total_amount, shipping_country, to_json(items) from order_events',
  )
  const stored = new Map(
    versions.rows.map(([id, version, status, total, country, items]) => [
      `${id}.${version}`,
      [...[status, total, country].map(String), textOf(JSON.parse(String(items)))],
    ]),
  )
  assert.ok(amended.length > 10 && changes.lines > 5, `${amended.length} amendments, ${changes.lines} of lines`)
  assert.ok(changes.refunds > 5 && changes.refused > 5 && changes.repeated > 0, JSON.stringify(changes))
  const refunds = await queryFolder(store.lake, 'select order_id, sum(amount)::bigint from refunds group by order_id')
  const refunded = new Map(refunds.rows.map(([id, amount]) => [id, Number(amount)]))
  for (const tally of played) assert.equal(refunded.get(tally.id) ?? 0, tally.refunded, `refunds of ${tally.id}`)
  for (const { id, version, status, total, items, shipping_address } of amended) {
    const shown = [status, String(total.amount), String(shipping_address?.country ?? null), textOf(items)]
    assert.deepEqual(stored.get(`${id}.${version}`), shown, `the row of ${id}.${version} is the answer`)
  }
  assert.deepEqual((await store.verify()).findings, [])
  assert.equal((await store.replay()).published, 0, 'replay makes nothing new')

  // What replay makes of the rows is what the change stream has published, whatever was changed since.
  const readEvents = async () =>
    (await store.pool.query<{ event: OrderEvent }>('select event from topic_messages order by id')).rows.map(
      ({ event: { traceparent: _, ...event } }) => event,
    )
  const before = await readEvents()
  assert.ok(before.some(({ type }) => type === 'storefront.order.updated'))
  await stopPipeline()
  const { rowCount } = await store.pool.query(
    `delete from topic_messages where event::jsonb -> 'data' -> 'order' -> 'status_history' -> -1 ? 'change'`,
  )
  assert.equal((await store.replay()).published, rowCount)
  assert.deepEqual(await readEvents(), before)
  assert.deepEqual((await store.verify()).findings, [])
})

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import fc from 'fast-check'
import type { OrderEvent } from '../src/orders/events.ts'
import { expireOrders } from '../src/orders/expire-orders.ts'
import { addBuyers } from './buyers.ts'
import { queryFolder } from './lake-harness.ts'
import { startAuditedStore, summarise } from './pipeline-audit.ts'
import { TEST_SECRET } from './store.ts'
import { serve } from './store-process.ts'

const store = await startAuditedStore({ after }, { maxPendingOrdersPerUser: null })
const env = {
  ...{ DATABASE_URL: store.addresses.api, STOREFRONT_SECRET: TEST_SECRET, DATA_DIR: store.config.dataDir },
  ...{ BASE_URL: 'http://localhost:3000', ROLES: 'api', OPS_PORT: 'off', CUSTOMER_CANCEL: 'confirmed' },
}
const processes = await Promise.all([serve({ after }, { env }), serve({ after }, { env })])
const stopPipeline = await store.startPipeline()
const [[buyer], [operator]] = [await addBuyers(store, 1), await addBuyers(store, 1, 'admin')]
/** Few enough for some amendments to find too little. */
const INITIAL = 16
const CHARGE = 100

type Kind = 'shipments' | 'cancellations' | 'returns'
/** What one of two operators does, each at a process of its own. `order` counts among the orders that there are. */
type Step =
  | { kind: Kind; order: number; process: boolean; quantities: number[]; restock: boolean }
  | { kind: 'rest'; to: 'shipped' | 'cancelled' | 'returned' | 'delivered'; order: number; process: boolean }
  | { kind: 'customer'; order: number; process: boolean }
  | { kind: 'amend'; order: number; process: boolean; name: 'shipping_address' | 'email' | 'parcel'; text: string; parcel: number }
  | { kind: 'lines'; order: number; process: boolean; quantities: number[]; price: 'now' | 'then' }
  | { kind: 'charge'; order: number; process: boolean }
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
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('expire' as const), ...place }) },
)

interface Item {
  product_id: string
  unit_price?: { amount: number }
  unit_price_amount?: number
  quantity: number
  shipped?: number
  cancelled?: number
  returned?: number
}

/** What the accepted changes of an order add up to, by product: counted from the requests, not from the history. */
interface Tally {
  id: string
  placed: number[]
  /** With what amendments have added. */
  ordered: number[]
  charges: number
  shipped: number[]
  cancelled: number[]
  returned: number[]
  restocked: number[]
}

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

/** The lines of an order, of the API or of the lake, as one text. */
const textOf = (items: readonly Item[]) =>
  items
    .map((item) => [
      ...[item.product_id, item.unit_price?.amount ?? item.unit_price_amount, item.quantity],
      ...[item.shipped ?? 0, item.cancelled ?? 0, item.returned ?? 0],
    ])
    .join(' ')

const bodyOf = ({ name, text, parcel }: Extract<Step, { kind: 'amend' }>) =>
  ({
    shipping_address: { shipping_address: { name: 'Ada', line1: '1 Street', city: 'Town', postal_code: '1', country: text } },
    email: { email: `${text}@example.com` },
    parcel: { parcel: { version: parcel, tracking: { carrier: text, number: '1' } } },
  })[name]

/** How often an amendment has moved units. */
const changes = { lines: 0 }

interface Whole {
  tally: Tally
  to: string
  version: number
}

/** Counts what expiry has cancelled: to count it twice changes nothing. */
async function countExpired(tallies: readonly Tally[], wholes: Whole[]): Promise<void> {
  const { rows } = await store.pool.query<{ id: string; version: number }>(
    `select id, version from orders where id = any($1) and status = 'cancelled' and status_history -> -1 -> 'actor' ->> 'type' = 'system'`,
    [tallies.map(({ id }) => id)],
  )
  for (const { id, version } of rows) {
    const tally = tallies.find((each) => each.id === id)
    if (tally !== undefined) wholes.push({ tally, to: 'cancelled', version })
  }
}

/** A whole move takes all units that can make it, and no later change of its kind is possible: what is missing is what it took. */
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

async function post(url: string, path: string, token: string, body: object = {}): Promise<{ status: number; text: string }> {
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` }
  const answer = await fetch(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  return { status: answer.status, text: await answer.text() }
}

async function play(products: string[], rounds: Step[][]): Promise<Tally[]> {
  const token = operator?.token ?? ''
  const tallies: Tally[] = []
  for (const ordered of [
    [5, 4],
    [1, 3],
    [6, 0],
  ]) {
    const items = products.flatMap((product_id, i) => ((ordered[i] ?? 0) > 0 ? [{ product_id, quantity: ordered[i] }] : []))
    const placed = await store.call('POST', '/orders', { token: buyer?.token ?? '', body: { items } })
    assert.equal(placed.status, 201, placed.text)
    const none = () => [0, 0]
    const counts = { ordered: [...ordered], shipped: none(), cancelled: none(), returned: none(), restocked: none() }
    tallies.push({ id: placed.json.id, placed: ordered, charges: 0, ...counts })
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
      assert.equal(due.amount, order.total.amount)
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
      if (answer.status === 200) tally.charges += CHARGE
      return
    }
    if (one.kind === 'expire') {
      await expireOrders(store.pool, 0, new Date(Date.now() + 1_000))
      return
    }
    if (one.kind === 'customer' || one.kind === 'rest') {
      const answer =
        one.kind === 'customer'
          ? await post(url, `/orders/${tally.id}/cancel`, buyer?.token ?? '')
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

test('stock, totals and lake are in balance whatever parts are shipped, cancelled, returned, amended and charged by two processes', async () => {
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
        const { json } = await store.call('GET', `/admin/orders/${tally.id}`, { token: operator?.token ?? '' })
        assertOrder(json, tally, ids, prices)
        played.push(tally)
        products.push(ids)
      }
    }),
    { numRuns: 25, endOnFailure: true },
  )

  await store.untilDelivered(played.reduce((sum, { charges }) => sum + charges / CHARGE, 0))
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
  for (const { id, version, status, total, items, shipping_address } of amended) {
    const shown = [status, String(total.amount), String(shipping_address?.country ?? null), textOf(items)]
    assert.deepEqual(stored.get(`${id}.${version}`), shown, `the row of ${id}.${version} is the answer`)
  }
  assert.deepEqual(summarise(await store.verify()), [])
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
  assert.deepEqual(summarise(await store.verify()), [])
})

interface Shown {
  status: unknown
  items: Item[]
  total: { amount: number }
  original_total: { amount: number }
}

function assertOrder({ status, items, total, original_total }: Shown, tally: Tally, products: string[], prices: number[]): void {
  const sum = (of: (i: number) => number) => [0, 1].reduce((all, i) => all + of(i), 0)
  const [open, held] = [
    sum((i) => (tally.ordered[i] ?? 0) - (tally.shipped[i] ?? 0) - (tally.cancelled[i] ?? 0)),
    sum((i) => (tally.shipped[i] ?? 0) - (tally.returned[i] ?? 0)),
  ]
  for (const item of items) {
    const i = products.indexOf(item.product_id)
    const { shipped = 0, cancelled = 0, returned = 0 } = item
    assert.ok(i !== -1 && shipped + cancelled <= item.quantity && returned <= shipped)
  }
  // A product may have several lines.
  const count = (i: number, of: (item: Item) => number | undefined) =>
    items.reduce((all, item) => all + (item.product_id === products[i] ? (of(item) ?? 0) : 0), 0)
  for (const i of [0, 1])
    assert.deepEqual(
      [
        count(i, (item) => item.quantity),
        count(i, (item) => item.shipped),
        count(i, (item) => item.cancelled),
        count(i, (item) => item.returned),
      ],
      [tally.ordered[i], tally.shipped[i], tally.cancelled[i], tally.returned[i]],
      `${tally.id} ${products[i]}`,
    )
  const shippedAny = tally.shipped.some((count) => count > 0)
  const expected = open > 0 ? ['pending', 'confirmed'] : !shippedAny ? ['cancelled'] : held === 0 ? ['returned'] : ['shipped', 'delivered']
  assert.ok(expected.includes(String(status)), `${status} is none of ${expected}`)
  assert.equal(
    original_total.amount,
    sum((i) => (tally.placed[i] ?? 0) * (prices[i] ?? 0)),
  )
  const kept = tally.charges + sum((i) => ((tally.ordered[i] ?? 0) - (tally.cancelled[i] ?? 0)) * (prices[i] ?? 0))
  // A cancelled order keeps the total that it had before its last lines were cancelled.
  if (status === 'cancelled') assert.ok(total.amount > kept)
  else assert.equal(total.amount, kept)
}

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { addBuyer } from './buyers.ts'
import { untilTaken } from './eventually.ts'
import { startStore, TEST_SECRET } from './store.ts'
import { serve } from './store-process.ts'

const store = await startStore({ after })
const admin = await addBuyer(store, 'admin')
const child = await serve(
  { after },
  {
    args: ['--role', 'api'],
    env: {
      DATABASE_URL: store.addresses.api,
      STOREFRONT_SECRET: TEST_SECRET,
      BASE_URL: store.config.baseUrl,
      DATA_DIR: store.config.dataDir,
    },
  },
)

interface Answer {
  status: number
  headers: { etag?: string | undefined }
  text: string
}
interface Call {
  token?: string | undefined
  body?: object
  raw?: string
  headers?: Record<string, string>
}

/** Sends a request to the store of this process, or to the one that runs in a process of its own. */
const send = (isChild: boolean, method: string, path: string, call: Call = {}) => untilTaken(() => sendOnce(isChild, method, path, call))

async function sendOnce(
  isChild: boolean,
  method: string,
  path: string,
  { token = admin.token, body, raw, headers = {} }: Call,
): Promise<Answer> {
  const text = raw ?? (body === undefined ? undefined : JSON.stringify(body))
  const type: Record<string, string> = text === undefined ? {} : { 'content-type': 'application/json' }
  if (!isChild) {
    const answer = await store.call(method, path, { token, headers: { ...type, ...headers }, ...(text === undefined ? {} : { raw: text }) })
    return answer as Answer
  }
  const answer = await fetch(`${child.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, ...type, ...headers },
    ...(text === undefined ? {} : { body: text }),
  })
  return { status: answer.status, headers: { etag: answer.headers.get('etag') ?? undefined }, text: await answer.text() }
}

interface Product {
  id: string
  sku: string
}

/**
 * What one of several systems does. `order` counts among the orders that there are then; a reference always means the
 * same product.
 */
type Action = { isChild: boolean } & (
  | { kind: 'order'; quantities: number[] }
  | { kind: 'cancel'; order: number }
  | { kind: 'return'; order: number }
  | { kind: 'adjust'; product: number; delta: number; reference: number; isSentTwice: boolean }
  | { kind: 'count'; product: number; stock: number }
  | { kind: 'feed'; deltas: number[]; reference: number; isSentTwice: boolean }
  | { kind: 'count by feed'; product: number; stock: number }
  | { kind: 'rename by feed'; product: number }
)

const PRODUCTS = 3
const isChild = fc.boolean()
const product = fc.nat({ max: PRODUCTS - 1 })
const order = fc.nat({ max: 20 })
const delta = fc.integer({ min: -4, max: 4 }).filter((pieces) => pieces !== 0)
const stock = fc.nat({ max: 12 })
const reference = fc.nat({ max: 5 })
const isSentTwice = fc.boolean()
const kind = <T extends string>(name: T) => fc.constant(name)
const quantities = fc.array(fc.nat({ max: 3 }), { minLength: PRODUCTS, maxLength: PRODUCTS }).filter((all) => all.some((each) => each > 0))
const deltas = fc.array(fc.integer({ min: -4, max: 4 }), { minLength: PRODUCTS, maxLength: PRODUCTS })
const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: kind('order'), isChild, quantities }) },
  { weight: 2, arbitrary: fc.record({ kind: kind('cancel'), isChild, order }) },
  { weight: 2, arbitrary: fc.record({ kind: kind('return'), isChild, order }) },
  { weight: 4, arbitrary: fc.record({ kind: kind('adjust'), isChild, product, delta, reference, isSentTwice }) },
  { weight: 3, arbitrary: fc.record({ kind: kind('count'), isChild, product, stock }) },
  { weight: 3, arbitrary: fc.record({ kind: kind('feed'), isChild, deltas, reference, isSentTwice }) },
  { weight: 1, arbitrary: fc.record({ kind: kind('count by feed'), isChild, product, stock }) },
  { weight: 1, arbitrary: fc.record({ kind: kind('rename by feed'), isChild, product }) },
)

/** What was answered with success, to be compared with what is stored. */
class Played {
  readonly buyerToken: string
  readonly orders: string[] = []
  readonly restocked = new Set<string>()
  /** `<product>/<reference>` → the difference that was booked. */
  readonly booked = new Map<string, number>()
  /** `<product>/<version>` → the number that a count was made of, and its own. */
  readonly counts = new Map<string, { before: number; after: number }>()

  constructor(buyerToken: string) {
    this.buyerToken = buyerToken
  }

  book(productId: string, name: string, pieces: number): void {
    const key = `${productId}/${name}`
    assert.equal(this.booked.get(key) ?? pieces, pieces, 'one reference was booked by two numbers')
    this.booked.set(key, pieces)
  }
}

async function play(products: readonly Product[], rounds: readonly Action[][]): Promise<Played> {
  // An account of its own: the orders that one account can have waiting are limited.
  const buyer = await addBuyer(store)
  const played = new Played(buyer.token)
  for (const round of rounds) await Promise.all(round.map((step) => run(products, played, step)))
  return played
}

async function run(products: readonly Product[], played: Played, step: Action): Promise<void> {
  const { isChild } = step
  const only = products['product' in step ? step.product : 0] as Product
  switch (step.kind) {
    case 'order': {
      const items = products.flatMap(({ id }, i) =>
        (step.quantities[i] ?? 0) > 0 ? [{ product_id: id, quantity: step.quantities[i] }] : [],
      )
      const { status, text } = await send(isChild, 'POST', '/orders', { token: played.buyerToken, body: { items } })
      assert.ok([201, 409].includes(status), text)
      if (status === 201) played.orders.push(JSON.parse(text).id)
      return
    }
    case 'cancel':
      return cancel(played, isChild, step.order)
    case 'return':
      return takeBack(played, isChild, step.order)
    case 'adjust': {
      const body = { delta: step.delta, reference: `R${step.reference}` }
      const book = (inChild: boolean) => send(inChild, 'POST', `/admin/products/${only.id}/stock/adjustments`, { body })
      for (const { status, text } of await Promise.all(step.isSentTwice ? [book(true), book(false)] : [book(isChild)])) {
        assert.ok([200, 201, 409].includes(status), text)
        if (status !== 409) played.book(only.id, body.reference, step.delta)
      }
      return
    }
    case 'count':
      return count(played, isChild, only, step.stock)
    case 'feed': {
      const lines = products.map(({ sku }, i) => line(sku, { stock_delta: step.deltas[i], reference: `R${step.reference}` }))
      const answers = step.isSentTwice ? [feed(true, lines), feed(false, lines)] : [feed(isChild, lines)]
      for (const results of await Promise.all(answers)) {
        for (const [i, result] of results.entries()) {
          const pieces = step.deltas[i] ?? 0
          if (result.error === undefined && pieces !== 0) played.book(products[i]?.id ?? '', `R${step.reference}`, pieces)
          if (result.error !== undefined) assert.match(result.error, /^(stock_delta would leave less|reference was booked before)/)
        }
      }
      return
    }
    case 'count by feed':
      return assert.equal((await feed(isChild, [line(only.sku, { stock: step.stock })]))[0]?.error, undefined)
    case 'rename by feed':
      return assert.equal((await feed(isChild, [line(only.sku, { name: `A lamp ${randomUUID()}` })]))[0]?.error, undefined)
  }
}

const line = (sku: string, changes: object) => ({
  sku,
  name: 'A lamp',
  category: 'lamps',
  price: { amount: 1, currency: 'EUR' },
  ...changes,
})

async function feed(isChild: boolean, lines: readonly object[]): Promise<{ error?: string }[]> {
  const raw = lines.map((each) => `${JSON.stringify(each)}\n`).join('')
  const { status, text } = await send(isChild, 'POST', '/admin/products/import', {
    raw,
    headers: { 'content-type': 'application/x-ndjson' },
  })
  assert.equal(status, 200, text)
  const results = text.trim().split('\n')
  assert.equal(results.length, lines.length + 1, text)
  return results.slice(0, -1).map((result) => JSON.parse(result))
}

async function cancel(played: Played, isChild: boolean, at: number): Promise<void> {
  const id = played.orders[at % Math.max(1, played.orders.length)]
  if (id === undefined) return
  const { status, text } = await send(isChild, 'POST', `/orders/${id}/cancel`, { token: played.buyerToken })
  assert.ok([200, 409].includes(status), text)
}

async function takeBack(played: Played, isChild: boolean, at: number): Promise<void> {
  const id = played.orders[at % Math.max(1, played.orders.length)]
  if (id === undefined) return
  for (const to of ['confirmed', 'shipped', 'returned']) {
    const body = to === 'returned' ? { to, restock: true } : { to }
    const { status, text } = await send(isChild, 'POST', `/admin/orders/${id}/transitions`, { body })
    assert.ok([200, 409].includes(status), text)
    if (to === 'returned' && status === 200) played.restocked.add(id)
  }
}

/** Counts until nothing came between reading and writing, as a person with a list would. */
async function count(played: Played, isChild: boolean, { id }: Product, stock: number): Promise<void> {
  for (;;) {
    const read = await send(!isChild, 'GET', `/admin/products/${id}/stock`)
    const { available, version } = JSON.parse(read.text)
    const headers = { 'if-match': read.headers.etag ?? '' }
    const { status, text } = await send(isChild, 'PUT', `/admin/products/${id}/stock`, { body: { stock }, headers })
    if (status === 412) continue
    assert.equal(status, 200, text)
    if (available !== stock) played.counts.set(`${id}/${version + 1}`, { before: available, after: stock })
    return
  }
}

async function addProducts(initial: readonly number[]): Promise<Product[]> {
  return Promise.all(
    initial.map(async (pieces) => {
      const sku = `LAMP-${randomUUID()}`
      const { status, text } = await send(false, 'POST', '/admin/products', { body: line(sku, { stock: pieces }) })
      assert.equal(status, 201, text)
      return { id: JSON.parse(text).id, sku }
    }),
  )
}

interface Kept {
  version: number
  kind: string
  available_before: number | null
  available_after: number
  delta: number | null
  reference: string | null
}

/** Verifies one product's history by itself and against the answers. Returns by how many units it changed the stock. */
function checkHistory(id: string, initial: number, kept: readonly Kept[], played: Played): number {
  const [first, ...changes] = kept
  assert.deepEqual([first?.kind, first?.version, first?.available_before, first?.available_after], ['created', 1, null, initial])
  for (const [i, { version, available_before, available_after, delta: pieces }] of changes.entries()) {
    const earlier = kept[i] as Kept
    assert.equal(pieces, available_after - (available_before ?? Number.NaN))
    assert.ok(available_after >= 0 && (available_before ?? -1) >= 0)
    if (version === earlier.version + 1) assert.equal(available_before, earlier.available_after, 'nothing happened in between')
  }
  const booked = changes.filter((change) => change.reference !== null).map((change) => [`${id}/${change.reference}`, change.delta])
  assert.deepEqual(new Map(booked as [string, number][]), new Map([...played.booked].filter(([key]) => key.startsWith(id))))
  assert.equal(new Set(booked.map(([key]) => key)).size, booked.length, 'a reference was booked twice')
  const counts = changes.filter((change) => change.kind === 'count')
  assert.deepEqual(
    new Map(
      counts.map(({ version, available_before, available_after }) => [
        `${id}/${version}`,
        { before: available_before, after: available_after },
      ]),
    ),
    new Map([...played.counts].filter(([key]) => key.startsWith(id))),
    'a count was made of a number that had changed',
  )
  return changes.reduce((sum, change) => sum + (change.delta ?? Number.NaN), 0)
}

test('conserves stock under orders, cancels and returns against adjustments, counts and feeds, from two processes', async () => {
  const stocks = fc.array(fc.nat({ max: 12 }), { minLength: PRODUCTS, maxLength: PRODUCTS })
  const rounds = fc.array(fc.array(action, { minLength: 2, maxLength: 10 }), { minLength: 1, maxLength: 6 })
  await fc.assert(
    fc.asyncProperty(stocks, rounds, async (initial, script) => {
      const products = await addProducts(initial)
      const played = await play(products, script)
      const { rows: orders } = await store.pool.query<{ id: string; status: string; items: { product_id: string; quantity: number }[] }>(
        'select id, status, items from orders where id = any($1)',
        [played.orders],
      )
      const gone = orders.filter(({ id, status }) => status !== 'cancelled' && !played.restocked.has(id)).flatMap(({ items }) => items)
      for (const [i, { id }] of products.entries()) {
        const { rows: kept } = await store.pool.query<Kept>(
          `select version, kind, available_before, available_after, delta, reference
          from stock_adjustments
          where product_id = $1
          order by version`,
          [id],
        )
        const { rows: levels } = await store.pool.query<{ available: number; version: number; in_stock: boolean }>(
          'select available, version, in_stock from products join inventory on product_id = id where id = $1',
          [id],
        )
        const [level] = levels
        const adjusted = checkHistory(id, initial[i] ?? Number.NaN, kept, played)
        const sold = gone.filter(({ product_id }) => product_id === id).reduce((sum, { quantity }) => sum + quantity, 0)
        assert.equal(level?.available, (initial[i] ?? Number.NaN) + adjusted - sold, 'initial + adjusted - sold and not given back')
        assert.ok((level?.version ?? 0) >= (kept.at(-1)?.version ?? Number.NaN))
        assert.equal(level?.in_stock, (level?.available ?? -1) > 0)
      }
    }),
    { numRuns: 20, endOnFailure: true },
  )
})

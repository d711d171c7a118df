import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { after, test } from 'node:test'
import { assertProblem, faults } from '../../../test/problem.ts'
import { startStore } from '../../../test/store.ts'

const store = await startStore({ after })
const ada = await store.register()

interface Line {
  product_id: string
  quantity: number
}
const order = (items: Line[], more: object = {}) => store.call('POST', '/orders', { token: ada.token, body: { items, ...more } })
const line = (product: { id: string }, quantity = 1): Line => ({ product_id: product.id, quantity })

async function countOrders(): Promise<number> {
  const { rows } = await store.pool.query<{ count: number }>('select count(*) from orders')
  return rows[0]?.count ?? -1
}

test('copies names, categories and prices from the catalogue into the order', async () => {
  const startedAt = Date.now()
  const lamp = await store.addProduct({ name: 'L\u00e1mp \u{1f986}', amount: 1_999, stock: 5 })
  const free = await store.addProduct({ name: 'Sticker', amount: 0, stock: null })
  const shipping_address = { name: 'Ada', line1: '1 St', line2: null, city: 'London', postal_code: 'SW1', country: 'GB' }
  const more = { client_reference: 'PO 7', note: 'ring twice', shipping_address }
  const placed = await order([line(lamp, 2), line(free, 3)], more)
  assert.equal(placed.status, 201, placed.text)

  const { id, number, created_at, ...rest } = placed.json
  assert.match(created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  assert.ok(Date.parse(created_at) >= startedAt && Date.parse(created_at) <= Date.now())
  assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  assert.match(number, /^\d+$/)
  assert.equal(placed.headers.location, `http://localhost:3000/orders/${id}`)
  assert.equal(placed.headers['cache-control'], 'no-store')
  const item = (product: typeof lamp, quantity: number) => ({
    product_id: product.id,
    sku: product.sku,
    name: product.name,
    category: 'lamps',
    unit_price: { amount: product.amount, currency: 'EUR' },
    quantity,
    total: { amount: product.amount * quantity, currency: 'EUR' },
  })
  assert.deepEqual(rest, {
    status: 'pending',
    allowed_transitions: ['confirmed', 'cancelled'],
    items: [item(lamp, 2), item(free, 3)],
    total: { amount: 3_998, currency: 'EUR' },
    ...more,
    version: 1,
    updated_at: created_at,
    status_history: [{ status: 'pending', at: created_at, actor: { type: 'customer', id: ada.id }, reason: null }],
    original_total: { amount: 3_998, currency: 'EUR' },
    adjustments: [],
    payment: null,
    refunded: { amount: 0, currency: 'EUR' },
    parcels: [],
  })
  const { rows } = await store.pool.query('select user_id, total_amount, currency, status, version from orders where id = $1', [id])
  assert.deepEqual(rows, [{ user_id: ada.id, total_amount: 3_998, currency: 'EUR', status: 'pending', version: 1 }])
  assert.deepEqual(await store.readStock(lamp, free), [3, null])

  await store.pool.query(`update products set name = 'other', price_amount = 1 where id = $1`, [lamp.id])
  const { timeline: _, ...read } = (await store.call('GET', `/orders/${id}`, { token: ada.token })).json
  assert.deepEqual(read, placed.json, 'the catalogue changes, the order does not')
})

test('keeps the trace of the request that placed the order', async () => {
  const lamp = await store.addProduct()
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  const traced = await store.call('POST', '/orders', { token: ada.token, body: { items: [line(lamp)] }, headers: { traceparent } })
  const hostile = await store.call('POST', '/orders', { token: ada.token, body: { items: [line(lamp)] }, headers: { traceparent: "'--" } })
  const { rows } = await store.pool.query('select traceparent from orders where id = any($1) order by id', [
    [traced.json.id, hostile.json.id],
  ])
  assert.equal(rows[0].traceparent, traceparent)
  assert.match(rows[1].traceparent, /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/)
})

test('places no order for a truncated body', async () => {
  const lamp = await store.addProduct({ stock: 5 })
  const before = await countOrders()
  const { port } = store
  const body = JSON.stringify({ items: [line(lamp)] })
  const head = `POST /orders HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${ada.token}\r\ncontent-type: application/json\r\n`
  const send = (message: string, isLast = true) => {
    const socket = connect(port, '127.0.0.1')
    socket.write(message)
    if (isLast) socket.end()
    return text(socket)
  }
  // The body lacks only the padding after its complete JSON, or its chunks break off.
  const broken = [
    `${head}content-length: ${body.length}\r\n\r\n${body.slice(0, -5)}`,
    `${head}content-length: ${body.length + 5}\r\n\r\n${body}`,
    `${head}transfer-encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n`,
  ]
  for (const message of broken) assert.doesNotMatch(await send(message), /^HTTP\/1.1 2/, message)
  assert.match(await send(`${head}connection: close\r\ncontent-length: ${body.length}\r\n\r\n${body}`, false), /^HTTP\/1.1 201/)
  assert.equal(await countOrders(), before + 1)
})

test('merges the lines of a product in any spelling of its id', async () => {
  const [lamp, vase] = [await store.addProduct({ stock: 10, amount: 3 }), await store.addProduct({ stock: 10, amount: 5 })]
  const placed = await order([line(lamp, 1), line(vase, 2), line({ id: lamp.id.toUpperCase() }, 4)])
  assert.equal(placed.status, 201, placed.text)
  assert.deepEqual(
    placed.json.items.map((item: Line & { total: { amount: number } }) => [item.product_id, item.quantity, item.total.amount]),
    [
      [lamp.id, 5, 15],
      [vase.id, 2, 10],
    ],
  )
  assert.deepEqual(await store.readStock(lamp, vase), [5, 8])
})

test('refuses lines of a product that add up to more than 10,000', async () => {
  const lamp = await store.addProduct({ stock: null })
  assert.equal((await order([line(lamp, 9_999), line(lamp, 1)])).status, 201)
  const answer = await order([line(lamp, 9_999), line(lamp, 1), line({ id: lamp.id.toUpperCase() }, 1)])
  assert.deepEqual(faults(assertProblem(answer, 422, 'invalid_body')), ['#/items/2/quantity'])
})

test('accepts a thousand products, and no further product or line', async () => {
  const { rows: products } = await store.pool.query<{ id: string }>(
    `with added as (
      insert into products (id, sku, name, category, price_amount, price_currency, in_stock)
      select gen_random_uuid(), 'BULK-' || n, 'Bulk', 'bulk', 100, 'EUR', true from generate_series(1, 1001) as n
      returning id
    )
    insert into inventory (product_id, available) select id, 5 from added returning product_id as id`,
  )
  const before = await countOrders()
  const tooMany = await order(products.map((product) => line(product)))
  assert.deepEqual(faults(assertProblem(tooMany, 422, 'invalid_body')), ['#/items'])
  assert.equal(await countOrders(), before)

  const thousand = products.slice(0, 1_000)
  const tooManyLines = await order([...thousand, ...thousand.slice(0, 1)].map((product) => line(product)))
  assert.deepEqual(faults(assertProblem(tooManyLines, 422, 'invalid_body')), ['#/items'])
  const placed = await order(thousand.map((product) => line(product)))
  assert.equal(placed.status, 201, placed.text.slice(0, 300))
  assert.deepEqual(
    placed.json.items.map((item: Line) => item.product_id),
    thousand.map(({ id }) => id),
    'in the order they were named',
  )
  assert.equal(placed.json.total.amount, 100_000)
  const { rows } = await store.pool.query(`select available, count(*) from inventory where product_id = any($1) group by 1 order by 1`, [
    products.map(({ id }) => id),
  ])
  assert.deepEqual(rows, [
    { available: 4, count: 1_000 },
    { available: 5, count: 1 },
  ])
})

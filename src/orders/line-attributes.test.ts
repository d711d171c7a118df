import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { addBuyer } from '../../test/buyers.ts'
import { createGuest } from '../../test/guests.ts'
import { assertProblem } from '../../test/problem.ts'
import { startStore } from '../../test/store.ts'

const store = await startStore({ after }, { duplicateOrderSeconds: 60, maxQuantityPerProductAndUser: 9 })
const [{ token }, operator] = [await store.register(), await addBuyer(store, 'admin')]

const ANNA = { engraving: 'Anna', font: 'serif' }
const BERT = { engraving: 'Bert', font: 'serif' }

type Line = Record<string, unknown>
const post = (path: string, body: object, headers: Record<string, string> = {}, by = token) =>
  store.call('POST', path, { token: by, body, headers })
const byOperator = (id: string, path: string, body: object) => post(`/admin/orders/${id}/${path}`, body, {}, operator.token)
const linesOf = (items: Line[], ...names: string[]) => items.map((item) => ['quantity', 'attributes', ...names].map((name) => item[name]))
const pointersOf = (errors: { pointer?: string }[] = []) => errors.map(({ pointer }) => pointer)
const stored = async (id: string) =>
  (await store.pool.query('select items, item_attributes, product_ids from orders where id = $1', [id])).rows[0]

/** An order of two rings for Anna, one for Bert, and one without an engraving. */
async function placeRings(...moves: string[]) {
  const ring = await store.addProduct({ stock: 20, amount: 1_000, name: 'Ring' })
  const items = [
    { product_id: ring.id, quantity: 2, attributes: ANNA },
    { product_id: ring.id, quantity: 1, attributes: BERT },
    { product_id: ring.id, quantity: 1 },
  ]
  const placed = await post('/orders', { items })
  assert.equal(placed.status, 201, placed.text)
  for (const to of moves) assert.equal((await byOperator(placed.json.id, 'transitions', { to })).status, 200)
  return { id: placed.json.id as string, ring, items, placed }
}

test('lines of one product are merged only if their attributes are equal, and keep their sequence in every answer', async () => {
  const [ring, pot] = [await store.addProduct({ stock: 20, amount: 1_000 }), await store.addProduct({ stock: 9, amount: 500 })]
  const items = [
    { product_id: ring.id, quantity: 1, attributes: ANNA },
    { product_id: pot.id, quantity: 1 },
    { product_id: ring.id.toUpperCase(), quantity: 1, attributes: BERT },
    { product_id: ring.id, quantity: 2, attributes: { font: 'serif', engraving: 'Anna' } },
    { product_id: pot.id, quantity: 1, attributes: {} },
  ]
  const lines = [
    [3, ANNA],
    [2, undefined],
    [1, BERT],
  ]
  const quote = await post('/orders/quote', { items })
  assert.deepEqual(linesOf(quote.json.items), lines, quote.text)

  const headers = { 'idempotency-key': 'rings' }
  const placed = await post('/orders', { items }, headers)
  assert.equal(placed.status, 201, placed.text)
  const { id } = placed.json
  assert.deepEqual([linesOf(placed.json.items), placed.json.total.amount], [lines, 5_000])
  assert.deepEqual(await store.readStock(ring, pot), [16, 7])
  const { items: row, item_attributes, product_ids } = await stored(id)
  assert.deepEqual(item_attributes, [ANNA, null, BERT])
  assert.doesNotMatch(JSON.stringify(row), /Anna|Bert|attributes/, 'the lines of the row have nothing personal')
  assert.deepEqual(product_ids.toSorted(), [ring.id, pot.id].toSorted())
  for (const path of [`/orders/${id}`, '/orders', `/admin/orders/${id}`, '/admin/orders']) {
    const { json } = await store.call('GET', path, { token: path.startsWith('/admin') ? operator.token : token })
    assert.deepEqual(linesOf((json.data?.[0] ?? json).items), lines, path)
  }
  const exported = await store.call('GET', '/me/export', { token })
  assert.deepEqual(linesOf(exported.json.orders[0].items), lines)

  const retry = await post('/orders', { items }, headers)
  assert.deepEqual([retry.text, retry.headers['idempotency-replayed']], [placed.text, 'true'])
  const other = items.map((item, index) => (index === 2 ? { ...item, attributes: { ...BERT, font: 'sans' } } : item))
  assertProblem(await post('/orders', { items: other }, headers), 422, 'idempotency_key_reused')
  assertProblem(await post('/orders', { items }), 409, 'probably_placed_already')
  assert.equal((await post('/orders', { items: other })).status, 201, 'another engraving is another order')
})

test('an order without attributes of its lines is stored and shown as before', async () => {
  const ring = await store.addProduct({ stock: 20 })
  const placed = await post('/orders', {
    items: [
      { product_id: ring.id, quantity: 1, attributes: {} },
      { product_id: ring.id, quantity: 2 },
    ],
  })
  assert.deepEqual(linesOf(placed.json.items), [[3, undefined]])
  assert.doesNotMatch(placed.text, /attributes/)
  assert.equal((await stored(placed.json.id)).item_attributes, null)
})

test('stock, limits and their pointers stay by product', async () => {
  const ring = await store.addProduct({ stock: 3 })
  const items = [ANNA, BERT].map((attributes) => ({ product_id: ring.id, quantity: 2, attributes }))
  const short = assertProblem(await post('/orders', { items }), 409, 'insufficient_stock')
  assert.deepEqual(short.shortages, [{ product_id: ring.id, requested: 4, available: 3 }])
  assert.deepEqual(pointersOf(short.errors), ['#/items/0/quantity'])
  const quote = await post('/orders/quote', { items })
  assert.deepEqual(quote.json.shortages, [{ product_id: ring.id, requested: 4, available: 3 }])

  const pot = await store.addProduct({ stock: 50 })
  const many = [ANNA, BERT].map((attributes) => ({ product_id: pot.id, quantity: 5, attributes }))
  const limits = assertProblem(await post('/orders', { items: many }), 409, 'purchase_limit').limits
  assert.deepEqual(limits, [{ product_id: pot.id, requested: 10, bought: 0, limit: 9 }])
  const expected = await post('/orders', { items, expected_total: { amount: 1, currency: 'EUR' } })
  assert.deepEqual(linesOf(assertProblem(expected, 409, 'price_changed').items as Line[]), [
    [2, ANNA],
    [2, BERT],
  ])
})

test('the attributes of a line have the bounds of those of an order, and all lines together at most 8,192 bytes', async () => {
  const ring = await store.addProduct({ stock: null })
  const line = (attributes: unknown) => ({ product_id: ring.id, quantity: 1, attributes })
  const of = (bytes: number, name: string) => ({
    ...Object.fromEntries([...'abcdefgh'].map((key) => [key, name.repeat(490)])),
    z: name.repeat(bytes - 3_984),
  })
  assert.equal(Buffer.byteLength(JSON.stringify(of(4_096, 'x'))), 4_096)
  const whole = [line(of(4_096, 'x')), line(of(4_096, 'y'))]
  for (const wrong of [{ engraving: ['Anna'] }, { '1': 'x' }, of(4_097, 'x')]) {
    const problem = assertProblem(await post('/orders', { items: [line(wrong)] }), 422, 'invalid_body')
    assert.match(JSON.stringify(problem.errors), /#\/items\/0\/attributes/)
  }
  for (const path of ['/orders', '/orders/quote']) {
    const { errors } = assertProblem(await post(path, { items: [...whole, line({ a: 1 })] }), 422, 'invalid_body')
    assert.deepEqual(pointersOf(errors), ['#/items'])
  }
  assert.equal((await post('/orders', { items: [...whole, line(of(4_096, 'x'))] })).status, 201, 'equal attributes count once')
})

test('a guest and an operator place lines with attributes, and a guest holds the units of a product once', async () => {
  const ring = await store.addProduct({ stock: 20 })
  const items = [ANNA, BERT].map((attributes) => ({ product_id: ring.id, quantity: 1, attributes }))
  const guest = await createGuest(store, 'guest@example.com')
  const placed = await post('/orders', { items }, {}, guest.token)
  assert.equal(placed.status, 201, placed.text)
  const holds = await store.pool.query('select quantity from guest_holds where order_id = $1', [placed.json.id])
  assert.deepEqual(holds.rows, [{ quantity: 2 }])
  const byPhone = await post('/admin/orders', { email: 'phone@example.com', items }, { 'idempotency-key': 'phone' }, operator.token)
  assert.deepEqual(
    linesOf(byPhone.json.items),
    [
      [1, ANNA],
      [1, BERT],
    ],
    byPhone.text,
  )
  const again = await post('/admin/orders', { email: 'phone@example.com', items }, { 'idempotency-key': 'phone' }, operator.token)
  assert.equal(again.text, byPhone.text)
})

test('a shipment, a cancellation, a return and a refund name the line that they are for', async () => {
  const { id, ring } = await placeRings('confirmed')
  const part = (line: number, quantity = 1) => ({ product_id: ring.id, quantity, line })
  const states = ({ items }: { items: Line[] }) =>
    linesOf(items, 'shipped', 'cancelled', 'returned').map(([, , ...counts]) => counts.map((count) => count ?? 0))

  const shipped = await byOperator(id, 'shipments', { lines: [part(1)], reference: 'for-bert' })
  assert.equal(shipped.status, 200, shipped.text)
  assert.deepEqual(states(shipped.json), [
    [0, 0, 0],
    [1, 0, 0],
    [0, 0, 0],
  ])
  assert.deepEqual(shipped.json.parcels[0].lines, [{ product_id: ring.id, quantity: 1, line: 1 }])
  assert.deepEqual(shipped.json.status_history.at(-1).change, { type: 'shipped', lines: [part(1)] })
  const repeated = await byOperator(id, 'shipments', { lines: [part(1)], reference: 'for-bert' })
  assert.deepEqual([repeated.status, repeated.json.version], [200, shipped.json.version])
  assertProblem(await byOperator(id, 'shipments', { lines: [part(0)], reference: 'for-bert' }), 409, 'change_reference_taken')
  const exceeded = assertProblem(await byOperator(id, 'shipments', { lines: [part(1)] }), 409, 'quantity_exceeded').exceeded
  assert.deepEqual(exceeded, [{ product_id: ring.id, line: 1, requested: 1, available: 0 }])

  const cancelled = await byOperator(id, 'cancellations', { lines: [part(2)] })
  assert.deepEqual([states(cancelled.json)[2]?.[1], cancelled.json.total.amount], [1, 3_000], cancelled.text)
  // Units without a line are those of the first line on.
  const rest = await byOperator(id, 'shipments', { lines: [{ product_id: ring.id, quantity: 2 }] })
  assert.deepEqual(
    states(rest.json).map(([count]) => count),
    [2, 1, 0],
  )
  const back = await byOperator(id, 'returns', { lines: [part(1)], restock: true })
  assert.deepEqual(
    states(back.json).map(([, , count]) => count),
    [0, 1, 0],
    back.text,
  )
  assertProblem(await byOperator(id, 'returns', { lines: [part(1)], restock: true }), 409, 'quantity_exceeded')
  assert.deepEqual(await store.readStock(ring), [18])
  assert.equal(back.json.status, 'shipped')

  await store.call('PUT', `/admin/orders/${id}/payment`, {
    token: operator.token,
    body: { provider: 'stripe', reference: 'pi_1', state: 'paid' },
  })
  const refund = { amount: { amount: 1_000, currency: 'EUR' }, reference: 're-1', lines: [part(1)] }
  const refunded = await byOperator(id, 'refunds', refund)
  assert.deepEqual(refunded.json.status_history.at(-1).change.refund.lines, [{ product_id: ring.id, line: 1, quantity: 1 }], refunded.text)
  assert.equal((await byOperator(id, 'refunds', refund)).headers['idempotency-replayed'], 'true')
  for (const lines of [[part(1, 2)], [part(9)], [{ product_id: ring.id, line: 1 }]])
    assertProblem(await byOperator(id, 'refunds', { ...refund, reference: 're-2', lines }), 422, 'invalid_body')
})

test('a part that names a line of another product, no line, or one line twice is refused', async () => {
  const { id, ring } = await placeRings('confirmed')
  const wrong = [
    [[{ product_id: ring.id, quantity: 1, line: 3 }], '#/lines/0/line'],
    [
      [
        { product_id: ring.id, quantity: 1, line: 0 },
        { product_id: ring.id, quantity: 1, line: 0 },
      ],
      '#/lines/1/product_id',
    ],
    [
      [
        { product_id: ring.id, quantity: 1, line: 0 },
        { product_id: ring.id, quantity: 1 },
      ],
      '#/lines/1/product_id',
    ],
    [
      [
        { product_id: ring.id, quantity: 1 },
        { product_id: ring.id, quantity: 1, line: 0 },
      ],
      '#/lines/1/product_id',
    ],
  ] as const
  for (const [lines, at] of wrong) {
    const { errors } = assertProblem(await byOperator(id, 'shipments', { lines }), 422, 'invalid_body')
    assert.deepEqual(pointersOf(errors), [at])
  }
  const both = [1, 0].map((line) => ({ product_id: ring.id, quantity: 1, line }))
  const shipped = await byOperator(id, 'shipments', { lines: both })
  assert.deepEqual(shipped.json.parcels[0].lines, both.toReversed(), 'in the sequence of the order')
})

test('the database refuses a change that names a line of another product, or more units than the line has', async () => {
  const { id, ring } = await placeRings('confirmed')
  const entry = (line: number | string, quantity: number, productId = ring.id) =>
    JSON.stringify([
      { status: 'confirmed', at: '2026-03-01T10:00:00Z', change: { type: 'shipped', lines: [{ product_id: productId, quantity, line }] } },
    ])
  const write = (change: string) =>
    store.pool.query('update orders set status_history = status_history || $2::jsonb, version = version + 1 where id = $1', [id, change])
  const other = await store.addProduct()
  for (const change of [entry(1, 2), entry(3, 1), entry(-1, 1), entry('x', 1), entry(0.5, 1), entry(0, 1, other.id)])
    await assert.rejects(write(change), { code: '23514' }, change)
  await write(entry(1, 1))
})

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { addBuyer } from '../../test/buyers.ts'
import { assertProblem, faults } from '../../test/problem.ts'
import { startSecondProcess, startStore } from '../../test/store.ts'
import type { ErrorCode } from '../errors.ts'

const store = await startStore({ after }, { maxQuantityPerProductAndUser: 8 })
const other = await startSecondProcess({ after }, store, { maxQuantityPerProductAndUser: 8 })
const { token } = await addBuyer(store, 'admin')
const EUR = (amount: number) => ({ amount, currency: 'EUR' })

const amend = (id: string, body: unknown, headers: Record<string, string> = {}, query = '', by: Pick<typeof store, 'call'> = store) =>
  by.call('POST', `/admin/orders/${id}/amendments${query}`, { token, body, headers })
const admin = (id: string, path: string, body: object, by: Pick<typeof store, 'call'> = store) =>
  by.call('POST', `/admin/orders/${id}/${path}`, { token, body })
const row = async (id: string) =>
  (await store.pool.query('select version, status, items, product_ids, total_amount, status_history from orders where id = $1', [id]))
    .rows[0]

/** Places an order of two lamps at 10.00 and a pot at 5.00. The stock has 10 of each, and 10 mugs at 7.00. */
async function place(...moves: string[]) {
  const buyer = await store.register()
  const [lamp, pot, mug] = await Promise.all([1_000, 500, 700].map((amount) => store.addProduct({ stock: 10, amount })))
  assert.ok(lamp && pot && mug)
  const items = [
    { product_id: lamp.id, quantity: 2 },
    { product_id: pot.id, quantity: 1 },
  ]
  const { json, text } = await store.call('POST', '/orders', { token: buyer.token, body: { items } })
  assert.ok(json.id, text)
  for (const to of moves) assert.equal((await admin(json.id, 'transitions', { to })).status, 200)
  return { id: json.id as string, buyer, lamp, pot, mug, stock: () => store.readStock(lamp, pot, mug) }
}

test('one version adds units at the current or the earlier price and removes others; stock, total and amount due follow', async () => {
  const { id, buyer, lamp, pot, mug, stock } = await place()
  assert.equal(
    (await store.call('PUT', `/admin/orders/${id}/payment`, { token, body: { provider: 'p', reference: '1', state: 'paid' } })).status,
    200,
  )
  const raised = await store.call('PATCH', `/admin/products/${lamp.id}`, {
    token,
    body: { price: EUR(1_200) },
    headers: { 'if-match': '*' },
  })
  assert.equal(raised.status, 200, raised.text)
  const lines = [
    { product_id: lamp.id.toUpperCase(), quantity: 3, price: 'then' },
    { product_id: pot.id, quantity: 0 },
    { product_id: mug.id, quantity: 2 },
  ]
  const previewed = await amend(id, { lines }, {}, '?preview=true')
  assert.equal(previewed.status, 200, previewed.text)
  assert.deepEqual(await stock(), [8, 9, 10])
  const { json, text } = await amend(id, { lines, reference: 'call-1' }, { 'if-match': '"2"' })
  assert.ok(json.order, text)
  const [amount, moved] = [
    EUR(1_000 - 500 + 1_400),
    [pot.id, lamp.id, mug.id].map((product_id, i) => ({ product_id, quantity: [1, -1, -2][i] })),
  ]
  for (const each of [previewed.json, json])
    assert.deepEqual([each.amount, each.due, each.stock, each.mails], [amount, amount, moved, [{ kind: 'amended', to: 'customer' }]])
  const { order } = json
  assert.deepEqual([order.total, order.original_total, order.version, order.status], [EUR(4_400), EUR(2_500), 3, 'pending'])
  const shown = order.items.map(({ product_id, quantity, unit_price, cancelled }: Record<string, unknown>) => [
    product_id,
    quantity,
    unit_price,
    cancelled,
  ])
  assert.deepEqual(shown, [
    [lamp.id, 2, EUR(1_000), undefined],
    [pot.id, 1, EUR(500), 1],
    [lamp.id, 1, EUR(1_000), undefined],
    [mug.id, 2, EUR(700), undefined],
  ])
  assert.deepEqual(await stock(), [7, 10, 8])
  const stored = await row(id)
  assert.deepEqual(
    [stored.items.length, Number(stored.total_amount), stored.product_ids.toSorted()],
    [2, 2_500, [lamp.id, pot.id, mug.id].sort()],
  )
  const own = await store.call('GET', `/orders/${id}`, { token: buyer.token })
  assert.deepEqual([own.json.items, own.json.total], [order.items, order.total])
  const found = await store.call('GET', `/admin/orders?product_id=${mug.id}`, { token })
  assert.deepEqual(
    found.json.data.map((each: { id: string }) => each.id),
    [id],
  )
  // The lamps that were added last are removed first.
  const now = await amend(id, { lines: [{ product_id: lamp.id, quantity: 4 }] })
  assert.deepEqual([now.json.amount, now.json.order.total], [EUR(1_200), EUR(5_600)], now.text)
  const back = await amend(id, { lines: [{ product_id: lamp.id, quantity: 2 }] })
  assert.deepEqual([back.json.amount, back.json.order.total, back.json.due], [EUR(-2_200), EUR(3_400), EUR(900)])
  assert.deepEqual(await stock(), [8, 10, 8])
})

test('an amended order is shipped, cancelled and returned with its amended lines', async () => {
  const { id, lamp, pot, mug, stock } = await place('confirmed')
  assert.equal(
    (
      await amend(id, {
        lines: [
          { product_id: mug.id, quantity: 2 },
          { product_id: pot.id, quantity: 0 },
        ],
      })
    ).status,
    200,
  )
  const shipped = await admin(id, 'shipments', { lines: [{ product_id: mug.id, quantity: 1 }] })
  assert.equal(shipped.status, 200, shipped.text)
  const late = assertProblem(
    await amend(id, {
      lines: [
        { product_id: lamp.id, quantity: 1 },
        { product_id: mug.id, quantity: 0 },
      ],
    }),
    409,
    'too_late_to_amend',
  )
  assert.deepEqual([faults(late), late.current_status], [['#/lines/1/quantity'], 'confirmed'])
  const none = assertProblem(
    await amend(id, {
      lines: [
        { product_id: lamp.id, quantity: 0 },
        { product_id: mug.id, quantity: 1 },
      ],
    }),
    409,
    'illegal_transition',
  )
  assert.deepEqual(none.current_status, 'confirmed')
  assert.equal((await amend(id, { lines: [{ product_id: mug.id, quantity: 1 }] })).status, 200)
  const rest = await admin(id, 'transitions', { to: 'shipped' })
  assert.deepEqual([rest.json.status, rest.json.total], ['shipped', EUR(2_700)], rest.text)
  assertProblem(await amend(id, { lines: [{ product_id: mug.id, quantity: 2 }] }), 409, 'too_late_to_amend')
  const returned = await admin(id, 'transitions', { to: 'returned', restock: true })
  assert.equal(returned.json.status, 'returned', returned.text)
  assert.deepEqual(await stock(), [10, 10, 10])

  const second = await place()
  assert.equal(
    (
      await amend(second.id, {
        lines: [
          { product_id: second.mug.id, quantity: 3 },
          { product_id: second.lamp.id, quantity: 0 },
        ],
      })
    ).status,
    200,
  )
  assert.equal((await admin(second.id, 'transitions', { to: 'cancelled' })).json.status, 'cancelled')
  assert.deepEqual(await second.stock(), [10, 10, 10])
  assertProblem(await amend(second.id, { lines: [{ product_id: second.mug.id, quantity: 2 }] }), 409, 'too_late_to_amend')
})

test('refuses lines that cannot be added and points to each, and changes nothing', async () => {
  const { id, lamp, pot, mug, stock } = await place()
  const dear = await store.addProduct({ stock: 5, amount: Number.MAX_SAFE_INTEGER })
  const foreign = await store.addProduct({ stock: 5, amount: 300, currency: 'USD' })
  const archived = await store.addProduct({ stock: 5 })
  assert.equal((await store.call('DELETE', `/admin/products/${archived.id}`, { token, headers: { 'if-match': '*' } })).status, 204)
  const few = await store.addProduct({ stock: 1 })
  const before = await row(id)
  const refuse = async (lines: object[], status: number, code: ErrorCode) => {
    for (const query of ['', '?preview=true']) {
      const problem = assertProblem(await amend(id, { lines }, {}, query), status, code)
      if (query !== '') return problem
    }
    assert.fail()
  }
  const keep = { product_id: pot.id, quantity: 1 }
  const short = await refuse([keep, { product_id: few.id, quantity: 2 }], 409, 'insufficient_stock')
  assert.deepEqual([faults(short), short.shortages], [['#/lines/1/quantity'], [{ product_id: few.id, requested: 2, available: 1 }]])
  const limited = await refuse([{ product_id: lamp.id, quantity: 9 }], 409, 'purchase_limit')
  assert.deepEqual(
    [faults(limited), limited.limits],
    [['#/lines/0/quantity'], [{ product_id: lamp.id, requested: 7, bought: 2, limit: 8 }]],
  )
  assert.deepEqual(faults(await refuse([keep, { product_id: archived.id, quantity: 1 }], 422, 'unknown_product')), ['#/lines/1/product_id'])
  assert.deepEqual(faults(await refuse([keep, { product_id: foreign.id, quantity: 1 }], 422, 'currency_not_available')), [
    '#/lines/1/product_id',
  ])
  assert.deepEqual(faults(await refuse([{ product_id: mug.id, quantity: 1, price: 'then' }], 422, 'invalid_body')), ['#/lines/0/price'])
  assert.deepEqual(faults(await refuse([{ product_id: mug.id, quantity: 0 }], 422, 'invalid_body')), ['#/lines/0/product_id'])
  assert.deepEqual(faults(await refuse([keep, { ...keep, product_id: pot.id.toUpperCase() }], 422, 'invalid_body')), [
    '#/lines/1/product_id',
  ])
  await refuse([{ product_id: dear.id, quantity: 2 }], 422, 'total_too_large')
  await refuse([{ product_id: dear.id, quantity: 1 }], 422, 'total_too_large')
  const none = await refuse(
    [
      { product_id: lamp.id, quantity: 0 },
      { product_id: pot.id, quantity: 0 },
    ],
    409,
    'illegal_transition',
  )
  assert.deepEqual([none.current_status, none.allowed_transitions], ['pending', ['confirmed', 'cancelled']])
  const adjusted = await admin(id, 'adjustments', { kind: 'discount', label: 'Voucher', amount: EUR(-2_000) })
  assert.equal(adjusted.status, 200)
  assert.deepEqual((await refuse([{ product_id: lamp.id, quantity: 0 }], 409, 'total_negative')).total, EUR(500))
  assert.deepEqual(await stock(), [8, 9, 10])
  assert.deepEqual(before.status_history, (await row(id)).status_history.slice(0, 1))
})

test('keeps a discount and tax, and returns the stock of an archived product that is removed', async () => {
  const { id, lamp, pot, stock } = await place()
  for (const [kind, amount] of [
    ['discount', -300],
    ['tax', 475],
  ] as const)
    assert.equal((await admin(id, 'adjustments', { kind, label: kind, amount: EUR(amount) })).status, 200)
  assert.equal((await store.call('DELETE', `/admin/products/${pot.id}`, { token, headers: { 'if-match': '*' } })).status, 204)
  const { json, text } = await amend(id, {
    lines: [
      { product_id: pot.id, quantity: 0 },
      { product_id: lamp.id, quantity: 1 },
    ],
  })
  assert.deepEqual([json.order?.total, json.due], [EUR(1_175), EUR(1_175)], text)
  assert.deepEqual(
    json.order.adjustments.map(({ amount }: { amount: unknown }) => amount),
    [EUR(-300), EUR(475)],
  )
  assert.deepEqual((await stock()).slice(0, 2), [9, 10])
})

test('the same lines again change nothing, with or without a reference, and other lines may not use the reference again', async () => {
  const { id, lamp, mug, stock } = await place()
  const body = {
    lines: [
      { product_id: lamp.id, quantity: 1 },
      { product_id: mug.id, quantity: 2 },
    ],
    reference: 'call-1',
  }
  assert.equal((await amend(id, body)).status, 200)
  assert.equal((await amend(id, { lines: [{ product_id: mug.id, quantity: 1 }], reference: 'call-2' })).status, 200)
  for (const again of [
    body,
    {
      lines: [
        { product_id: mug.id, quantity: 1 },
        { product_id: lamp.id, quantity: 1 },
      ],
    },
  ]) {
    const repeated = await amend(id, again, { 'if-match': '"1"' })
    assert.deepEqual(
      [repeated.status, repeated.headers['idempotency-replayed'], repeated.json.amount, repeated.json.stock],
      [200, 'true', EUR(0), []],
      repeated.text,
    )
  }
  assertProblem(
    await amend(id, { ...body, lines: [{ product_id: mug.id, quantity: 2 }] }),
    409,
    'change_reference_taken',
    'it amended more',
  )
  assertProblem(
    await amend(id, {
      ...body,
      lines: [
        { product_id: lamp.id, quantity: 2 },
        { product_id: mug.id, quantity: 2 },
      ],
    }),
    409,
    'change_reference_taken',
  )
  assertProblem(await amend(id, { lines: [{ product_id: mug.id, quantity: 3 }] }, { 'if-match': '"1"' }), 412, 'precondition_failed')
  assert.deepEqual([(await row(id)).version, await stock()], [3, [9, 9, 9]])

  assert.equal((await admin(id, 'transitions', { to: 'cancelled' })).status, 200)
  const ended = await amend(id, body)
  assert.deepEqual([ended.headers['idempotency-replayed'], ended.json.due], ['true', null], 'an order that has ended owes nothing')
})

test('refuses the reference of an amendment at the current price for the same lines at the earlier price', async () => {
  const { id, lamp, mug } = await place()
  assert.equal(
    (await store.call('PATCH', `/admin/products/${lamp.id}`, { token, body: { price: EUR(1_200) }, headers: { 'if-match': '*' } })).status,
    200,
  )
  const add = (reference: string, price: string, quantity = 3, product_id = lamp.id) =>
    amend(id, { lines: [{ product_id, quantity, price }], reference })
  assert.equal((await add('now', 'now')).status, 200)
  assertProblem(await add('now', 'then'), 409, 'change_reference_taken')
  assert.equal((await add('now', 'now')).headers['idempotency-replayed'], 'true')
  assert.equal((await add('then', 'then', 4)).status, 200)
  assert.equal((await add('then', 'then', 4)).headers['idempotency-replayed'], 'true')
  assert.equal((await add('new', 'now', 1, mug.id)).status, 200)
  assertProblem(await add('new', 'then', 1, mug.id), 409, 'change_reference_taken', 'the order had no price of it')
  assert.equal((await row(id)).version, 4)
})

test('amendments at once in two processes sell no more than the stock, and no more than the purchase limit', async () => {
  for (let round = 0; round < 4; round++) {
    const scarce = await store.addProduct({ stock: 3 })
    const orders = [await place(), await place(), await place()]
    const answers = await Promise.all(
      orders.map(({ id }, i) => amend(id, { lines: [{ product_id: scarce.id, quantity: 2 }] }, {}, '', i % 2 ? other : store)),
    )
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 409, 409])
    assert.deepEqual(await store.readStock(scarce), [1])

    const { id, buyer, lamp } = await place()
    const more = store.call('POST', '/orders', { token: buyer.token, body: { items: [{ product_id: lamp.id, quantity: 5 }] } })
    const [placed, amended] = await Promise.all([more, amend(id, { lines: [{ product_id: lamp.id, quantity: 5 }] }, {}, '', other)])
    assert.deepEqual(
      [placed.status, amended.status].sort(),
      placed.status === 201 ? [201, 409] : [200, 409],
      `${placed.text} ${amended.text}`,
    )
    const { rows } = await store.pool.query('select purchased_quantity($1, $2) as bought', [buyer.id, lamp.id])
    assert.equal(Number(rows[0].bought), placed.status === 201 ? 7 : 5)
  }
})

test('an amendment beside a shipment, a cancellation or a return of the rest moves no unit twice', async () => {
  for (const [path, body] of [
    ['transitions', { to: 'shipped' }],
    ['transitions', { to: 'cancelled' }],
    ['shipments', {}],
    ['cancellations', {}],
  ] as const) {
    const { id, lamp, pot, mug, stock } = await place('confirmed')
    const lines = [
      { product_id: lamp.id, quantity: 1 },
      { product_id: mug.id, quantity: 2 },
    ]
    const [moved, amended] = await Promise.all([admin(id, path, body), amend(id, { lines }, {}, '', other)])
    assert.equal(moved.status, 200, moved.text)
    if (amended.status !== 200) assertProblem(amended, 409, 'too_late_to_amend')
    const { json } = await store.call('GET', `/admin/orders/${id}`, { token })
    const unitsOf = (productId: string) =>
      json.items.reduce(
        (sum: number, item: { product_id: string; quantity: number; cancelled?: number }) =>
          sum + (item.product_id === productId ? item.quantity - (item.cancelled ?? 0) : 0),
        0,
      )
    assert.deepEqual(
      await stock(),
      [lamp, pot, mug].map(({ id: productId }) => 10 - unitsOf(productId)),
      `${path} ${amended.text}`,
    )
  }
})

test('the database refuses added lines with wrong totals, and removals of more units than the order has', async () => {
  const { id, lamp } = await place()
  const { rows } = await store.pool.query('select status_history, items from orders where id = $1', [id])
  const [line] = rows[0].items
  const write = (change: object) =>
    store.pool.query(`update orders set version = 2, status_history = $2 where id = $1`, [
      id,
      JSON.stringify([
        ...rows[0].status_history,
        { ...rows[0].status_history[0], change: { type: 'amended', amended: ['lines'], removed: [], added: [], ...change } },
      ]),
    ])
  for (const change of [
    { removed: [{ product_id: lamp.id, quantity: 3 }] },
    { added: [{ ...line, quantity: 1 }] },
    { added: [{ ...line, total: { ...line.total, currency: 'USD' } }] },
    { added: [{ ...line, quantity: 'two' }] },
    { added: {} },
  ])
    await assert.rejects(write(change), { constraint: 'orders_changes_add_up' }, JSON.stringify(change))
  await write({ added: [line], removed: [{ product_id: lamp.id, quantity: 4 }], amount: 0 })
})

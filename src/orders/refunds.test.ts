import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { addBuyer } from '../../test/buyers.ts'
import { assertProblem, faults } from '../../test/problem.ts'
import { startSecondProcess, startStore } from '../../test/store.ts'
import { expireOrders } from './expire-orders.ts'

const store = await startStore({ after })
const [ada, operator] = [await store.register(), await addBuyer(store, 'admin')]
const token = operator.token
const EUR = (amount: number) => ({ amount, currency: 'EUR' })
const STRIPE = { provider: 'stripe', reference: 'pi_1' }

const send = async (method: string, id: string, path: string, body: object) => {
  const answer = await store.call(method, `/admin/orders/${id}/${path}`, { token, body })
  assert.equal(answer.status, 200, answer.text)
  return answer.json
}
const pay = (id: string, state = 'paid', payment = STRIPE) => send('PUT', id, 'payment', { ...payment, state })
const move = (id: string, to: string) => send('POST', id, 'transitions', { to })
const refund = (id: string, body: object, headers: Record<string, string> = {}, by: Pick<typeof store, 'call'> = store) =>
  by.call('POST', `/admin/orders/${id}/refunds`, { token, body: { reference: randomUUID(), ...body }, headers })
const read = async (id: string) => (await store.call('GET', `/orders/${id}`, { token: ada.token })).json
const row = async (id: string) => (await store.pool.query('select version, status_history from orders where id = $1', [id])).rows[0]

/** Places an order of two lamps at 10.00 and reports the given payment states in turn. */
async function place(...states: string[]) {
  const lamp = await store.addProduct({ stock: 10, amount: 1_000 })
  const { status, json, text } = await store.call('POST', '/orders', {
    token: ada.token,
    body: { items: [{ product_id: lamp.id, quantity: 2 }] },
  })
  assert.equal(status, 201, text)
  assert.deepEqual(json.refunded, EUR(0))
  for (const state of states) await pay(json.id, state)
  return { id: json.id as string, lamp }
}

test('a refund is an entry of the payment, and the customer sees the refunded amount', async () => {
  const { id, lamp } = await place('paid')
  const lines = [{ product_id: lamp.id.toUpperCase(), quantity: 1, amount: EUR(300) }]
  const first = await refund(id, { amount: EUR(500), reference: 're_1', reason: 'scratched', lines })
  assert.equal(first.status, 200, first.text)
  assert.deepEqual(
    [first.json.version, first.json.status, first.json.total, first.json.refunded, first.json.payment.state],
    [3, 'pending', EUR(2_000), EUR(500), 'partially_refunded'],
  )
  assert.deepEqual(first.json.refundable, [{ ...STRIPE, left: EUR(1_500) }])
  const { at: _, ...entry } = (await row(id)).status_history.at(-1)
  assert.deepEqual(entry, {
    ...{ status: 'pending', actor: { type: 'admin', id: operator.id }, reason: 'scratched', reference: 're_1' },
    change: {
      ...{ type: 'payment', ...STRIPE, state: 'partially_refunded' },
      refund: { amount: 500, lines: [{ product_id: lamp.id, quantity: 1, amount: 300 }] },
    },
  })
  const last = await refund(id, { amount: EUR(1_500) })
  assert.deepEqual([last.json.payment.state, last.json.refunded, last.json.refundable], ['refunded', EUR(2_000), []])
  const order = await read(id)
  assert.deepEqual([order.refunded, order.payment.state, order.refundable], [EUR(2_000), 'refunded', undefined])
  const { rows } = await store.pool.query('select after from activities where subject_id = $1 order by id desc limit 1', [id])
  assert.deepEqual(rows[0].after.change, { type: 'payment', provider: 'stripe', state: 'refunded', refunded: 1_500 })
})

test("a provider's report of a recorded refund changes nothing, and a report of a later state does", async () => {
  const { id } = await place('authorized', 'paid')
  await refund(id, { amount: EUR(500) })
  for (const state of ['partially_refunded', 'paid', 'authorized']) assert.equal((await pay(id, state)).version, 4, state)
  const { version, refunded, payment } = await pay(id, 'refunded')
  assert.deepEqual([version, refunded, payment.state], [5, EUR(2_000), 'refunded'])
  assert.deepEqual(assertProblem(await refund(id, { amount: EUR(1) }), 409, 'refund_exceeded').left, EUR(0))
})

test('the amount of a refund that only a provider reported is unknown, and no more than the paid amount is refunded', async () => {
  const { id } = await place('paid', 'partially_refunded')
  assert.equal((await read(id)).refunded, null)
  const { json } = await refund(id, { amount: EUR(1_999) })
  assert.deepEqual([json.refunded, json.refundable[0].left], [null, EUR(1)])
  assert.deepEqual(assertProblem(await refund(id, { amount: EUR(2) }), 409, 'refund_exceeded').left, EUR(1))
})

test('a repeated reference refunds once and is refused with another body', async () => {
  const { id, lamp } = await place('paid')
  const sent = { amount: EUR(700), reference: 're_1', lines: [{ product_id: lamp.id, quantity: 1 }] }
  const answers = await Promise.all(Array.from({ length: 4 }, () => refund(id, sent)))
  assert.deepEqual(
    answers.map(({ status, json }) => [status, json.version]),
    Array(4).fill([200, 3]),
  )
  assert.equal(answers.filter(({ headers }) => headers['idempotency-replayed'] === 'true').length, 3)
  const same = await refund(
    id,
    { ...sent, payment: STRIPE, lines: [{ product_id: lamp.id.toUpperCase(), quantity: 1 }] },
    { 'if-match': '"1"' },
  )
  assert.deepEqual([same.status, same.json.version], [200, 3])
  for (const other of [
    { amount: EUR(701) },
    { amount: { amount: 700, currency: 'JPY' } },
    { lines: undefined },
    { lines: [{ product_id: lamp.id, quantity: 2 }] },
    { lines: [{ product_id: lamp.id, amount: EUR(1) }] },
    { payment: { provider: 'stripe', reference: 'pi_2' } },
  ])
    assert.equal(assertProblem(await refund(id, { ...sent, ...other }), 409, 'change_reference_taken').current_version, 3)
  await refund(id, { amount: EUR(1_300) })
  assert.equal((await refund(id, sent)).json.payment.state, 'refunded', 'it was made, whatever has followed')
  assertProblem(await refund(id, { amount: EUR(1) }, { 'if-match': '"3"' }), 412, 'precondition_failed')
})

test('refuses one of two refunds at once that together exceed the payment, with the amount that is left, in two processes', async (t) => {
  const second = await startSecondProcess(t, store)
  for (let round = 0; round < 5; round++) {
    const { id } = await place('paid')
    const answers = await Promise.all([store, second].map((by) => refund(id, { amount: EUR(1_500) }, {}, by)))
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 409])
    for (const answer of answers) {
      if (answer.status === 200) continue
      const { left, detail } = assertProblem(answer, 409, 'refund_exceeded')
      assert.deepEqual([left, detail], [EUR(500), 'At most 5.00 EUR of the payment is left to refund.'])
    }
    assert.deepEqual((await read(id)).refunded, EUR(1_500))
  }
})

test('refuses refunds of unpaid orders, even expired ones, and refunds an order that was cancelled or returned after payment', async () => {
  const refused = async (id: string) => {
    const { version } = await row(id)
    assert.deepEqual(assertProblem(await refund(id, { amount: EUR(1) }), 409, 'refund_exceeded').left, EUR(0))
    assert.equal((await row(id)).version, version)
  }
  for (const states of [[], ['pending'], ['authorized'], ['failed'], ['paid', 'refunded']]) await refused((await place(...states)).id)
  const expired = await place()
  await expireOrders(store.pool, 0, new Date(Date.now() + 1_000))
  assert.equal((await read(expired.id)).status, 'cancelled')
  await refused(expired.id)
  assertProblem(await refund(randomUUID(), { amount: EUR(1) }), 404, 'not_found')
  for (const moves of [['cancelled'], ['confirmed', 'shipped', 'returned']]) {
    const { id } = await place('paid')
    for (const to of moves) await move(id, to)
    const { json } = await refund(id, { amount: EUR(2_000) })
    assert.deepEqual([json.status, json.payment.state, json.refunded], [moves.at(-1), 'refunded', EUR(2_000)])
  }
})

test('a refund names one of several payments, and refunds at most what that payment covers', async () => {
  const { id, lamp } = await place('paid')
  const difference = { provider: 'bank', reference: 'b 1' }
  await send('POST', id, 'amendments', { lines: [{ product_id: lamp.id, quantity: 3 }] })
  await pay(id, 'paid', difference)
  const without = assertProblem(await refund(id, { amount: EUR(1) }), 422, 'invalid_body')
  assert.deepEqual([faults(without), without.errors?.[0]?.detail], [['#/payment'], 'must name one of the payments: stripe pi_1, bank b 1'])
  const unknown = await refund(id, { amount: EUR(1), payment: { ...difference, reference: 'b 2' } })
  assert.deepEqual(faults(assertProblem(unknown, 422, 'invalid_body')), ['#/payment'])
  assert.deepEqual(assertProblem(await refund(id, { amount: EUR(1_001), payment: difference }), 409, 'refund_exceeded').left, EUR(1_000))
  const { json } = await refund(id, { amount: EUR(1_000), payment: difference })
  assert.deepEqual([json.refundable, json.refunded], [[{ ...STRIPE, left: EUR(2_000) }], EUR(1_000)])
  assert.equal((await refund(id, { amount: EUR(2_000) })).json.payment.state, 'refunded', 'it is the only one that is left')
})

test('refunds at most the authorized amount of a payment whose cover is unknown', async () => {
  const twice = await place('paid')
  const again = { provider: 'stripe', reference: 'pi_2' }
  await pay(twice.id, 'paid', again)
  assertProblem(await refund(twice.id, { amount: EUR(2_001), payment: again }), 409, 'refund_exceeded')
  assert.deepEqual((await refund(twice.id, { amount: EUR(2_000), payment: again })).json.payment, {
    ...(await read(twice.id)).payment,
    ...STRIPE,
    state: 'paid',
  })
  const fallen = await place('authorized')
  await send('POST', fallen.id, 'adjustments', { kind: 'discount', label: 'Sorry', amount: EUR(-500) })
  assert.deepEqual((await pay(fallen.id)).refundable[0].left, EUR(2_000))
})

test('the amount due after a refund is known, except when units were returned', async () => {
  const due = async (id: string, product_id: string, quantity: number) =>
    (await send('POST', id, 'amendments', { lines: [{ product_id, quantity }] })).due
  const { id, lamp } = await place('paid')
  assert.deepEqual(await due(id, lamp.id, 1), EUR(-1_000))
  await refund(id, { amount: EUR(1_000), lines: [{ product_id: lamp.id, quantity: 1 }] })
  assert.deepEqual(await due(id, lamp.id, 2), EUR(1_000))
  await move(id, 'confirmed')
  await send('POST', id, 'shipments', { lines: [{ product_id: lamp.id, quantity: 1 }] })
  await send('POST', id, 'returns', { lines: [{ product_id: lamp.id, quantity: 1 }], restock: true })
  assert.equal(await due(id, lamp.id, 3), null)
})

test("refund lines name products of the order, and exceed neither its units nor the refund's amount", async () => {
  const { id, lamp } = await place('paid')
  const vase = await store.addProduct({ stock: 5, amount: 300 })
  await send('POST', id, 'amendments', { lines: [{ product_id: vase.id, quantity: 1 }] })
  const wrong: [object[], string][] = [
    [[{ product_id: randomUUID(), quantity: 1 }], '#/lines/0/product_id'],
    [[{ product_id: lamp.id, quantity: 3 }], '#/lines/0/quantity'],
    [[{ product_id: vase.id, quantity: 2 }], '#/lines/0/quantity'],
    [[{ product_id: lamp.id, quantity: 0 }], '#/lines/0/quantity'],
    [[{ product_id: lamp.id }], '#/lines/0'],
    [[], '#/lines'],
    [[lamp, vase].map(({ id: product_id }) => ({ product_id, amount: EUR(251) })), '#/lines'],
    [[lamp, lamp].map(({ id: product_id }) => ({ product_id, quantity: 1 })), '#/lines/1/product_id'],
  ]
  for (const [lines, pointer] of wrong) {
    const problem = assertProblem(await refund(id, { amount: EUR(501), lines }), 422, 'invalid_body', JSON.stringify(lines))
    assert.deepEqual(faults(problem), [pointer])
  }
  const other = assertProblem(
    await refund(id, { amount: EUR(500), lines: [{ product_id: lamp.id, amount: { amount: 1, currency: 'JPY' } }] }),
    422,
    'mixed_currencies',
  )
  assert.deepEqual(faults(other), ['#/lines/0/amount/currency'])
  const lines = [vase, lamp].map(({ id: product_id }) => ({ product_id, amount: EUR(250) }))
  const { json } = await refund(id, { amount: EUR(500), lines })
  const stored = json.status_history.at(-1).change.refund.lines
  assert.deepEqual(
    stored.map((line: { product_id: string }) => line.product_id),
    [lamp.id, vase.id].sort(),
  )
})

test('refuses invalid amounts and other currencies, and refunds a currency without decimals in its own units', async () => {
  const { id } = await place('paid')
  for (const amount of [EUR(0), EUR(-1), EUR(0.5), EUR(2 ** 53), { amount: 1 }, 1])
    assertProblem(await refund(id, { amount }), 422, 'invalid_body', JSON.stringify(amount))
  assertProblem(await refund(id, { amount: EUR(1), reference: undefined }), 422, 'invalid_body')
  assertProblem(await refund(id, { amount: EUR(1), reference: '' }), 422, 'invalid_body')
  assertProblem(await refund(id, { amount: { amount: 1, currency: 'JPY' } }), 422, 'mixed_currencies')
  assert.equal((await row(id)).version, 2)

  const lamp = await store.addProduct({ stock: 10, amount: 1_200, currency: 'JPY' })
  const placed = await store.call('POST', '/orders', {
    token: ada.token,
    body: { items: [{ product_id: lamp.id, quantity: 1 }], currency: 'JPY' },
  })
  assert.equal(placed.status, 201, placed.text)
  await pay(placed.json.id)
  const yen = (amount: number) => ({ amount, currency: 'JPY' })
  const { left, detail } = assertProblem(await refund(placed.json.id, { amount: yen(1_201) }), 409, 'refund_exceeded')
  assert.deepEqual([left, detail], [yen(1_200), 'At most 1200 JPY of the payment is left to refund.'])
  assert.deepEqual((await refund(placed.json.id, { amount: yen(1_199) })).json.refunded, yen(1_199))
})

test('an order takes a hundred refunds, and still accepts reports on its payment', async () => {
  const { id } = await place('paid')
  const entry = { status: 'pending', at: new Date(), actor: { type: 'system', id: null }, reason: null, reference: 'r' }
  const change = { type: 'payment', ...STRIPE, state: 'partially_refunded', refund: { amount: 1 } }
  await store.pool.query(
    `update orders set version = 101, status_history = status_history || (select jsonb_agg($2::jsonb) from generate_series(1, 99)) where id = $1`,
    [id, JSON.stringify({ ...entry, change })],
  )
  assert.deepEqual((await refund(id, { amount: EUR(1) })).json.refunded, EUR(100))
  assertProblem(await refund(id, { amount: EUR(1) }), 409, 'too_many_changes')
  assert.equal((await pay(id, 'refunded')).payment.state, 'refunded')
})

test('the database refuses refunds with an invalid amount, without a payment, or above what the order has cost', async () => {
  const { id } = await place('paid')
  const write = (change: object) =>
    store.pool.query(
      `update orders set version = version + 1, status_history = status_history || jsonb_build_array(status_history -> -1 || $2::jsonb) where id = $1`,
      [id, JSON.stringify({ change })],
    )
  const payment = { type: 'payment', ...STRIPE, state: 'partially_refunded' }
  for (const change of [
    { ...payment, refund: { amount: 2_001 } },
    { ...payment, refund: { amount: 0 } },
    { ...payment, refund: { amount: 0.5 } },
    { ...payment, refund: { amount: 'much' } },
    { ...payment, refund: 1 },
    { ...payment, type: 'adjusted', refund: { amount: 1 } },
  ])
    await assert.rejects(write(change), { constraint: 'orders_changes_add_up' }, JSON.stringify(change))
  await write({ ...payment, refund: { amount: 2_000 } })
  await assert.rejects(write({ ...payment, refund: { amount: 1 } }), { constraint: 'orders_changes_add_up' })
  await write({ ...payment, reference: 'pi_2', refund: { amount: 2_000 } })
})

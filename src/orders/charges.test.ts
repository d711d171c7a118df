import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { addBuyer } from '../../test/buyers.ts'
import { makeOrderEvent } from '../../test/order-event-factory.ts'
import { assertProblem, faults } from '../../test/problem.ts'
import { startSecondProcess, startStore } from '../../test/store.ts'
import { listPaymentEntries } from './events.ts'
import type { OrderChange, PaymentState } from './order-changes.ts'
import { dueOf, refundsOf } from './order-charges.ts'

const store = await startStore({ after })
const [ada, { token }] = [await store.register(), await addBuyer(store, 'admin')]
const EUR = (amount: number) => ({ amount, currency: 'EUR' })
const SHIPPING = { kind: 'shipping', label: 'Express', amount: EUR(490) }
const DISCOUNT = { kind: 'discount', label: 'Ten off', amount: EUR(-1_000) }

const adjust = (id: string, body: unknown, headers: Record<string, string> = {}, by: Pick<typeof store, 'call'> = store) =>
  by.call('POST', `/admin/orders/${id}/adjustments`, { token, body, headers })
const undo = (id: string, version: number | string) => store.call('DELETE', `/admin/orders/${id}/adjustments/${version}`, { token })
const pay = (id: string, body: unknown, by: Pick<typeof store, 'call'> = store) =>
  by.call('PUT', `/admin/orders/${id}/payment`, { token, body })
const move = (id: string, to: string) => store.call('POST', `/admin/orders/${id}/transitions`, { token, body: { to } })
const read = async (id: string) => (await store.call('GET', `/orders/${id}`, { token: ada.token })).json
const row = async (id: string) =>
  (await store.pool.query('select version, total_amount, status_history from orders where id = $1', [id])).rows[0]

/** Places an order of two lamps at 10.00. */
async function place(...moves: string[]) {
  const lamp = await store.addProduct({ stock: 10, amount: 1_000 })
  const { status, json, text } = await store.call('POST', '/orders', {
    token: ada.token,
    body: { items: [{ product_id: lamp.id, quantity: 2 }] },
  })
  assert.equal(status, 201, text)
  assert.deepEqual([json.adjustments, json.payment], [[], null])
  for (const to of moves) assert.equal((await move(json.id, to)).status, 200)
  return { id: json.id as string, lamp }
}

test('adjustments change the total, and the customer sees each with its label', async () => {
  const { id } = await place('confirmed')
  const label = '<b>Express</b> & "more"'
  const first = await adjust(id, { ...SHIPPING, label: ` ${label} `, reference: 'rate-1' })
  assert.equal(first.status, 200, first.text)
  assert.deepEqual(
    [first.json.total, first.json.original_total, first.json.status, first.json.version],
    [EUR(2_490), EUR(2_000), 'confirmed', 3],
  )
  await adjust(id, { kind: 'tax', label: 'VAT', amount: EUR(0) })
  await adjust(id, { kind: 'fee', label: 'Wrapping', amount: EUR(200) })
  const last = await adjust(id, DISCOUNT)
  const order = await read(id)
  assert.deepEqual(order.total, EUR(1_690))
  assert.deepEqual(order.adjustments, last.json.adjustments)
  assert.deepEqual(order.adjustments[0], {
    ...{ version: 3, kind: 'shipping', label, amount: EUR(490), made_at: order.status_history[2].at, reference: 'rate-1' },
  })
  assert.deepEqual(
    order.adjustments.map(({ version, amount }: { version: number; amount: object }) => [version, amount]),
    [
      [3, EUR(490)],
      [4, EUR(0)],
      [5, EUR(200)],
      [6, EUR(-1_000)],
    ],
  )
  assert.deepEqual(order.status_history[2].change, { type: 'adjusted', kind: 'shipping', label, amount: 490 })
  assert.deepEqual([(await row(id)).total_amount, order.status_history.length], [2_000, 6], 'what was placed stays')
})

test('voids an adjustment once, and keeps both entries in the history', async () => {
  const { id } = await place()
  await adjust(id, SHIPPING)
  const { json } = await adjust(id, { kind: 'fee', label: 'Free of charge', amount: EUR(0) })
  assert.equal(json.version, 3)
  for (const [version, total] of [
    [2, 2_000],
    [3, 2_000],
  ] as const) {
    const voided = await undo(id, version)
    assert.equal(voided.status, 200, voided.text)
    assert.deepEqual(voided.json.total, EUR(total))
    assert.equal(voided.headers['idempotency-replayed'], undefined)
  }
  const again = await undo(id, 2)
  assert.deepEqual([again.status, again.headers['idempotency-replayed'], again.json.version], [200, 'true', 5])
  assert.deepEqual(
    [again.json.adjustments, (await row(id)).status_history.at(-1).change],
    [[], { type: 'adjustment_voided', adjustment: 3, amount: 0 }],
  )
  for (const version of [1, 4, 7, 999_999_999]) assertProblem(await undo(id, version), 404, 'not_found')
  for (const version of ['0', '-1', '2.0', '1e1', 'x', '9999999999']) assertProblem(await undo(id, version), 404, 'not_found')
})

test('a repeated reference adjusts once and is refused with another body', async () => {
  const { id } = await place()
  const sent = { ...SHIPPING, reference: 'r-1' }
  const answers = await Promise.all(Array.from({ length: 4 }, () => adjust(id, sent)))
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 200, 200],
  )
  assert.equal(answers.filter(({ headers }) => headers['idempotency-replayed'] === 'true').length, 3)
  const stale = await adjust(id, sent, { 'if-match': '"1"' })
  assert.deepEqual([stale.status, stale.json.version, stale.json.total], [200, 2, EUR(2_490)])
  for (const other of [{ amount: EUR(491) }, { label: 'Other' }, { kind: 'fee' }]) {
    assert.equal(assertProblem(await adjust(id, { ...sent, ...other }), 409, 'change_reference_taken').current_version, 2)
  }
  await undo(id, 2)
  assert.equal((await adjust(id, sent)).json.adjustments.length, 0, 'it was made, and voided since')
  assertProblem(await adjust(id, { ...SHIPPING, reference: 'r-2' }, { 'if-match': '"1"' }), 412, 'precondition_failed')
  assert.equal((await row(id)).version, 3)
})

test('refuses changes that would take the total out of its range, even together with cancelled lines', async () => {
  const { id, lamp } = await place('confirmed')
  const negative = assertProblem(await adjust(id, { ...DISCOUNT, amount: EUR(-2_001) }), 409, 'total_negative')
  assert.deepEqual([negative.total, negative.detail], [EUR(2_000), 'The total of the order is 20.00 EUR, and would be negative.'])
  const max = Number.MAX_SAFE_INTEGER
  assertProblem(await adjust(id, { ...SHIPPING, amount: EUR(max) }), 422, 'total_too_large')
  assert.deepEqual((await adjust(id, { ...SHIPPING, amount: EUR(max - 2_000) })).json.total, EUR(max))
  assertProblem(await adjust(id, { ...SHIPPING, amount: EUR(1) }), 422, 'total_too_large')
  await undo(id, 3)
  assert.deepEqual((await adjust(id, { ...DISCOUNT, amount: EUR(-1_500) })).json.total, EUR(500))
  const cancel = () =>
    store.call('POST', `/admin/orders/${id}/cancellations`, { token, body: { lines: [{ product_id: lamp.id, quantity: 1 }] } })
  assertProblem(await cancel(), 409, 'total_negative')
  assert.deepEqual(await store.readStock(lamp), [8])
  await adjust(id, { ...SHIPPING, amount: EUR(500) })
  assert.deepEqual((await cancel()).json.total, EUR(0))
  assertProblem(await undo(id, 6), 409, 'total_negative')
  assert.equal((await row(id)).version, 7)
})

test('refuses one of two adjustments at once that would together make the total negative, in two processes', async (t) => {
  const second = await startSecondProcess(t, store)
  for (let round = 0; round < 5; round++) {
    const { id, lamp } = await place('confirmed')
    const cancel = store.call('POST', `/admin/orders/${id}/cancellations`, {
      token,
      body: { lines: [{ product_id: lamp.id, quantity: 1 }] },
    })
    const answers = await Promise.all([
      adjust(id, { ...DISCOUNT, amount: EUR(-1_200) }, {}, second),
      round % 2 === 0 ? adjust(id, { ...DISCOUNT, amount: EUR(-1_200) }) : cancel,
      ...(round % 2 === 0 ? [cancel] : []),
    ])
    assert.ok(answers.some(({ status }) => status === 200))
    for (const answer of answers) if (answer.status !== 200) assertProblem(answer, 409, 'total_negative')
    const { total } = await read(id)
    assert.ok(total.amount >= 0)
    assert.ok(answers.filter(({ status }) => status === 200).length < answers.length)
  }
})

test('refuses adjustments of the wrong currency or sign, and of orders that have ended', async () => {
  const { id } = await place()
  assertProblem(await adjust(id, { ...SHIPPING, amount: { amount: 1, currency: 'JPY' } }), 422, 'mixed_currencies')
  for (const wrong of [{ amount: EUR(-1) }, { kind: 'discount' }, { kind: 'discount', amount: EUR(0) }]) {
    const answer = await adjust(id, { ...SHIPPING, ...wrong })
    assertProblem(answer, 422, 'invalid_body', JSON.stringify(wrong))
    assert.ok(faults(answer.json).length > 0)
  }
  assertProblem(await adjust(randomUUID(), SHIPPING), 404, 'not_found')
  assertProblem(await pay(randomUUID(), { provider: 'stripe', reference: 'pi_1', state: 'paid' }), 404, 'not_found')
  assert.equal((await row(id)).version, 1)
  assert.equal((await adjust((await place('confirmed', 'shipped', 'delivered')).id, DISCOUNT)).status, 200)
  for (const moves of [['cancelled'], ['confirmed', 'shipped', 'returned']]) {
    const ended = await place(...moves)
    assert.equal(assertProblem(await adjust(ended.id, SHIPPING), 409, 'illegal_transition').current_status, moves.at(-1))
  }
})

test('an order takes a hundred adjustments', async () => {
  const { id } = await place()
  const entry = { status: 'pending', at: new Date(), actor: { type: 'system', id: null }, reason: null }
  const change = { type: 'adjusted', kind: 'fee', label: 'x', amount: 1 }
  await store.pool.query(
    `update orders set version = 100, status_history = status_history || (select jsonb_agg($2::jsonb) from generate_series(1, 99)) where id = $1`,
    [id, JSON.stringify({ ...entry, change })],
  )
  assert.deepEqual((await adjust(id, SHIPPING)).json.total, EUR(2_589))
  assertProblem(await adjust(id, SHIPPING), 409, 'too_many_changes')
})

test('the sum of each kind of adjustment stays exact in the lake, even with discounts between', async () => {
  const { id } = await place()
  const most = Number.MAX_SAFE_INTEGER - 2_000
  assert.equal((await adjust(id, { ...SHIPPING, kind: 'fee', amount: EUR(most) })).status, 200)
  assert.equal((await adjust(id, { ...DISCOUNT, amount: EUR(-most) })).status, 200)
  assertProblem(await adjust(id, { ...SHIPPING, kind: 'fee', amount: EUR(most) }), 422, 'total_too_large')
  assert.equal((await adjust(id, { ...SHIPPING, kind: 'fee', amount: EUR(2_000) })).status, 200)
  assertProblem(await adjust(id, { ...DISCOUNT, amount: EUR(-2_001) }), 422, 'total_too_large')
})

test("an order's payment follows the provider's reports in whatever sequence they arrive", async () => {
  const states = ['pending', 'authorized', 'failed', 'paid', 'partially_refunded', 'refunded']
  const payment = { provider: 'stripe', reference: 'pi_1' }
  const { id } = await place('cancelled')
  let version = 2
  for (const state of states) {
    const { status, json, text } = await pay(id, { ...payment, state })
    assert.equal(status, 200, text)
    assert.deepEqual(
      [json.version, json.status, json.payment],
      [++version, 'cancelled', { ...payment, state, changed_at: json.updated_at }],
    )
    const again = await pay(id, { ...payment, state })
    assert.deepEqual([again.json.version, again.headers['idempotency-replayed']], [version, 'true'])
  }
  for (const state of states) assert.equal((await pay(id, { ...payment, state })).json.payment.state, 'refunded')
  assert.equal((await row(id)).version, version)
  assert.deepEqual((await read(id)).payment.state, 'refunded')
  assert.deepEqual((await row(id)).status_history.at(-1).change, { type: 'payment', ...payment, state: 'refunded' })

  for (const order of [
    [3, 0, 1],
    [0, 3, 1],
    [1, 0, 3],
  ]) {
    const other = await place()
    for (const index of order) await pay(other.id, { ...payment, state: states[index] })
    assert.equal((await read(other.id)).payment.state, 'paid')
  }
  const atOnce = await place()
  await Promise.all([...states, ...states].map((state) => pay(atOnce.id, { ...payment, state })))
  assert.equal((await read(atOnce.id)).payment.state, 'refunded')
})

test('a failed payment may be authorized under the same id and an authorized one may fail, once each', async () => {
  const holdsMoney = async (id: string) =>
    (await store.pool.query('select order_holds_money(status_history) as held from orders where id = $1', [id])).rows[0].held
  for (const [states, last] of [
    [['failed', 'authorized'], 'authorized'],
    [['pending', 'failed', 'authorized', 'failed', 'pending'], 'authorized'],
    [['authorized', 'failed'], 'failed'],
    [['authorized', 'failed', 'authorized'], 'failed'],
    [['failed', 'authorized', 'paid', 'authorized', 'failed'], 'paid'],
  ] as const) {
    const { id } = await place()
    for (const state of states) await pay(id, { provider: 'stripe', reference: 'pi_1', state })
    assert.equal((await read(id)).payment.state, last, states.join())
    assert.equal(await holdsMoney(id), last !== 'failed', states.join())
  }
})

test('shows the payment that holds money, and keeps all payments', async () => {
  const { id } = await place()
  const shown = async (provider: string, reference: string, state: string) => {
    const { json } = await pay(id, { provider, reference, state })
    return [json.payment.provider, json.payment.reference, json.payment.state].join(' ')
  }
  assert.equal(await shown('a', '1', 'failed'), 'a 1 failed')
  assert.equal(await shown('b', '1', 'pending'), 'b 1 pending')
  assert.equal(await shown('b', '1', 'paid'), 'b 1 paid')
  assert.equal(await shown('a', '2', 'pending'), 'b 1 paid')
  assert.equal(await shown('a', '1', 'pending'), 'b 1 paid')
  assert.equal(await shown('a', '2', 'paid'), 'a 2 paid')
  assert.equal(await shown('b', '1', 'refunded'), 'a 2 paid')
  assert.equal(await shown('a', '2', 'refunded'), 'a 2 refunded')
  assert.equal(await shown('a', '3', 'pending'), 'a 3 pending')
  assert.equal((await row(id)).version, 9)
  assert.equal(await shown('a', '3', 'authorized'), 'a 3 authorized')
  assert.equal(await shown('c', '1', 'paid'), 'c 1 paid')
  assert.equal(await shown('c', '1', 'refunded'), 'a 3 authorized')
  const { rows } = await store.pool.query('select order_holds_money(status_history) as held from orders where id = $1', [id])
  assert.equal(rows[0].held, true, 'the order does not expire')
})

test('the audit log of operators has charges and payments, and no text about a person', async () => {
  const { id } = await place()
  const { json } = await adjust(id, { ...SHIPPING, reference: 'for Ada' })
  assert.equal((await store.call('DELETE', `/admin/orders/${id}/adjustments/${json.version}`, { token })).status, 200)
  await pay(id, { provider: 'stripe', reference: 'pi_of_ada', state: 'paid' })
  const { rows } = await store.pool.query('select before, after from activities where subject_id = $1 order by activities.id', [id])
  const [total, original] = [json.total, json.original_total]
  assert.notDeepEqual(total, original)
  const at = (version: number) => ({ status: 'pending', version })
  assert.deepEqual(rows, [
    { before: { ...at(1), total: original }, after: { ...at(2), total, change: { type: 'adjusted', kind: 'shipping' } } },
    { before: { ...at(2), total }, after: { ...at(3), total: original, change: { type: 'adjustment_voided', adjustment: 2 } } },
    { before: at(3), after: { ...at(4), change: { type: 'payment', provider: 'stripe', state: 'paid' } } },
  ])
})

test('a payment covers the authorized total less what other payments cover, and unknown amounts are null', () => {
  const at = '2026-03-01T10:00:00.000Z'
  const amend = (amount: number): OrderChange => ({ type: 'amended', amended: ['lines'], amount })
  const report = (state: PaymentState, reference = 'a'): OrderChange => ({ type: 'payment', provider: 'p', reference, state })
  const [paid, authorized, more, less] = [report('paid'), report('authorized'), amend(1_000), amend(-1_000)]
  const [second, refunded] = [report('paid', 'b'), report('refunded', 'b')]
  for (const [changes, due, amounts] of [
    [[], 2_500, []],
    [[authorized, paid], 0, []],
    [[authorized, more], 3_500, []],
    [[authorized, more, paid], 1_000, []],
    [[authorized, more, paid, second], 0, []],
    [[authorized, more, paid, report('refunded')], 3_500, [2_500]],
    [[authorized, report('failed'), more, paid], 0, []],
    [[report('failed'), more, authorized, paid], 0, []],
    [[authorized, less, paid], null, []],
    [[authorized, less, paid, report('refunded')], 1_500, [undefined]],
    [[more, paid], 0, []],
    [[paid, less], -1_000, []],
    [[paid, more, second, refunded], 1_000, [1_000]],
    [[paid, second], null, []],
    [[paid, second, refunded], 0, [2_500]],
    [[paid, less, second, refunded], -1_000, [undefined]],
    [[paid, more, report('partially_refunded'), second, refunded], null, [undefined]],
    [[amend(-2_500), paid], 0, []],
    [[paid, report('refunded'), more, second, refunded], 3_500, [2_500, 3_500]],
  ] as const) {
    const history = [undefined, ...changes].map((change) => ({
      ...{ status: 'pending' as const, at, actor: { type: 'admin' as const, id: null }, reason: null },
      ...(change === undefined ? {} : { change }),
    }))
    const what = JSON.stringify(changes)
    assert.equal(dueOf(history, 2_500), due, what)
    const { data } = makeOrderEvent({ order: { status_history: history, original_total: EUR(2_500) } })
    const refunds = listPaymentEntries(data.order).filter(({ state }) => state === 'refunded')
    assert.deepEqual(
      refunds.map(({ amount }) => amount),
      amounts,
      what,
    )
  }
})

test('refunded money pays nothing again: a later payment covers what earlier payments did not cover before their refunds', () => {
  const charge = (amount: number): OrderChange => ({ type: 'adjusted', kind: amount < 0 ? 'discount' : 'fee', label: 'x', amount })
  const lines = (amount: number): OrderChange => ({ type: 'amended', amended: ['lines'], amount })
  const report = (state: PaymentState, reference = 'a'): OrderChange => ({ type: 'payment', provider: 'p', reference, state })
  const refund = (amount: number, state: PaymentState = 'partially_refunded', reference = 'a'): OrderChange => ({
    ...{ type: 'payment', provider: 'p', reference, state },
    refund: { amount },
  })
  const [authorized, paid, whole, second] = [report('authorized'), report('paid'), report('refunded'), report('paid', 'b')]
  const goodwill = [paid, refund(300)]
  for (const [changes, due, refunded, left] of [
    [[paid, refund(500), charge(250), second], null, 500, [500, 250]],
    [[...goodwill, charge(500), second], null, 300, [700, 500]],
    [[...goodwill, charge(500), second, whole], null, 1_000, [500]],
    [[...goodwill, charge(500), whole, second], null, 1_000, [1_500]],
    // The customer pays a second time by mistake, and the shop pays that back.
    [[...goodwill, second], null, 300, [700, 1_000]],
    [[...goodwill, second, refund(1_000, 'refunded', 'b'), charge(200), report('paid', 'c')], null, 1_300, [700, 200]],
    // Everything was paid back, so another payment may pay the whole total again.
    [[paid, refund(1_000, 'refunded'), charge(250), second], null, 1_000, [1_250]],
    // The shop knows what it owed.
    [[paid, lines(-300), refund(300)], 0, 300, [700]],
    [[paid, lines(-300), refund(300), lines(500), second], 0, 300, [700, 500]],
    [[paid, second, refund(1_000, 'refunded', 'b')], 0, 1_000, [1_000]],
    [[paid, second, refund(400, 'partially_refunded', 'b'), refund(600, 'refunded', 'b'), charge(200)], 200, 1_000, [1_000]],
    // At most the paid amount is refunded.
    [[paid, charge(500), second, report('refunded', 'b')], 500, 500, [1_000]],
    [[paid, charge(500), second, refund(100), report('refunded', 'b')], null, 600, [900]],
    [[authorized, charge(-300), paid, refund(700), whole], null, 700, []],
    [[authorized, lines(-300), paid, refund(700), whole], null, 700, []],
    [[authorized, charge(-300), paid, refund(800), whole], null, 800, []],
    [[paid, report('partially_refunded'), refund(700), whole], null, null, []],
  ] as const) {
    const history = [undefined, ...changes].map((change) => ({
      ...{ status: 'pending' as const, at: '2026-03-01T10:00:00.000Z', actor: { type: 'admin' as const, id: null }, reason: null },
      ...(change === undefined ? {} : { change }),
    }))
    const known = refundsOf(history, EUR(1_000))
    assert.deepEqual(
      [dueOf(history, 1_000), known.refunded?.amount ?? null, known.refundable.map((payment) => payment.left.amount)],
      [due, refunded, left],
      JSON.stringify(changes),
    )
    const { data } = makeOrderEvent({ order: { status_history: history, original_total: EUR(1_000) } })
    const rows = listPaymentEntries(data.order).map(({ state, amount }) => (state.includes('refunded') ? (amount ?? null) : 0))
    const sum = rows.includes(null) ? null : rows.reduce<number>((total, amount) => total + (amount ?? 0), 0)
    if (changes.some((change) => 'refund' in change)) assert.equal(sum, refunded, JSON.stringify(changes))
  }
})

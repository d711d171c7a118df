import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { addBuyer } from '../../test/buyers.ts'
import { assertProblem } from '../../test/problem.ts'
import { startSecondProcess, startStore } from '../../test/store.ts'
import { expireOrders } from './expire-orders.ts'
import { allowedTransitions } from './order-status.ts'

const store = await startStore({ after }, { customerCancel: 'confirmed' })
const [ada, operator] = [await store.register(), await addBuyer(store, 'admin')]
const token = operator.token
const TRACKING = { carrier: 'DHL', number: 'JJD 0001', url: 'https://track.example/1' }

type Part = 'shipments' | 'cancellations' | 'returns'
const change = (id: string, part: Part, body: object, headers: Record<string, string> = {}, by: Pick<typeof store, 'call'> = store) =>
  by.call('POST', `/admin/orders/${id}/${part}`, { token, body: part === 'returns' ? { restock: true, ...body } : body, headers })
/** Sends a change again while the machine is too busy to get its locks. */
async function changeSurely(...sent: Parameters<typeof change>): ReturnType<typeof change> {
  for (;;) {
    const answer = await change(...sent)
    if (answer.status !== 503) return answer
  }
}
const move = (id: string, to: string) => store.call('POST', `/admin/orders/${id}/transitions`, { token, body: { to } })
const row = async (id: string) =>
  (await store.pool.query('select status, version, status_history, items, total_amount from orders where id = $1', [id])).rows[0]

/** Places an order of five lamps at 10.00 and three mugs at 2.50. The stock has twice these numbers. */
async function place(...moves: string[]) {
  const lamp = await store.addProduct({ stock: 10, amount: 1_000 })
  const mug = await store.addProduct({ stock: 6, amount: 250 })
  const items = [
    { product_id: lamp.id, quantity: 5 },
    { product_id: mug.id, quantity: 3 },
  ]
  const placed = await store.call('POST', '/orders', { token: ada.token, body: { items } })
  assert.equal(placed.status, 201, placed.text)
  assert.deepEqual([placed.json.total, placed.json.original_total, placed.json.parcels], [EUR(5_750), EUR(5_750), []])
  for (const to of moves) assert.equal((await move(placed.json.id, to)).status, 200)
  const stock = async () => (await store.readStock(lamp, mug)).join()
  return { id: placed.json.id as string, lamp, mug, stock, lines: partsOf(lamp.id, mug.id) }
}
const EUR = (amount: number) => ({ amount, currency: 'EUR' })
const partsOf = (lamp: string, mug: string) => (lamps: number, mugs: number) =>
  [
    { product_id: lamp, quantity: lamps },
    { product_id: mug, quantity: mugs },
  ].filter(({ quantity }) => quantity !== 0)

const AFTER_A_PARCEL = allowedTransitions('confirmed').filter((to) => to !== 'cancelled')

test('ships an order in parcels with their own tracking, and the last parcel ships the order', async () => {
  const { id, lines, stock } = await place('confirmed')
  const first = await change(id, 'shipments', { lines: lines(2, 0), tracking: TRACKING, reference: 'parcel-1' })
  assert.equal(first.status, 200, first.text)
  assert.deepEqual([first.json.status, first.json.version, first.json.allowed_transitions], ['confirmed', 3, AFTER_A_PARCEL])
  assert.deepEqual(
    first.json.items.map(({ shipped }: { shipped?: number }) => shipped),
    [2, undefined],
  )
  const parcel = { version: 3, shipped_at: first.json.updated_at, reference: 'parcel-1', tracking: TRACKING, lines: lines(2, 0) }
  assert.deepEqual(first.json.parcels, [parcel])
  assert.deepEqual(first.json.status_history[2], {
    status: 'confirmed',
    at: first.json.updated_at,
    actor: { type: 'admin', id: operator.id },
    reason: null,
    reference: 'parcel-1',
    tracking: TRACKING,
    change: { type: 'shipped', lines: lines(2, 0) },
  })

  assert.equal((await change(id, 'shipments', { lines: lines(1, 3) })).json.status, 'confirmed')
  const last = await change(id, 'shipments', { tracking: { carrier: 'DHL', number: '3' } })
  assert.deepEqual([last.json.status, last.json.version], ['shipped', 5])
  assert.deepEqual(
    last.json.parcels.map((one: { lines: object[] }) => one.lines),
    [lines(2, 0), lines(1, 3), lines(2, 0)],
  )
  const own = (await store.call('GET', `/orders/${id}`, { token: ada.token })).json
  const [listed] = (await store.call('GET', '/orders?limit=1', { token: ada.token })).json.data
  for (const shown of [own, listed]) {
    assert.deepEqual([shown.parcels, shown.items, shown.total], [last.json.parcels, last.json.items, EUR(5_750)])
  }
  assert.deepEqual(own.timeline[2].change, { type: 'shipped', lines: lines(2, 0) })
  assert.equal(await stock(), '5,3')
  assert.equal((await move(id, 'delivered')).status, 200)
})

test('a move of the whole order shows its units and one parcel, and its history is as in releases without parts', async () => {
  const { id, lines } = await place('confirmed', 'shipped')
  const shown = (await store.call('GET', `/admin/orders/${id}`, { token })).json
  assert.deepEqual(shown.parcels, [{ version: 3, shipped_at: shown.updated_at, lines: lines(5, 3) }])
  assert.deepEqual(Object.keys(shown.status_history[2]).sort(), ['actor', 'at', 'reason', 'status'])
  const part = await change(id, 'returns', { lines: lines(1, 0) })
  assert.deepEqual([part.json.status, part.json.items[0].shipped, part.json.items[0].returned], ['shipped', 5, 1])
  const rest = await move(id, 'returned')
  assert.deepEqual([rest.json.status, rest.json.items[0].returned, rest.json.items[1].returned], ['returned', 5, 3])
  assert.deepEqual(rest.json.status_history.at(-1).change, { type: 'returned', lines: lines(4, 3), restock: false })
})

test('cancelled lines lower the total and return to stock, and the placed content stays', async () => {
  const { id, lines, stock } = await place()
  const before = await row(id)
  const first = await change(id, 'cancellations', { lines: lines(2, 1), reason: 'no longer made' })
  assert.deepEqual([first.json.status, first.json.total, first.json.original_total], ['pending', EUR(3_500), EUR(5_750)])
  assert.deepEqual(first.json.status_history.at(-1).change, { type: 'lines_cancelled', lines: lines(2, 1), amount: -2_250 })
  assert.equal(await stock(), '7,4')
  assert.equal((await move(id, 'confirmed')).status, 200)
  const second = await change(id, 'cancellations', { lines: lines(0, 2) })
  assert.deepEqual([second.json.status, second.json.total], ['confirmed', EUR(3_000)])
  const last = await change(id, 'cancellations', {})
  assert.deepEqual([last.json.status, last.json.total, last.json.allowed_transitions], ['cancelled', EUR(3_000), []])
  assert.equal(await stock(), '10,6')
  const now = await row(id)
  assert.deepEqual([now?.items, now?.total_amount], [before?.items, 5_750])
  const { rows } = await store.pool.query(
    'select action, actor_id, before, after from activities where subject_id = $1 order by activities.id',
    [id],
  )
  const made = ['cancelLines', 'moveOrder', 'cancelLines', 'cancelLines'].map((action) => [action, operator.id])
  assert.deepEqual(
    rows.map(({ action, actor_id }) => [action, actor_id]),
    made,
    'each change is recorded',
  )
  assert.deepEqual(
    [rows[0]?.before, rows[0]?.after],
    [
      { status: 'pending', version: 1, total: EUR(5_750) },
      { status: 'pending', version: 2, total: EUR(3_500), change: { type: 'lines_cancelled', units: 3 } },
    ],
  )
})

test('the shipped and returned units decide the status when no unit is open', async () => {
  const shipped = await place('confirmed')
  await change(shipped.id, 'shipments', { lines: shipped.lines(5, 0) })
  const rest = await change(shipped.id, 'cancellations', {})
  assert.deepEqual([rest.json.status, rest.json.total, await shipped.stock()], ['shipped', EUR(5_000), '5,6'])

  const returned = await place('confirmed')
  await change(returned.id, 'shipments', { lines: returned.lines(5, 0) })
  const back = await change(returned.id, 'returns', { lines: returned.lines(5, 0), restock: false })
  assert.deepEqual([back.json.status, await returned.stock()], ['confirmed', '5,3'])
  assert.equal((await change(returned.id, 'cancellations', {})).json.status, 'returned')

  const delivered = await place('confirmed', 'shipped', 'delivered')
  const some = await change(delivered.id, 'returns', { lines: delivered.lines(1, 3) })
  assert.deepEqual([some.json.status, some.json.total, await delivered.stock()], ['delivered', EUR(5_750), '6,6'])
  assert.equal((await change(delivered.id, 'returns', { restock: false })).json.status, 'returned')
  assert.equal(await delivered.stock(), '6,6')
})

test('a customer cancels the rest of an unshipped order, but no order that is partly shipped', async () => {
  const open = await place()
  await change(open.id, 'cancellations', { lines: open.lines(5, 0) })
  const cancelled = await store.call('POST', `/orders/${open.id}/cancel`, { token: ada.token })
  assert.deepEqual([cancelled.json.status, cancelled.json.total, await open.stock()], ['cancelled', EUR(750), '10,6'])

  const { id, lines, stock } = await place('confirmed')
  await change(id, 'shipments', { lines: lines(1, 0) })
  const own = assertProblem(await store.call('POST', `/orders/${id}/cancel`, { token: ada.token }), 409, 'illegal_transition')
  assert.deepEqual(own.allowed_transitions, AFTER_A_PARCEL)
  assert.equal(own.detail, 'A part of the order is shipped, so it cannot be cancelled as a whole.')
  const refused = assertProblem(await move(id, 'cancelled'), 409, 'illegal_transition')
  assert.equal(refused.detail, `${own.detail} The rest is cancelled by POST /admin/orders/${id}/cancellations.`)
  assert.equal(await stock(), '5,3')
})

test('refuses too many units, unknown products and changes that the status does not allow', async () => {
  const { id, lines, lamp } = await place()
  assertProblem(await change(id, 'shipments', {}), 409, 'illegal_transition', 'pending')
  assertProblem(await change(id, 'returns', {}), 409, 'illegal_transition', 'nothing is shipped')
  await move(id, 'confirmed')
  await change(id, 'shipments', { lines: lines(2, 0) })
  const exceeded = assertProblem(await change(id, 'shipments', { lines: lines(4, 3) }), 409, 'quantity_exceeded')
  assert.deepEqual(exceeded.exceeded, [{ product_id: lamp.id, requested: 4, available: 3 }])
  assertProblem(await change(id, 'cancellations', { lines: lines(4, 0) }), 409, 'quantity_exceeded')
  assertProblem(await change(id, 'returns', { lines: lines(3, 0) }), 409, 'quantity_exceeded')
  assertProblem(await change(id, 'returns', { lines: lines(2, 1) }), 409, 'quantity_exceeded')
  const unknown = assertProblem(
    await change(id, 'shipments', { lines: [...lines(1, 0), { product_id: randomUUID(), quantity: 1 }] }),
    422,
    'invalid_body',
  )
  assert.equal(unknown.errors[0].pointer, '#/lines/1/product_id')
  const wrong: object[] = [
    { lines: [...lines(1, 0), ...lines(1, 0)] },
    { lines: [...lines(1, 0), { product_id: lamp.id.toUpperCase(), quantity: 1 }] },
    { lines: lines(1, 0), tracking: { ...TRACKING, url: 'javascript:alert(1)' } },
  ]
  for (const body of wrong) assertProblem(await change(id, 'shipments', body), 422, 'invalid_body', JSON.stringify(body))
  assertProblem(await change(randomUUID(), 'shipments', {}), 404, 'not_found')
  assert.equal((await row(id))?.version, 3)

  const gone = await place('confirmed', 'cancelled')
  for (const part of ['shipments', 'cancellations', 'returns'] as const) {
    assertProblem(await change(gone.id, part, {}), 409, 'illegal_transition')
    assertProblem(await change(gone.id, part, { lines: gone.lines(1, 0) }), 409, 'illegal_transition')
  }
})

test('makes a change once per reference, and refuses the reference for another body', async () => {
  const { id, lines, stock } = await place('confirmed')
  const body = { lines: lines(2, 0), reference: 'parcel-1', tracking: TRACKING }
  const first = await change(id, 'shipments', body, { 'if-match': '"2"' })
  const again = await change(id, 'shipments', body, { 'if-match': '"2"' })
  assert.deepEqual([again.status, again.headers['idempotency-replayed'], again.json], [200, 'true', first.json])
  for (const other of [{ lines: lines(2, 1) }, { lines: lines(1, 0) }, { lines: undefined }, { tracking: null }]) {
    assertProblem(await change(id, 'shipments', { ...body, ...other }), 409, 'change_reference_taken', JSON.stringify(other))
  }
  assertProblem(await change(id, 'shipments', { lines: lines(1, 0) }, { 'if-match': '"2"' }), 412, 'precondition_failed')
  const back = { lines: lines(1, 0), reference: 'rma-1', restock: true }
  for (let sent = 0; sent < 3; sent++) assert.equal((await change(id, 'returns', back)).status, 200)
  assertProblem(await change(id, 'returns', { ...back, restock: false }), 409, 'change_reference_taken')
  assert.equal(await stock(), '6,3')

  const rest = await change(id, 'shipments', { reference: 'parcel-2' })
  assert.equal(rest.json.status, 'shipped')
  assert.equal((await change(id, 'shipments', { reference: 'parcel-2' })).headers['idempotency-replayed'], 'true')
  assert.equal((await change(id, 'shipments', { reference: 'parcel-2', lines: lines(3, 3) })).headers['idempotency-replayed'], 'true')
  const whole = await store.call('POST', `/admin/orders/${id}/transitions`, { token, body: { to: 'shipped', reference: 'parcel-2' } })
  assert.equal(whole.headers['idempotency-replayed'], 'true')
  const part = await store.call('POST', `/admin/orders/${id}/transitions`, { token, body: { to: 'confirmed', reference: 'parcel-1' } })
  assertProblem(part, 409, 'illegal_transition', 'the parcel did not confirm the order')
  assert.equal((await row(id))?.version, 5)
})

test('two operators who ship the same units at once from two processes make one parcel', async (t) => {
  const second = await startSecondProcess(t, store)
  const { id, lines } = await place('confirmed')
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, index) => changeSurely(id, 'shipments', { lines: lines(3, 2) }, {}, index % 2 === 0 ? store : second)),
  )
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, ...Array(7).fill(409)])
  for (const answer of answers) if (answer.status === 409) assertProblem(answer, 409, 'quantity_exceeded')
  const same = await Promise.all(
    Array.from({ length: 8 }, (_, index) => changeSurely(id, 'shipments', { reference: 'p' }, {}, index % 2 === 0 ? store : second)),
  )
  assert.deepEqual([...new Set(same.map(({ status, json }) => `${status} ${json.version}`))], ['200 4'])
  assert.equal((await row(id))?.status_history.length, 4)
})

test('an order that expires returns its open units to stock, and a partly shipped order does not expire', async () => {
  const [pending, shipped] = [await place(), await place('confirmed')]
  await change(pending.id, 'cancellations', { lines: pending.lines(4, 3) })
  await change(shipped.id, 'shipments', { lines: shipped.lines(1, 0) })
  await expireOrders(store.pool, 1, new Date(Date.now() + 86_400_000))
  assert.deepEqual([(await row(pending.id))?.status, await pending.stock()], ['cancelled', '10,6'])
  assert.deepEqual([(await row(shipped.id))?.status, await shipped.stock()], ['confirmed', '5,3'])
  assert.deepEqual((await row(pending.id))?.status_history.at(-1).change, { type: 'lines_cancelled', lines: pending.lines(1, 0) })
})

test('the database refuses changes of units that do not exist, and totals below zero', async () => {
  const { id, lines } = await place('confirmed')
  await change(id, 'shipments', { lines: lines(2, 0) })
  await change(id, 'returns', { lines: lines(1, 0) })
  const write = (entry: object) =>
    store.pool.query(
      `update orders set version = version + 1, status_history = status_history || jsonb_build_array(status_history -> -1 || $2::jsonb) where id = $1`,
      [id, JSON.stringify(entry)],
    )
  const wrong: object[] = [
    { type: 'shipped', lines: lines(4, 0) },
    { type: 'lines_cancelled', lines: lines(4, 0), amount: -1 },
    { type: 'returned', lines: lines(2, 0), restock: true },
    { type: 'shipped', lines: [{ product_id: randomUUID(), quantity: 1 }] },
    { type: 'shipped', lines: lines(0.5, 0) },
    { type: 'shipped', lines: lines(-1, 0) },
    { type: 'shipped', lines: [{ product_id: lines(1, 0)[0]?.product_id, quantity: 'one' }] },
    { type: 'adjusted', amount: -5_751 },
    { type: 'adjusted', amount: 0.5 },
    { type: 'adjusted', amount: 'much' },
    { type: '' },
    { lines: [] },
  ]
  for (const entry of wrong) {
    await assert.rejects(write({ change: entry }), { code: '23514', constraint: 'orders_changes_add_up' }, JSON.stringify(entry))
  }
  await assert.rejects(write({ change: 'shipped' }), { constraint: 'orders_changes_add_up' })
  await write({ change: { type: 'adjusted', kind: 'discount', label: 'All of it', amount: -5_750 } })
  assert.equal((await store.call('GET', `/admin/orders/${id}`, { token })).json.total.amount, 0)
})

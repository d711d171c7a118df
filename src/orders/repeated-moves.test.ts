import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { addBuyer } from '../../test/buyers.ts'
import { assertProblem } from '../../test/problem.ts'
import { startSecondProcess, startStore } from '../../test/store.ts'

const store = await startStore({ after })
const [ada, operator] = [await store.register(), await addBuyer(store, 'admin')]
const token = operator.token
const TRACKING = { carrier: 'DHL', number: 'JJD 0001', url: 'https://track.example/parcels?id=JJD%200001' }

async function place(product: { id: string }, quantity = 1): Promise<string> {
  const { status, json, text } = await store.call('POST', '/orders', {
    token: ada.token,
    body: { items: [{ product_id: product.id, quantity }] },
  })
  assert.equal(status, 201, text)
  return json.id
}
const move = (id: string, body: object, headers: Record<string, string> = {}, by: Pick<typeof store, 'call'> = store) =>
  by.call('POST', `/admin/orders/${id}/transitions`, { token, body, headers })
async function moveLines(lines: object[]) {
  const answer = await store.call('POST', '/admin/orders/transitions', {
    token,
    raw: lines.map((line) => JSON.stringify(line)).join('\n'),
    headers: { 'content-type': 'application/x-ndjson' },
  })
  assert.equal(answer.status, 200, answer.text)
  return answer.text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
}
const row = async (id: string) =>
  (await store.pool.query('select status, version, status_history, updated_at from orders where id = $1', [id])).rows[0]

test('makes a transition once per reference, and answers a repeat with the current order', async () => {
  const lamp = await store.addProduct({ stock: 10 })
  const id = await place(lamp, 3)
  const first = await move(id, { to: 'confirmed', reference: 'pay_1', reason: 'paid' })
  assert.equal(first.status, 200, first.text)
  assert.equal(first.headers['idempotency-replayed'], undefined)
  assert.deepEqual(first.json.status_history[1], {
    status: 'confirmed',
    at: first.json.updated_at,
    actor: { type: 'admin', id: operator.id },
    reason: 'paid',
    reference: 'pay_1',
  })
  const before = await row(id)
  const again = await move(id, { to: 'confirmed', reference: 'pay_1' })
  assert.deepEqual([again.status, again.headers['idempotency-replayed']], [200, 'true'])
  assert.deepEqual(again.json, first.json)
  assert.deepEqual(await row(id), before)

  await move(id, { to: 'cancelled', reference: 'refund_1' })
  assert.deepEqual(await store.readStock(lamp), [10])
  const late = await move(id, { to: 'confirmed', reference: 'pay_1' })
  assert.deepEqual([late.status, late.json.status, late.json.version], [200, 'cancelled', 3])
  assert.equal((await move(id, { to: 'cancelled', reference: 'refund_1' })).status, 200)
  assert.deepEqual([(await row(id))?.version, await store.readStock(lamp)], [3, [10]])
})

test('restocks returned goods once when the return is repeated', async () => {
  const lamp = await store.addProduct({ stock: 10 })
  const id = await place(lamp, 4)
  for (const to of ['confirmed', 'shipped']) await move(id, { to })
  for (let sent = 0; sent < 3; sent++) assert.equal((await move(id, { to: 'returned', restock: true, reference: 'rma-7' })).status, 200)
  assert.deepEqual(await store.readStock(lamp), [10])
})

test('recognises a repeated move before it compares versions', async () => {
  const id = await place(await store.addProduct())
  const body = { to: 'confirmed', reference: 'pay_2' }
  assert.equal((await move(id, body, { 'if-match': '"1"' })).status, 200)
  assert.equal((await move(id, body, { 'if-match': '"1"' })).status, 200)
  assertProblem(await move(id, { ...body, reference: 'pay_3' }, { 'if-match': '"1"' }), 412, 'precondition_failed')
  assertProblem(await move(id, { to: 'shipped', reference: 'pay_2' }, { 'if-match': '"1"' }), 412, 'precondition_failed')
})

test('refuses the same move with another reference and names the existing one', async () => {
  const id = await place(await store.addProduct())
  await move(id, { to: 'confirmed', reference: 'pay_4' })
  const other = assertProblem(await move(id, { to: 'confirmed', reference: 'pay_5' }), 409, 'illegal_transition')
  assert.deepEqual([other.current_status, other.current_reference], ['confirmed', 'pay_4'])
  const without = assertProblem(await move(id, { to: 'confirmed' }), 409, 'illegal_transition')
  assert.equal(without.current_reference, undefined)
  await move(id, { to: 'shipped' })
  assert.equal(assertProblem(await move(id, { to: 'shipped', reference: 'parcel' }), 409, 'illegal_transition').current_reference, null)
  const past = assertProblem(await move(id, { to: 'confirmed', reference: 'pay_5' }), 409, 'illegal_transition')
  assert.deepEqual([past.current_status, past.current_reference], ['shipped', undefined])
  assert.equal((await row(id))?.version, 3)
})

test('makes one of many moves with the same reference from two processes at once, and answers each with 200', async (t) => {
  const second = await startSecondProcess(t, store)
  const lamp = await store.addProduct({ stock: 10 })
  const id = await place(lamp, 2)
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, index) => move(id, { to: 'cancelled', reference: 'refund_2' }, {}, index % 2 === 0 ? store : second)),
  )
  assert.deepEqual([...new Set(answers.map(({ status, json }) => `${status} ${json.version}`))], ['200 2'])
  assert.equal(answers.filter(({ headers }) => headers['idempotency-replayed'] === undefined).length, 1)
  assert.deepEqual(await store.readStock(lamp), [10])
})

test('shows the customer the reference and parcel in order, list and timeline, and leaves other entries unchanged', async () => {
  const id = await place(await store.addProduct())
  await move(id, { to: 'confirmed' })
  const shipped = await move(id, { to: 'shipped', reference: 'parcel-1', tracking: TRACKING })
  assert.equal(shipped.status, 200, shipped.text)
  const own = (await store.call('GET', `/orders/${id}`, { token: ada.token })).json
  const [listed] = (await store.call('GET', '/orders?limit=1', { token: ada.token })).json.data
  for (const order of [own, listed, shipped.json]) {
    const [pending, confirmed, last] = order.status_history
    for (const entry of [pending, confirmed]) assert.deepEqual(Object.keys(entry).sort(), ['actor', 'at', 'reason', 'status'])
    assert.deepEqual([last.reference, last.tracking], ['parcel-1', TRACKING])
  }
  const [placed, , step] = own.timeline
  assert.deepEqual([step.status, step.reference, step.tracking], ['shipped', 'parcel-1', TRACKING])
  assert.deepEqual(Object.keys(placed).sort(), ['at', 'lake_at', 'mail', 'mail_copies', 'published_at', 'status', 'version'])
})

test('accepts a parcel only with a shipped order, and only with a web link', async () => {
  const id = await place(await store.addProduct())
  await move(id, { to: 'confirmed' })
  const wrong: object[] = [
    { to: 'cancelled', tracking: TRACKING },
    ...[
      'javascript:alert(1)',
      '/parcels/1',
      'ftp://track.example/1',
      'https://',
      'https://a b.example/',
      'https://user:secret@track.example/1',
      'https://user@track.example/1',
      'https://[::1/1',
      `https://track.example/${'p'.repeat(2_000)}`,
    ].map((url) => ({ to: 'shipped', tracking: { ...TRACKING, url } })),
  ]
  for (const body of wrong) assertProblem(await move(id, body), 422, 'invalid_body', JSON.stringify(body).slice(0, 100))
  const results = await moveLines(wrong.map((body) => ({ order_id: id, ...body })))
  assert.deepEqual(
    results.map(({ code }) => code),
    wrong.map(() => 'invalid_body'),
  )
  assert.equal((await row(id))?.version, 2)
  const bare = await move(id, { to: 'shipped', reference: null, tracking: { carrier: 'DHL', number: '1' } })
  assert.deepEqual(Object.keys(bare.json.status_history[2]).sort(), ['actor', 'at', 'reason', 'status', 'tracking'])
})

test('repeats moves by lines, even within one body, and marks the repeats', async () => {
  const lamp = await store.addProduct()
  const [a, b] = [await place(lamp), await place(lamp)]
  const lines = [
    { order_id: a, to: 'confirmed', reference: 'pay_a', version: 1 },
    { order_id: b, to: 'confirmed', reference: 'pay_b' },
    { order_id: a, to: 'shipped', reference: 'parcel_a', tracking: TRACKING },
    { order_id: a, to: 'confirmed', reference: 'pay_a', version: 1 },
    { order_id: b, to: 'confirmed', reference: 'pay_c' },
    { order_id: randomUUID(), to: 'confirmed', reference: 'pay_a' },
  ]
  const shown = (results: { ok: boolean; status?: string; version?: number; repeated?: true; code?: string }[]) =>
    results.map(({ ok, status, version, repeated, code }) => (ok ? `${status} ${version}${repeated ? ' repeated' : ''}` : code))
  assert.deepEqual(shown(await moveLines(lines)), [
    'confirmed 2',
    'confirmed 2',
    'shipped 3',
    'shipped 3 repeated',
    'illegal_transition',
    'not_found',
  ])
  assert.deepEqual(shown(await moveLines(lines)), [
    'shipped 3 repeated',
    'confirmed 2 repeated',
    'shipped 3 repeated',
    'shipped 3 repeated',
    'illegal_transition',
    'not_found',
  ])
  assert.deepEqual((await row(a))?.status_history[2].tracking, TRACKING)
})

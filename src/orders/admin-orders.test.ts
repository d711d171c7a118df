import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { addBuyer } from '../../test/buyers.ts'
import { assertProblem } from '../../test/problem.ts'
import { startStore } from '../../test/store.ts'
import { deleteExpiredKeys } from './placing/idempotency.ts'

const store = await startStore({ after }, { customerCancel: 'confirmed' })
const [ada, bob, operator] = [await store.register(), await store.register(), await addBuyer(store, 'admin')]
const token = operator.token

async function place(product: { id: string }, { quantity = 1, by = ada } = {}) {
  const { status, json, text } = await store.call('POST', '/orders', {
    token: by.token,
    body: { items: [{ product_id: product.id, quantity }] },
  })
  assert.equal(status, 201, text)
  return json
}
const search = (query: string) => store.call('GET', `/admin/orders?${query}`, { token })
const move = (id: string, body: unknown, headers: Record<string, string> = {}) =>
  store.call('POST', `/admin/orders/${id}/transitions`, { token, body, headers })
const moveLines = (lines: (object | string)[], as = token) =>
  store.call('POST', '/admin/orders/transitions', {
    token: as,
    raw: lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n'),
    headers: { 'content-type': 'application/x-ndjson' },
  })
const ids = (answer: { json: { data: { id: string }[] } }) => answer.json.data.map(({ id }) => id)

test('finds orders by status, customer, number, e-mail, product and period, and by combinations of them', async () => {
  const [lamp, vase] = [await store.addProduct(), await store.addProduct()]
  const [first, second, third] = [await place(lamp), await place(vase, { by: bob }), await place(lamp, { by: bob })]
  await move(third.id, { to: 'confirmed' })
  assert.deepEqual(ids(await search(`product_id=${lamp.id.toUpperCase()}`)), [third.id, first.id])
  assert.deepEqual(ids(await search(`product_id=${lamp.id}&status=pending`)), [first.id])
  assert.deepEqual(ids(await search(`product_id=${lamp.id}&user_id=${bob.id}`)), [third.id])
  assert.deepEqual(ids(await search(`number=${second.number}`)), [second.id])
  assert.deepEqual(ids(await search(`email=${encodeURIComponent(bob.email.toUpperCase())}`)), [third.id, second.id])
  const ofBob = `email=${encodeURIComponent(bob.email)}`
  assert.deepEqual(ids(await search(`${ofBob}&user_id=${bob.id}`)), [third.id, second.id])
  assert.deepEqual(ids(await search(`${ofBob}&user_id=${ada.id}`)), [])
  assert.deepEqual(ids(await search('email=nobody%40example.com')), [])
  assert.deepEqual(
    ids(await search(`from=${second.created_at}&to=${third.created_at}&user_id=${bob.id}`)),
    [second.id].filter(() => second.created_at !== third.created_at),
  )
  const [shown] = (await search(`number=${third.number}`)).json.data
  assert.deepEqual([shown.user_id, shown.status, shown.status_history[1].actor], [bob.id, 'confirmed', { type: 'admin', id: operator.id }])
  assert.equal((await store.call('GET', `/admin/orders/${second.id}`, { token })).json.user_id, bob.id)
  assertProblem(await search('from=2016-12-31T23:59:60Z'), 400, 'invalid_query')
})

test('answers 304 to a poll of the list until an order has changed', async () => {
  const product = await store.addProduct()
  const [order] = [await place(product), await place(product, { by: bob })]
  const path = `/admin/orders?product_id=${product.id}`
  const poll = (etag: string) => store.call('GET', path, { token, headers: { 'if-none-match': etag } })
  const first = await store.call('GET', path, { token })
  assert.equal(first.headers['cache-control'], 'no-store')
  const etag = String(first.headers.etag)
  const again = await poll(`W/${etag}`)
  assert.deepEqual([again.status, again.text, again.headers.etag], [304, '', etag])
  await move(order.id, { to: 'confirmed' })
  const changed = await poll(etag)
  assert.equal(changed.status, 200)
  assert.notEqual(changed.headers.etag, etag)
  assert.equal((await store.call('GET', `/admin/orders/${order.id}`, { token })).headers.etag, undefined, 'If-Match takes the version')
})

test('lists orders by number even if the clock goes back, and by time when the request has a period', async () => {
  const lamp = await store.addProduct()
  const [first, second] = [await place(lamp), await place(lamp)]
  await store.pool.query(`update orders set created_at = '2027-03-01T12:00:00Z' where id = $1`, [first.id])
  await store.pool.query(`update orders set created_at = '2027-03-01T10:00:00Z' where id = $1`, [second.id])
  for (const query of [`product_id=${lamp.id}`, `product_id=${lamp.id}&status=pending`]) {
    const page = await search(`${query}&limit=1`)
    assert.deepEqual(ids(page), [second.id])
    assert.deepEqual(ids(await search(`${query}&limit=1&cursor=${page.json.next_cursor}`)), [first.id])
  }
  const period = 'from=2027-03-01T00:00:00Z&to=2027-03-02T00:00:00Z&limit=1'
  const page = await search(period)
  assert.deepEqual(ids(page), [first.id])
  assert.deepEqual(ids(await search(`${period}&cursor=${page.json.next_cursor}`)), [second.id])
})

test('moves an order and stores the reason, only from the version in If-Match', async () => {
  const order = await place(await store.addProduct())
  const confirmed = await move(order.id, { to: 'confirmed', reason: 'paid' }, { 'if-match': '"1"' })
  assert.equal(confirmed.status, 200, confirmed.text)
  assert.deepEqual([confirmed.json.version, confirmed.json.allowed_transitions], [2, ['shipped', 'cancelled']])
  assert.deepEqual(confirmed.json.status_history[1], {
    status: 'confirmed',
    at: confirmed.json.updated_at,
    actor: { type: 'admin', id: operator.id },
    reason: 'paid',
  })
  const stale = assertProblem(await move(order.id, { to: 'shipped' }, { 'if-match': '"1"' }), 412, 'precondition_failed')
  assert.equal(stale.current_version, 2)
  const wrong = assertProblem(await move(order.id, { to: 'delivered' }, { 'if-match': '*' }), 409, 'illegal_transition')
  assert.deepEqual(wrong.allowed_transitions, ['shipped', 'cancelled'])
  assertProblem(await move(randomUUID(), { to: 'shipped' }), 404, 'not_found')
  for (const body of [{}, { to: 'lost' }, { to: 'shipped', status: 'shipped' }, { to: 'shipped', restock: true }])
    assertProblem(await move(order.id, body), 422, 'invalid_body', JSON.stringify(body))
})

test('one of two operators who move an order at once succeeds', async () => {
  const order = await place(await store.addProduct())
  const answers = await Promise.all(['confirmed', 'cancelled'].map((to) => move(order.id, { to }, { 'if-match': '"1"' })))
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 412])
})

test('restocks returned goods only when the operator asks for it', async () => {
  const lamp = await store.addProduct({ stock: 10 })
  for (const [restock, left] of [
    [false, 8],
    [true, 8],
  ] as const) {
    const order = await place(lamp, { quantity: 2 })
    for (const to of ['confirmed', 'shipped']) await move(order.id, { to })
    assert.equal((await move(order.id, { to: 'returned', restock })).status, 200)
    assert.deepEqual(await store.readStock(lamp), [left])
  }
})

test('moves many orders by lines, each independently of the others', async () => {
  const lamp = await store.addProduct({ stock: 10 })
  const [a, b, c] = [await place(lamp), await place(lamp, { by: bob }), await place(lamp)]
  const answer = await moveLines([
    { order_id: a.id, to: 'confirmed' },
    { order_id: a.id.toUpperCase(), to: 'shipped', reason: 'truck 7', version: 2 },
    '{"order_id":',
    '',
    { order_id: randomUUID(), to: 'confirmed' },
    { order_id: b.id, to: 'delivered' },
    { order_id: b.id, to: 'cancelled' },
    { order_id: c.id, to: 'confirmed', version: 9 },
    { order_id: c.id, to: 'confirmed', price: 1 },
  ])
  assert.equal(answer.status, 200, answer.text)
  assert.match(answer.headers['content-type'] ?? '', /^application\/x-ndjson/)
  const results = answer.text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  assert.deepEqual(
    results.map(({ line, ok, status, version, code }) => [line, ok, ok ? `${status} ${version}` : code]),
    [
      [1, true, 'confirmed 2'],
      [2, true, 'shipped 3'],
      [3, false, 'malformed_json'],
      [5, false, 'not_found'],
      [6, false, 'illegal_transition'],
      [7, true, 'cancelled 2'],
      [8, false, 'precondition_failed'],
      [9, false, 'invalid_body'],
    ],
  )
  assert.deepEqual(results[4].allowed_transitions, ['confirmed', 'cancelled'])
  assert.deepEqual(await store.readStock(lamp), [8])
  const { rows } = await store.pool.query('select status, version from orders where id = any($1) order by number', [[a.id, b.id, c.id]])
  assert.deepEqual(rows, [
    { status: 'shipped', version: 3 },
    { status: 'cancelled', version: 2 },
    { status: 'pending', version: 1 },
  ])
  assertProblem(await moveLines(Array(10_001).fill('{}')), 422, 'invalid_body')
  const untyped = assertProblem(await store.call('POST', '/admin/orders/transitions', { token, body: {} }), 415, 'unsupported_media_type')
  assert.match(untyped.detail, /application\/x-ndjson/)
  assertProblem(await store.call('POST', '/admin/orders/transitions', { token }), 415, 'unsupported_media_type', 'no body')
})

test('refuses a line with too many values for a move without explaining each fault', async () => {
  const order = await place(await store.addProduct())
  const names = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`n${index}`, 1]))
  const answer = await moveLines([
    names(2_900),
    names(66),
    names(20),
    `${'['.repeat(70)}${']'.repeat(70)}`,
    { order_id: order.id, to: 'confirmed', reason: '{"[,'.repeat(100) },
  ])
  const results = answer.text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  assert.deepEqual(
    results.map(({ line, ok, code, detail }) => [line, ok, code, detail]),
    [
      [1, false, 'invalid_body', 'The line has more than 64 values.'],
      [2, false, 'invalid_body', 'The line has more than 64 values.'],
      [3, false, 'invalid_body', 'the line must have required properties order_id, to'],
      [4, false, 'invalid_body', 'The line is nested more than 32 deep.'],
      [5, true, undefined, undefined],
    ],
  )
})

test('deletes only keys that are older than 24 hours', async () => {
  const lamp = await store.addProduct()
  const body = { items: [{ product_id: lamp.id, quantity: 1 }] }
  for (const key of ['old', 'young']) {
    for (const { token: by } of [ada, bob]) await store.call('POST', '/orders', { token: by, body, headers: { 'idempotency-key': key } })
  }
  await store.pool.query(`update idempotency_keys set created_at = now() - interval '24 hours 1 second' where key = 'old'`)
  assert.equal(await deleteExpiredKeys(store.pool), 2)
  const { rows } = await store.pool.query('select distinct key from idempotency_keys')
  assert.deepEqual(rows, [{ key: 'young' }])
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { collectLog } from '../../test/logs.ts'
import { startStore } from '../../test/store.ts'
import { isSampled, isTraceparent, newTraceparent, readTraceparent, spanIdOf, traceIdOf } from '../traceparent.ts'

const SENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'

const { logger, entries: lines } = collectLog<{ msg: string; trace_id?: string; route?: string }>()
const logged = (route: string) => lines.filter((line) => line.msg === 'request' && line.route === route).map((line) => line.trace_id)

test("the problem, the request's log line and the order's event contain the caller's trace", async (t) => {
  const store = await startStore(t, { logger })
  const customer = await store.register()
  const product = await store.addProduct({ stock: 1 })
  const place = (traceparent: string) =>
    customer.call('POST', '/orders', { headers: { traceparent }, body: { items: [{ product_id: product.id, quantity: 1 }] } })
  assert.equal((await place(SENT)).status, 201)
  const refused = await place(SENT)
  assert.deepEqual([refused.status, refused.json.trace_id], [409, TRACE])
  assert.deepEqual(logged('/orders'), [TRACE, TRACE])
  const { rows } = await store.pool.query('select traceparent from orders')
  assert.deepEqual(rows, [{ traceparent: SENT }])
})

test("stores a caller's trace of a later version as version 00, with only the sampling flag", async (t) => {
  const store = await startStore(t)
  const customer = await store.register()
  const product = await store.addProduct({ stock: 2 })
  const body = { items: [{ product_id: product.id, quantity: 1 }] }
  for (const flags of ['02', 'ff']) {
    const traceparent = `cc${SENT.slice(2, -2)}${flags}`
    await customer.ok('POST', '/orders', { headers: { traceparent }, body })
  }
  const { rows } = await store.pool.query('select traceparent from orders order by created_at')
  assert.deepEqual(rows, [{ traceparent: SENT.replace(/01$/, '00') }, { traceparent: SENT }])
})

test('a request without a valid trace gets a new one, the same in its problem and its log line', async (t) => {
  const store = await startStore(t, { logger })
  const wrong = [
    ...['', 'x', SENT.toUpperCase(), `${SENT}-00`, ` ${SENT}`, `ff${SENT.slice(2)}`, SENT.replace(TRACE, '0'.repeat(32))],
    ...[SENT.replace('00f067aa0ba902b7', '0'.repeat(16)), SENT.replace('4bf9', '../.'), '0'.repeat(100_000 / 10)],
  ]
  for (const traceparent of wrong) {
    lines.length = 0
    const { json } = await store.call('GET', '/orders', { headers: { traceparent, tracestate: 'a=b,'.repeat(2_000) } })
    assert.match(json.trace_id, /^(?!0{32})[0-9a-f]{32}$/, traceparent)
    assert.notEqual(json.trace_id, TRACE, traceparent)
    assert.deepEqual(logged('/orders'), [json.trace_id], traceparent)
  }
})

test('a page from memory has its trace in its log line', async (t) => {
  const store = await startStore(t, { logger, loggedRequests: 'all' })
  lines.length = 0
  for (let i = 0; i < 3; i++) await (await fetch(`${store.server.listeningOrigin}/products`, { headers: { traceparent: SENT } })).text()
  assert.deepEqual(logged('/products'), [TRACE, TRACE, TRACE])
})

test('reads the parts of a traceparent, and makes valid ones', () => {
  assert.deepEqual([traceIdOf(SENT), spanIdOf(SENT), isSampled(SENT)], [TRACE, '00f067aa0ba902b7', true])
  for (const [flags, sampled] of [
    ['00', false],
    ['02', false],
    ['03', true],
    ['ff', true],
  ] as const)
    assert.equal(isSampled(`${SENT.slice(0, -2)}${flags}`), sampled, flags)
  assert.deepEqual([SENT, `fe${SENT.slice(2, -2)}03`, 'x', null].map(readTraceparent), [SENT, SENT, null, null])
  const made = Array.from({ length: 100 }, newTraceparent)
  assert.ok(made.every((each) => isTraceparent(each) && !isSampled(each)))
  assert.equal(new Set(made.map(traceIdOf)).size, 100)
})

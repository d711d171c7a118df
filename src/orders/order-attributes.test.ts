import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { queryFolder } from '../../test/lake-harness.ts'
import { startAuditedStore } from '../../test/pipeline-audit.ts'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { startStore } from '../../test/store.ts'
import type { OrderEvent } from './events.ts'

const ATTRIBUTES = { channel: 'app "1"', gift: true, 'utm.score': 0.25, z: -1, a: '<b>é</b>' }

const ofBytes = (bytes: number) => ({
  ...Object.fromEntries([...'abcdefgh'].map((key) => [key, 'x'.repeat(490)])),
  z: 'x'.repeat(bytes - 3_984),
})

test('an order keeps its attributes in every answer, with their names in the same sequence', async (t) => {
  const store = await startStore(t)
  const [ada, lamp, { token }] = [await store.register(), await store.addProduct(), await registerOperator(store)]
  const items = [{ product_id: lamp.id, quantity: 1 }]
  const place = (attributes: unknown, headers: Record<string, string> = {}) =>
    store.call('POST', '/orders', { token: ada.token, body: { items, attributes }, headers })
  const placed = await place(ATTRIBUTES, { 'idempotency-key': 'one' })
  assert.equal(placed.status, 201, placed.text)
  const json = JSON.stringify(ATTRIBUTES)
  const { id } = placed.json
  for (const path of [`/orders/${id}`, '/orders']) {
    assert.ok((await store.call('GET', path, { token: ada.token })).text.includes(`"attributes":${json}`), path)
  }
  for (const path of [`/admin/orders/${id}`, '/admin/orders']) {
    assert.ok((await store.call('GET', path, { token })).text.includes(`"attributes":${json}`), path)
  }
  const cancelled = await store.call('POST', `/orders/${id}/cancel`, { token: ada.token })
  assert.deepEqual(cancelled.json.attributes, ATTRIBUTES)

  const retry = await place(ATTRIBUTES, { 'idempotency-key': 'one' })
  assert.equal(retry.text, placed.text)
  assert.equal(retry.headers['idempotency-replayed'], 'true')
  for (const other of [{ ...ATTRIBUTES, z: -2 }, undefined]) {
    assertProblem(await place(other, { 'idempotency-key': 'one' }), 422, 'idempotency_key_reused')
  }

  for (const none of [undefined, {}]) {
    const plain = await place(none)
    assert.equal('attributes' in plain.json, false)
    const { rows } = await store.pool.query('select attributes from orders where id = $1', [plain.json.id])
    assert.deepEqual(rows, [{ attributes: null }])
  }

  assert.equal((await place(ofBytes(4_096))).status, 201)
  const { rows: before } = await store.pool.query('select count(*) from orders')
  const many = Object.fromEntries(Array.from({ length: 51 }, (_, index) => [`k${index}`, index]))
  for (const wrong of [many, ofBytes(4_097), { ['k'.repeat(200_000)]: 1 }]) {
    assertProblem(await place(wrong), 422, 'invalid_body', JSON.stringify(wrong).slice(0, 60))
  }
  const raw = JSON.stringify({ items, attributes: '-' }).replace('"-"', '{"__proto__": {"polluted": 1}}')
  const headers = { 'content-type': 'application/json' }
  assertProblem(await store.call('POST', '/orders', { token: ada.token, raw, headers }), 422, 'invalid_body')
  assert.deepEqual((await store.pool.query('select count(*) from orders')).rows, before)
})

test('events and the lake have the attributes of an order, and no such member for an order without attributes', async (t) => {
  const store = await startAuditedStore(t)
  const stop = await store.startPipeline()
  const [ada, lamp] = [await store.register(), await store.addProduct()]
  const place = async (attributes?: object): Promise<string> => {
    const body = { items: [{ product_id: lamp.id, quantity: 1 }], attributes, client_reference: randomUUID() }
    const { status, json } = await store.call('POST', '/orders', { token: ada.token, body })
    assert.equal(status, 201)
    return json.id
  }
  const [full, plain] = [await place(ATTRIBUTES), await place()]
  await store.call('POST', `/orders/${full}/cancel`, { token: ada.token })
  await store.untilDelivered()
  const listEvents = async () =>
    (
      await store.pool.query<{ id: string; event: OrderEvent; text: string }>(
        'select id, event, event::text as text from topic_messages order by id',
      )
    ).rows
  const events = await listEvents()
  const ofFull = events.filter(({ event }) => event.subject === full)
  assert.equal(ofFull.length, 2)
  for (const { event } of ofFull) assert.equal(JSON.stringify(event.data.order.attributes), JSON.stringify(ATTRIBUTES))
  const ofPlain = events.filter(({ event }) => event.subject === plain)
  assert.ok(ofPlain.every(({ text }) => !text.includes('attributes')))
  const { rows } = await queryFolder(
    store.lake,
    `select order_id, attributes ->> 'channel', attributes from orders order by attributes is null`,
  )
  assert.deepEqual(rows, [
    [full, 'app "1"', JSON.stringify(ATTRIBUTES)],
    [plain, null, null],
  ])
  await stop()
  assert.deepEqual((await store.verify()).findings, [])
  // Replay publishes from the row the same event that the change stream published.
  await store.pool.query('delete from topic_messages where id = $1', [`${full}.2`])
  await store.replay()
  const withoutTrace = (all: { event: OrderEvent }[]) => all.map(({ event: { traceparent: _, ...rest } }) => JSON.stringify(rest))
  assert.deepEqual(withoutTrace(await listEvents()), withoutTrace(events))
})

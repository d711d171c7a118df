import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { onCleanup } from '../../test/cleanup.ts'
import { eventually } from '../../test/eventually.ts'
import { makeOrderItem } from '../../test/order-event-factory.ts'
import { startStore } from '../../test/store.ts'
import {
  beforeSlotsAreCreated,
  breakReader,
  confirmedPosition,
  insertOrders,
  makeStreamDatabase,
  moveOrder,
  readerPid,
  silent,
} from '../../test/stream-harness.ts'
import { type OrderEvent, type OrderRecord, toOrderEvent } from '../orders/events.ts'
import { ORDER_STATUSES } from '../orders/order-status.ts'
import { ORDERS } from '../topic/partitions.ts'
import { createPostgresTopic } from '../topic/postgres/postgres-topic.ts'
import type { OutgoingMessage, Topic } from '../topic/topic.ts'
import type { WatchedStream } from './change-stream.ts'
import { createOrderStreamHandler, toMessages } from './order-stream-handler.ts'
import { recreateBrokenSlot } from './recreate-slot.ts'
import { findLostReason, PUBLICATION } from './replication-slot.ts'
import { readRecordedPosition, recordLostSlot } from './slot-positions.ts'
import { mayBeMissing } from './stream-handler.ts'

type StreamDatabase = Awaited<ReturnType<typeof makeStreamDatabase>>

function makeRecord(overrides: Partial<OrderRecord> = {}): OrderRecord {
  return {
    id: '0197a9a5-1c1e-7cc0-8a3c-2f1a60a1b001',
    number: '100001',
    user_id: '0197a9a5-1c1e-7cc0-8a3c-2f1a60a1b002',
    status: 'pending',
    items: [makeOrderItem()],
    total_amount: '9007199254740991',
    currency: 'EUR',
    client_reference: null,
    shipping_address: null,
    note: null,
    version: 1,
    status_history: [],
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    created_at: new Date('2026-03-01T10:00:00.123Z'),
    updated_at: new Date('2026-03-01T11:00:00.456Z'),
    ...overrides,
  }
}

/** Runs the handler between the slot and the topic. */
async function startHandler(t: TestContext, db: StreamDatabase, topic: Topic): Promise<WatchedStream> {
  const stream = createOrderStreamHandler({ url: db.url, pool: db.pool, slotName: db.slotName, topic, logger: silent })
  onCleanup(t, () => stream.stop())
  await stream.start()
  return stream
}

/** A topic that calls `afterPublish` after each publish, before it returns to the caller. */
function watchedTopic(db: StreamDatabase, afterPublish: (messages: readonly OutgoingMessage[]) => Promise<void>): Topic {
  const topic = createPostgresTopic(ORDERS, { pool: db.pool, url: db.url, logger: silent })
  return {
    ...topic,
    async publish(messages) {
      await topic.publish(messages)
      await afterPublish(messages)
    },
  }
}

async function storedEvents(db: StreamDatabase): Promise<OrderEvent[]> {
  const { rows } = await db.pool.query<{ event: OrderEvent }>('select event from topic_messages order by sequence')
  return rows.map(({ event }) => event)
}

async function untilStored(db: StreamDatabase, count: number): Promise<OrderEvent[]> {
  return eventually(
    async () => {
      const events = await storedEvents(db)
      return events.length >= count && events
    },
    { what: `${count} events` },
  )
}

test("names the event after the order's new status", () => {
  const types = ORDER_STATUSES.map((status) => toOrderEvent(makeRecord({ status }), null).type)
  assert.deepEqual(types, [
    'storefront.order.created',
    'storefront.order.confirmed',
    'storefront.order.shipped',
    'storefront.order.delivered',
    'storefront.order.cancelled',
    'storefront.order.returned',
  ])
})

test('makes a CloudEvent with every required attribute, and with id and sequence from the version', () => {
  const record = makeRecord({ version: 12, status: 'shipped' })
  const { data, ...attributes } = toOrderEvent(record, makeRecord({ version: 11, status: 'confirmed' }))
  assert.deepEqual(attributes, {
    specversion: '1.0',
    id: `${record.id}.12`,
    source: '/orders',
    type: 'storefront.order.shipped',
    subject: record.id,
    time: '2026-03-01T11:00:00.456Z',
    datacontenttype: 'application/json',
    sequence: '0000000012',
    partitionkey: record.id,
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  })
  assert.equal(data.previous_status, 'confirmed')
  assert.deepEqual(data.order.total, { amount: 9_007_199_254_740_991, currency: 'EUR' })
  assert.equal(data.order.created_at, '2026-03-01T10:00:00.123Z')
  assert.deepEqual(data.order.items, record.items)
})

test('omits traceparent if the change has none', () => {
  assert.ok(!('traceparent' in toOrderEvent(makeRecord({ traceparent: null }), null)))
})

test("makes one message for each change of a commit, in order and at the commit's position", () => {
  const records = ['a', 'b'].map((id) => makeRecord({ id }))
  const messages = toMessages({ position: '7/000000000000000a', changes: records.map((record) => ({ record, previous: null })) })
  assert.deepEqual(
    messages.map(({ position, event }) => [position, event.id]),
    [
      ['7/000000000000000a', 'a.1'],
      ['7/000000000000000a', 'b.1'],
    ],
  )
})

test('a commit may be missing unless it is older than the newest message from the same log', () => {
  const newest = '7.1/00000000000000ff'
  assert.equal(mayBeMissing('7.1/00000000000000fe', newest), false)
  assert.equal(mayBeMissing('7.1/00000000000000ff', newest), true)
  assert.equal(mayBeMissing('7.1/0000000000000100', newest), true)
  assert.equal(mayBeMissing('7.2/0000000000000001', newest), true)
  assert.equal(mayBeMissing('8.1/0000000000000001', newest), true)
  // This position has no timeline.
  assert.equal(mayBeMissing('7.1/0000000000000001', '7/00000000000000ff'), true)
  assert.equal(mayBeMissing('7.1/0000000000000001', ''), true)
  assert.equal(mayBeMissing('7.1/0000000000000001', null), true)
})

test('publishes one event for each committed version of each order, in order', async (t) => {
  const db = await makeStreamDatabase(t)
  const [first = '', second = ''] = await insertOrders(db.pool, 2, 600)
  await startHandler(
    t,
    db,
    watchedTopic(db, async () => {}),
  )
  await moveOrder(db.pool, first, 'confirmed')
  await moveOrder(db.pool, first, 'shipped')
  await moveOrder(db.pool, second, 'cancelled')
  const events = await untilStored(db, 5)
  assert.deepEqual(
    events.map(({ id, data }) => [id, data.previous_status, data.order.items.length]),
    [
      [`${first}.1`, null, 600],
      [`${second}.1`, null, 600],
      [`${first}.2`, 'pending', 600],
      [`${first}.3`, 'confirmed', 600],
      [`${second}.2`, 'pending', 600],
    ],
  )
})

test('a crash between publish and confirm makes no second message, and repeats at most the newest commit', async (t) => {
  const db = await makeStreamDatabase(t)
  for (let order = 0; order < 5; order++) await insertOrders(db.pool, 1)
  const crashed = Promise.withResolvers<void>()
  await startHandler(
    t,
    db,
    watchedTopic(db, async () => {
      if ((await storedEvents(db)).length < 5) return
      await breakReader(db)
      crashed.resolve()
      // This call never returns, like in a process that has died.
      await new Promise<void>((resolve) => onCleanup(t, resolve))
    }),
  )
  await crashed.promise
  const newest = await createPostgresTopic(ORDERS, { pool: db.pool, url: db.url, logger: silent }).newestPosition()
  assert.ok((await confirmedPosition(db)) < BigInt(`0x${newest?.split('/')[1]}`))

  const published: string[] = []
  await startHandler(
    t,
    db,
    watchedTopic(db, async (messages) => void published.push(...messages.map(({ event }) => event.id))),
  )
  const [last] = await insertOrders(db.pool, 1)
  const events = await untilStored(db, 6)
  assert.deepEqual(
    events.map((event) => event.id),
    [...new Set(events.map((event) => event.id))],
  )
  assert.deepEqual([...new Set(published)], [events[4]?.id, `${last}.1`])
})

test('a handler whose confirmation was lost continues by itself without a second message', async (t) => {
  const db = await makeStreamDatabase(t)
  const sizes: number[] = []
  await startHandler(
    t,
    db,
    watchedTopic(db, async (messages) => {
      sizes.push(messages.length)
      if (sizes.length === 1) await breakReader(db)
    }),
  )
  await insertOrders(db.pool, 3)
  await eventually(async () => sizes.length > 1)
  const [last] = await insertOrders(db.pool, 1)
  const events = await untilStored(db, 4)
  assert.equal(events.at(-1)?.id, `${last}.1`)
  assert.equal(events.length, 4)
})

test('publishes the events that a failed publish did not store, once', async (t) => {
  const db = await makeStreamDatabase(t)
  let failures = 0
  const stream = await startHandler(
    t,
    db,
    watchedTopic(db, async () => {
      if (++failures <= 2) throw new Error('the answer of the topic was lost')
    }),
  )
  await insertOrders(db.pool, 2)
  await eventually(async () => stream.state === 'failing')
  await insertOrders(db.pool, 1)
  await eventually(async () => failures > 2 && stream.state === 'active')
  assert.equal((await untilStored(db, 3)).length, 3)
  assert.notEqual(await readerPid(db), null)
})

test('the event of a real order contains no e-mail address', async (t) => {
  const store = await startStore(t, { roles: ['api', 'stream'] })
  const email = `ada.lovelace+${crypto.randomUUID()}@example.com`
  const ada = await store.register({ email, name: 'Ada' })
  const lamp = await store.addProduct()
  const json = await ada.ok('POST', '/orders', { body: { items: [{ product_id: lamp.id, quantity: 1 }] } })
  const text = await eventually(async () => {
    const { rows } = await store.pool.query<{ text: string }>('select event::text as text from topic_messages')
    return rows[0]?.text
  })
  assert.equal(JSON.parse(text).subject, json.id)
  assert.ok(!text.includes('@'))
  assert.match(JSON.parse(text).traceparent, /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/)
})

test('a change of a row under the same version makes no event, because one was already published', async (t) => {
  const db = await makeStreamDatabase(t)
  const published: string[] = []
  const topic = watchedTopic(db, async (messages) => void published.push(...messages.map(({ event }) => event.id)))
  await startHandler(t, db, topic)
  const [first = ''] = await insertOrders(db.pool, 1)
  await untilStored(db, 1)
  await db.pool.query(`update orders set note = null, shipping_address = null where id = $1`, [first])
  await moveOrder(db.pool, first, 'confirmed')
  await db.pool.query(`update orders set note = 'changed by hand' where id = $1`, [first])
  const [second = ''] = await insertOrders(db.pool, 1)
  await untilStored(db, 3)
  assert.deepEqual(published, [`${first}.1`, `${first}.2`, `${second}.1`])
})

test('orders from before the publication make the slot count as lost, and the new slot publishes them in order', async (t) => {
  const db = await makeStreamDatabase(t)
  await db.pool.query(`drop publication ${PUBLICATION}`)
  const orders = await insertOrders(db.pool, 2)
  await db.pool.query(`create publication ${PUBLICATION} for table orders`)
  await moveOrder(db.pool, orders[0] ?? '', 'confirmed')
  await beforeSlotsAreCreated(db.pool, async () => {
    await startHandler(t, db, createPostgresTopic(ORDERS, { pool: db.pool, url: db.url, logger: silent }))
    const reason = await eventually(async () => (await findLostReason(db.pool, db.slotName)) ?? false, { what: 'a slot that is lost' })
    assert.equal(reason, `the replication slot ${db.slotName} is older than the publication ${PUBLICATION}`)
    assert.deepEqual(await storedEvents(db), [])
  })
  await untilStored(db, 3)
  // The slot is lost until the end of the refill is recorded.
  await eventually(async () => (await findLostReason(db.pool, db.slotName)) === null, { what: 'a slot that is not lost' })
})

test('a slot recreated after a stream had failed does not count as lost because of that failure', async (t) => {
  const db = await makeStreamDatabase(t)
  const position = await readRecordedPosition(db.pool, db.slotName)
  await db.pool.query('select pg_drop_replication_slot($1)', [db.slotName])
  await insertOrders(db.pool, 1)
  assert.equal(await recreateBrokenSlot(db.pool, db.url, db.slotName), true)
  await recordLostSlot(db.pool, db.slotName, 'it is older than the publication', position)
  assert.equal(await findLostReason(db.pool, db.slotName), null)
  await recordLostSlot(db.pool, db.slotName, 'it is broken', await readRecordedPosition(db.pool, db.slotName))
  assert.equal(await findLostReason(db.pool, db.slotName), 'it is broken')
})

test('the work before a publication goes no further once its slot is closed', async (t) => {
  const db = await makeStreamDatabase(t)
  const topic = createPostgresTopic(ORDERS, { pool: db.pool, url: db.url, logger: silent })
  const attempts: AbortSignal[] = []
  const hanging = Promise.withResolvers<void>()
  const stream = createOrderStreamHandler({
    ...{ url: db.url, pool: db.pool, slotName: db.slotName, topic, logger: silent },
    async beforePublishing(signal) {
      attempts.push(signal)
      if (attempts.length === 1) await hanging.promise
    },
  })
  onCleanup(t, () => stream.stop())
  await stream.start()
  await insertOrders(db.pool, 1)
  await eventually(async () => attempts.length === 1, { what: 'the first attempt' })
  await breakReader(db)
  await untilStored(db, 1)
  assert.deepEqual(
    attempts.map(({ aborted }) => aborted),
    [true, false],
  )
  // If the abandoned attempt continued, the stream would no longer count itself as failed.
  const reads = t.mock.method(db.pool, 'query')
  hanging.resolve()
  await setImmediate()
  assert.deepEqual(
    reads.mock.calls.map(({ arguments: [query] }) => JSON.stringify(query)).filter((text) => /database_incarnations/.test(text)),
    [],
  )
  await insertOrders(db.pool, 1)
  await untilStored(db, 2)
})

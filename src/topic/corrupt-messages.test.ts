import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { makeLakeDirectory, readSequences, startSink } from '../../test/lake-harness.ts'
import { startMailSubscriber } from '../../test/mail-harness.ts'
import { makeOrderEvent, makeOrderItem } from '../../test/order-event-factory.ts'
import { startAuditedStore, summarise } from '../../test/pipeline-audit.ts'
import { silent } from '../../test/stream-harness.ts'
import { makeOutgoing, subscribe } from '../../test/topic-harness.ts'
import { makeNewEvent, startWebhooks } from '../../test/webhook-harness.ts'
import { formatReport } from '../audit/verify/format-report.ts'
import { findEventDefect } from '../orders/event-defects.ts'
import { ORDERS } from './partitions.ts'
import { createPostgresTopic } from './postgres/postgres-topic.ts'
import type { CorruptMessage } from './topic.ts'

// biome-ignore lint/suspicious/noExplicitAny: made to be wrong
type Anything = any

/** A value that takes no event replaces the whole message. */
const DEFECTS: [reason: string, spoil: (event: Anything) => unknown][] = [
  ['it has no order', () => null],
  ['it has no order', () => []],
  ['it has no order', (event) => delete event.data],
  ['it has no order', (event) => delete event.data.order],
  ['id is not that of the order and its version', (event) => delete event.id],
  ['id is not that of the order and its version', (event) => (event.data.order.version = 2)],
  ['order.id is no UUID', (event) => (event.data.order.id = 'x')],
  ['order.user_id is no UUID', (event) => (event.data.order.user_id = event.data.order.user_id.toUpperCase().replace(/\d/g, 'G'))],
  ['order.version is no version', (event) => (event.data.order.version = 2 ** 31)],
  ['order.version is no version', (event) => (event.data.order.version = '1')],
  ['type is no type of an order event', (event) => (event.type = 'storefront.order.constructor')],
  ['order.number is no text', (event) => (event.data.order.number = '\ud800')],
  ['order.status is no status', (event) => (event.data.order.status = 'toString')],
  ['previous_status is no status', (event) => delete event.data.previous_status],
  ['order.total is no amount', (event) => (event.data.order.total.amount = 1e300)],
  ['order.total is no amount', (event) => (event.data.order.total.currency = '\udfff')],
  ['time is no time', (event) => (event.time = '2026-02-31T00:00:00.000Z')],
  ['created_at is no time', (event) => (event.data.order.created_at = '+010000-01-01T00:00:00.000Z')],
  ['updated_at is no time', (event) => (event.data.order.updated_at = null)],
  ['items is no list', (event) => (event.data.order.items = {})],
  ['items[0] is no line of an order', (event) => delete event.data.order.items[0].sku],
  ['items[0] is no line of an order', (event) => (event.data.order.items[0].quantity = 0.5)],
  ['status_history is no list', (event) => delete event.data.order.status_history],
  ['status_history[0] is no change of status', (event) => Object.assign(event.data.order.status_history[0], { reference: 7 })],
  ['status_history[0] is no change of status', (event) => Object.assign(event.data.order.status_history[0], { tracking: 'DHL 1' })],
]

function spoiled(spoil: (event: Anything) => unknown): unknown {
  const event = makeOrderEvent()
  const result = spoil(event)
  return spoil.length === 0 ? result : event
}

test('separates order events from other messages, and gives the reasons', () => {
  assert.equal(findEventDefect(makeOrderEvent()), null)
  for (const [reason, spoil] of DEFECTS) assert.equal(findEventDefect(spoiled(spoil)), reason, String(spoil))
})

test('mails, webhooks and lake skip every kind of message that is not an order event', async (t) => {
  const directory = makeLakeDirectory(t)
  const [mails, webhooks] = [await startMailSubscriber(t), await startWebhooks(t)]
  const sink = await startSink(t, directory, { flushRows: 2 })
  await webhooks.add('http://127.0.0.1:9/')
  for (const { db, name, handle, lastSequence } of [
    { db: mails.db, name: 'email', handle: mails.handle, lastSequence: undefined },
    { db: webhooks.db, name: 'webhook', handle: webhooks.handle, lastSequence: undefined },
    { db: webhooks.db, name: 'lake', handle: sink.handle, lastSequence: sink.lastSequence },
  ]) {
    const topic = createPostgresTopic(ORDERS, { pool: db.pool, url: db.url, logger: silent })
    const sent = makeOutgoing(2).map((message) => ({ ...message, event: makeNewEvent() }))
    if (name !== 'lake') {
      await topic.publish(sent.slice(0, 1))
      for (const [, spoil] of DEFECTS)
        await db.pool.query(`insert into topic_messages (id, position, event) values ($1, '', $2)`, [
          randomUUID(),
          JSON.stringify(spoiled(spoil)),
        ])
      await topic.publish(sent.slice(1))
    }
    const told: CorruptMessage[] = []
    const onCorrupt = (messages: readonly CorruptMessage[]) => void told.push(...messages)
    const subscription = await subscribe(t, topic, name, handle, lastSequence === undefined ? { onCorrupt } : { onCorrupt, lastSequence })
    await eventually(async () => told.length === DEFECTS.length && subscription.state === 'active', { what: `${name} has come past them` })
  }
  const { rows: queued } = await mails.db.pool.query('select event_id from email_deliveries')
  const { rows: events } = await webhooks.db.pool.query('select event_id from webhook_events')
  assert.deepEqual([queued.length, events.length], [2, 2])
  await eventually(async () => (await readSequences(directory)).length === 2, { what: 'a lake file' })
})

test('an event with an unpaired surrogate or a NUL in a line is valid', async (t) => {
  const sink = await startSink(t, makeLakeDirectory(t))
  const items = [makeOrderItem({ product_id: '\ud800', sku: '\0', name: 'a\udc00b' })]
  const event = makeOrderEvent({ order: { items } })
  assert.equal(findEventDefect(event), null)
  await sink.handle([{ sequence: 1, event }], new AbortController().signal)
  await sink.flush()
})

test('verify reports corrupt messages, and after they were deleted a replay publishes the events that they blocked', async (t) => {
  const store = await startAuditedStore(t)
  const stop = await store.startPipeline()
  const [order = ''] = await store.trade(1)
  await store.untilDelivered()
  await stop()
  const [held = ''] = await store.trade(1)
  await store.pool.query(`insert into topic_messages (id, position, event) values ($1, '', '{"id": "not what the column says"}')`, [
    `${held}.1`,
  ])
  await store.startPipeline()
  const [next = ''] = await store.trade(1)
  await eventually(async () => {
    const { rows } = await store.pool.query('select order_id from email_deliveries order by queued_at')
    return rows.map((row) => row.order_id).join() === [order, next].join()
  })
  const report = await store.verify()
  assert.deepEqual(summarise(report), ['topic missing 1', 'topic corrupt 1'])
  assert.match(formatReport(report), /topic: 1 corrupt \(no subscriber can use them: .*\)\n {2}sequence \d+: it has no order\n/)
  assert.equal((await store.replay()).corrupt, 1)
  await store.pool.query('delete from topic_messages where id = $1', [`${held}.1`])
  assert.equal((await store.replay()).corrupt, 0)
  await store.untilDelivered()
  assert.deepEqual((await store.verify()).findings, [])
})

import assert from 'node:assert/strict'
import { truncate, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { eventually } from '../../../test/eventually.ts'
import { listFiles, readEvents } from '../../../test/lake-harness.ts'
import { farFromMidnight } from '../../../test/midnight.ts'
import { type AuditedStore, startAuditedStore, startStoreWithFiles, summarise } from '../../../test/pipeline-audit.ts'
import { orderSlotOf } from '../../app/prepare-database.ts'
import { listLake } from '../../lake/list-files.ts'
import type { OrderEvent } from '../../orders/events.ts'
import { partitionMessages } from '../../topic/partition-messages.ts'
import { ORDERS } from '../../topic/partitions.ts'
import { repairLake } from './repair-lake.ts'
import { rewindSubscriber, UnknownSubscriber } from './rewind-subscriber.ts'

const now = () => new Date()

// Files of two days are not merged.
await farFromMidnight()

async function readTopic(store: AuditedStore): Promise<Map<string, OrderEvent>> {
  return new Map(partitionMessages(ORDERS, await store.topic.read(0, 10_000)).messages.map(({ event }) => [event.id, event]))
}

/** Event ids of one order, in the topic's order. */
async function sequenceOf(store: AuditedStore, orderId: string): Promise<string[]> {
  return [...(await readTopic(store)).keys()].filter((id) => id.startsWith(orderId))
}

const withoutTrace = ({ traceparent: _, ...event }: OrderEvent) => event

test('recreates every event as the change stream made it, except for the trace of older versions', async (t) => {
  const store = await startAuditedStore(t)
  const stop = await store.startPipeline()
  const orders = await store.trade(6)
  await store.untilDelivered()
  await stop()
  const before = await readTopic(store)
  await store.pool.query('truncate topic_messages')
  const { published, compared } = await store.replay()
  assert.deepEqual([published, compared], [8, 8])
  const after = await readTopic(store)
  assert.deepEqual([...after.keys()].sort(), [...before.keys()].sort())
  for (const [id, event] of before) assert.deepEqual(withoutTrace(after.get(id) as OrderEvent), withoutTrace(event))
  assert.equal(after.get(`${orders[0]}.1`)?.traceparent, before.get(`${orders[0]}.1`)?.traceparent)
  assert.deepEqual(await sequenceOf(store, orders[2] ?? ''), [`${orders[2]}.1`, `${orders[2]}.2`])
  assert.equal((await store.replay()).published, 0)
})

test('publishes only the events that its filter selects', async (t) => {
  const store = await startAuditedStore(t)
  const stop = await store.startPipeline()
  const [first = '', second = ''] = await store.trade(2)
  await store.untilDelivered()
  const since = now()
  const [third = ''] = await store.trade(1)
  await store.untilDelivered()
  await stop()
  await store.pool.query('truncate topic_messages')
  assert.equal((await store.replay({ orderId: second })).published, 1)
  assert.deepEqual([...(await readTopic(store)).keys()], [`${second}.1`])
  assert.equal((await store.replay({ since })).published, 1)
  assert.deepEqual([...(await readTopic(store)).keys()], [`${second}.1`, `${third}.1`])
  assert.equal((await store.replay()).published, 1)
  assert.deepEqual(await sequenceOf(store, first), [`${first}.1`])
})

test('publishes what a lost slot has missed, and a stream that refills the topic meanwhile publishes nothing twice', async (t) => {
  const store = await startStoreWithFiles(t, [3])
  await store.pool.query('select pg_drop_replication_slot($1)', [orderSlotOf(store.url)])
  await store.trade(6)
  assert.equal((await store.verify()).findings[0]?.kind, 'lost')
  const { published, slotLost } = await store.replay({ since: now() })
  assert.deepEqual([published, slotLost === null], [0, false])
  const trading = store.trade(9)
  const [first] = await Promise.all([store.replay(), store.startPipeline()])
  assert.ok(first.published >= 0)
  const later = await trading
  later.push(...(await store.trade(3)))
  await store.untilDelivered()
  assert.deepEqual((await store.verify()).findings, [])
  assert.equal((await store.replay()).slotLost, null)
  for (const id of later) {
    const ids = await sequenceOf(store, id)
    assert.deepEqual(ids, ids.toSorted())
  }
})

test('queues lost mails again, and sends no mail twice', async (t) => {
  const store = await startAuditedStore(t)
  await store.startPipeline()
  const [lost = ''] = await store.trade(4)
  await store.untilDelivered()
  await store.pool.query('delete from email_deliveries where order_id = $1', [lost])
  assert.deepEqual(summarise(await store.verify()), ['mails missing 1'])
  const { from, to } = await rewindSubscriber({ pool: store.pool, url: store.url, topic: store.topic, name: 'email' })
  assert.deepEqual([from > 0, to], [true, 0])
  await store.untilDelivered()
  assert.deepEqual((await store.verify()).findings, [])
  const { rows } = await store.pool.query('select distinct attempts from email_deliveries')
  assert.deepEqual(rows, [{ attempts: 1 }])
})

test('rewinds existing subscribers to a time, and never moves them forward', async (t) => {
  const store = await startAuditedStore(t)
  const stop = await store.startPipeline()
  await store.trade(2)
  await store.untilDelivered()
  const since = now()
  await store.trade(2)
  await store.untilDelivered()
  await stop()
  const options = { pool: store.pool, url: store.url, topic: store.topic, name: 'email' }
  const messages = await store.topic.read(0, 10)
  assert.deepEqual(await rewindSubscriber({ ...options, since }), { from: messages[3]?.sequence, to: messages[1]?.sequence })
  assert.deepEqual(await rewindSubscriber({ ...options, since: now() }), { from: messages[1]?.sequence, to: messages[1]?.sequence })
  const named = `${options.url}?application_name=shop`
  assert.equal((await rewindSubscriber({ ...options, url: named, since })).to, messages[1]?.sequence, 'whatever its connections are called')
  await assert.rejects(rewindSubscriber({ ...options, name: 'nobody' }), UnknownSubscriber)
})

test('writes events that the lake lacks and quarantines a corrupt file, and every event is in one file', async (t) => {
  const store = await startAuditedStore(t)
  await store.startPipeline()
  for (let file = 0; file < 4; file++) {
    await store.trade(2)
    await store.untilDelivered()
  }
  const files = (await listFiles(store.lake)).map((name) => join(store.lake, 'orders', name))
  await unlink(files[1] ?? '')
  await truncate(files[3] ?? '', 900)
  assert.equal((await store.verify()).findings.length, 2)
  const { quarantined, written } = await repairLake({ pool: store.pool, url: store.url, store: store.lakeStore, topic: store.topic, now })
  assert.deepEqual([quarantined, written], [[`${files[3]}.corrupt`], 4])
  assert.deepEqual((await store.verify()).findings, [])
  await store.trade(2)
  await eventually(async () => (await store.verify()).lake.events === 10, { what: 'the sink continues' })
  assert.deepEqual((await store.verify()).findings, [])
  assert.deepEqual((await repairLake({ pool: store.pool, url: store.url, store: store.lakeStore, topic: store.topic, now })).written, 0)
})

test('writes the events of damaged files, even if the topic has lost the events between them', async (t) => {
  const store = await startStoreWithFiles(t, [2, 2, 2])
  const [first = assert.fail(), second = assert.fail(), third = assert.fail()] = await listLake(store.lakeStore)
  for (const { name } of [first, third]) await truncate(store.lakeStore.locate(name), 900)
  await store.pool.query('delete from topic_messages where sequence between $1 and $2', [second.first, second.last])
  const { quarantined, written } = await repairLake({ pool: store.pool, url: store.url, store: store.lakeStore, topic: store.topic, now })
  assert.deepEqual([quarantined.length, written], [2, 4])
  assert.equal((await readEvents(store.lakeStore)).length, 6)
  assert.equal((await listFiles(store.lake)).length, 2)
  await store.replay()
})

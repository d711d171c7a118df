import assert from 'node:assert/strict'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, type TestContext, test } from 'node:test'
import { DiscardPolicy } from '@nats-io/jetstream'
import { headers, nanos, TimeoutError } from '@nats-io/transport-node'
import pino from 'pino'
import { onCleanup } from '../../../test/cleanup.ts'
import { topicConformance } from '../../../test/conformance/topic-conformance.ts'
import { createTestDatabase } from '../../../test/database.ts'
import { eventually } from '../../../test/eventually.ts'
import { collectLog } from '../../../test/logs.ts'
import { connectManager, connectNatsTopic } from '../../../test/nats-harness.ts'
import { NO_NATS, startNatsServer } from '../../../test/nats-server.ts'
import { makeOrderEvent, makeOrderItem } from '../../../test/order-event-factory.ts'
import { endSubscriberConnection, idsOf, makeOutgoing, Recording, subscribe } from '../../../test/topic-harness.ts'
import type { OrderEvent } from '../../orders/events.ts'
import { ORDERS } from '../partitions.ts'
import { createPostgresTopic, TopicMoved } from '../postgres/postgres-topic.ts'
import { type CorruptMessage, epochOf, type Topic, type TopicPartition } from '../topic.ts'
import { StreamMisconfigured } from './stream.ts'

const server = NO_NATS ? null : await startNatsServer({ after })
const url = server?.url ?? ''

async function makeTopic(t: TestContext, partition: TopicPartition<OrderEvent> = ORDERS) {
  const db = await createTestDatabase(t)
  let isAway = false
  const connect = async () => withRetries(connectNatsTopic(t, db, url, {}, partition), () => isAway)
  const breakConnection = (subscriber: string) => endSubscriberConnection(db, subscriber)
  const inject = async (id: string, event: string) => {
    await (await connectManager(t, url)).jetstream().publish(`${db.name}.${id}`, event)
  }
  const breakBroker = async () => {
    isAway = true
    await server?.end()
  }
  const mendBroker = async () => {
    if (isAway) await server?.start()
    isAway = false
  }
  onCleanup(t, mendBroker)
  return { db, topic: await connect(), connect, breakConnection, breakBroker, mendBroker, inject }
}

/**
 * A topic that retries messages without an acknowledgement, as the change stream does, unless a test has stopped the
 * broker.
 */
function withRetries(topic: Topic, isStopped: () => boolean): Topic {
  const publishOnce = topic.publish.bind(topic)
  const publish: Topic['publish'] = (messages) =>
    publishOnce(messages).catch((error) => {
      if (error instanceof TimeoutError && !isStopped()) return publish(messages)
      throw error
    })
  return Object.assign(topic, { publish })
}

describe('with a broker', { skip: NO_NATS }, () => {
  topicConformance('the topic in NATS', (t) => makeTopic(t))
  topicConformance('the partition of the catalogue in NATS', (t) => makeTopic(t, { ...ORDERS, name: 'catalogue' }))

  test('creates a stream that stores every message once, on disk', async (t) => {
    const { db, topic } = await makeTopic(t)
    const manager = await connectManager(t, url)
    await topic.start()
    const [event] = makeOutgoing(1)
    await topic.publish(event === undefined ? [] : [event])
    const { config, state } = await manager.streams.info(db.name.toUpperCase(), { subjects_filter: '>' })
    assert.deepEqual(
      [config.subjects, config.storage, config.retention, config.discard, config.max_age, config.max_msgs, config.max_bytes],
      [[`${db.name}.>`], 'file', 'limits', 'new', 0, -1, -1],
    )
    assert.deepEqual(state.subjects, { [`${db.name}.${event?.event.id}`]: 1 })
  })

  test('refuses to start with a stream that would drop messages, and names the required settings', async (t) => {
    const { db, topic } = await makeTopic(t)
    const manager = await connectManager(t, url)
    await manager.streams.add({ name: db.name.toUpperCase(), subjects: [`${db.name}.>`], discard: DiscardPolicy.Old })
    await assert.rejects(topic.start(), (error) => error instanceof StreamMisconfigured && /must have discard="new"/.test(error.message))
    await assert.rejects(topic.publish(makeOutgoing(1)), StreamMisconfigured)
  })

  test('refuses to start with a stream that deletes messages by their age', async (t) => {
    const { db, topic } = await makeTopic(t)
    const manager = await connectManager(t, url)
    await topic.start()
    await manager.streams.update(db.name.toUpperCase(), { max_age: nanos(86_400_000) })
    await assert.rejects(connectNatsTopic(t, db, url).start(), (error) => {
      return error instanceof StreamMisconfigured && error.message.endsWith('must have max_age=0')
    })
  })

  test('skips payloads that are not JSON, or are compressed in an unknown way', async (t) => {
    const { db, topic } = await makeTopic(t)
    await topic.start()
    const broker = (await connectManager(t, url)).jetstream()
    const encoded = (encoding: string) => {
      const header = headers()
      header.set('Content-Encoding', encoding)
      return { headers: header }
    }
    await broker.publish(`${db.name}.text`, 'not JSON')
    await broker.publish(`${db.name}.zstd`, 'not zstd', encoded('zstd'))
    await broker.publish(`${db.name}.unknown`, '{}', encoded('br'))
    const sent = makeOutgoing(1)
    await topic.publish(sent)
    const [seen, told] = [new Recording(), [] as CorruptMessage[]]
    await subscribe(t, topic, 'reader', seen.handle, { onCorrupt: (messages) => void told.push(...messages) })
    await seen.until(1)
    assert.deepEqual(seen.ids, idsOf(sent))
    assert.equal(told.length, 3)
  })

  test('transports an order of a thousand long lines, which is more than a server accepts in one message', async (t) => {
    const { topic } = await makeTopic(t)
    const items = Array.from({ length: 1_000 }, (_, index) => makeOrderItem({ sku: `SKU-${index}`, name: `🛒 ${index} `.repeat(100) }))
    const event = makeOrderEvent({ order: { items } })
    assert.ok(Buffer.byteLength(JSON.stringify(event)) > 1_048_576)
    await topic.publish([{ position: '1/0000000000000001', event }])
    assert.deepEqual((await topic.read(0, 1))[0]?.event, event)
  })

  test('the topic in PostgreSQL is refused after the store has used the broker', async (t) => {
    const { db, topic } = await makeTopic(t)
    const before = createPostgresTopic(ORDERS, { pool: db.pool, url: db.url, logger: pino({ level: 'silent' }) })
    await before.start()
    await topic.start()
    await assert.rejects(before.start(), TopicMoved)
  })
})

describe('with a broker that loses its disk', { skip: NO_NATS }, () => {
  test('after a stream was lost and recreated, it continues in the next epoch, each subscriber gets its messages, and the loss is reported', async (t) => {
    const own = await startNatsServer(t)
    const db = await createTestDatabase(t)
    const { logger, lines } = collectLog('error')
    const topic = connectNatsTopic(t, db, own.url, { logger })
    const sent = makeOutgoing(6)
    const seen = new Recording()
    await topic.publish(sent.slice(0, 5))
    await subscribe(t, topic, 'keeper', seen.handle)
    await seen.until(5)
    await own.end()
    own.wipe()
    await own.start()
    const replayed = [...sent.slice(3, 5), ...sent.slice(5)]
    await eventually(() =>
      topic.publish(replayed).then(
        () => true,
        () => false,
      ),
    )
    await eventually(async () => seen.messages.length >= 8)
    assert.deepEqual(seen.ids, idsOf([...sent.slice(0, 5), ...replayed]))
    assert.deepEqual(
      seen.messages.map(({ sequence }) => epochOf(sequence)),
      [1, 1, 1, 1, 1, 2, 2, 2],
    )
    assert.deepEqual(idsOf(await topic.read(0, 10)), idsOf(replayed))
    assert.deepEqual(idsOf(await topic.read(seen.messages[6]?.sequence ?? 0, 10)), idsOf(sent.slice(5)))
    assert.ok(lines.some((line) => /was lost and recreated/.test(line)))
  })
  test('after a stream went back to an earlier state, subscribers get what is published then, and the loss is reported', async (t) => {
    const own = await startNatsServer(t)
    const db = await createTestDatabase(t)
    const { logger, lines } = collectLog('error')
    const topic = connectNatsTopic(t, db, own.url, { logger })
    const publish = (messages: Parameters<Topic['publish']>[0]) =>
      eventually(() =>
        topic.publish(messages).then(
          () => true,
          () => false,
        ),
      )
    const [store, copy] = [join(own.directory, 'store'), join(own.directory, 'copy')]
    const sent = makeOutgoing(25)
    const seen = new Recording()
    await publish(sent.slice(0, 10))
    await own.end('SIGTERM')
    cpSync(store, copy, { recursive: true })
    await own.start()
    await publish(sent.slice(10, 20))
    await subscribe(t, topic, 'keeper', seen.handle)
    await seen.until(20)
    await own.end()
    own.wipe()
    cpSync(copy, store, { recursive: true })
    await own.start()
    await publish(sent.slice(20))
    await eventually(async () => sent.slice(20).every(({ event }) => seen.ids.includes(event.id)), { what: 'the new messages' })
    assert.equal(epochOf(seen.messages.at(-1)?.sequence ?? 0), 2)
    assert.ok(lines.some((line) => /has lost its newest messages/.test(line)))
  })

  test('a process that opened the stream before its epoch moved takes a subscriber over and continues', async (t) => {
    const own = await startNatsServer(t)
    const db = await createTestDatabase(t)
    const early = connectNatsTopic(t, db, own.url)
    const sent = makeOutgoing(6)
    await early.publish(sent.slice(0, 5))
    await db.pool.query('update topic_epochs set epoch = 7')
    const late = connectNatsTopic(t, db, own.url)
    const before = new Recording()
    const subscription = await subscribe(t, late, 'keeper', before.handle)
    await before.until(5)
    await eventually(async () => (await db.pool.query('select from topic_subscribers where sequence > 7e12')).rows.length === 1)
    await subscription.stop()
    const after = new Recording()
    await subscribe(t, early, 'keeper', after.handle)
    await late.publish(sent.slice(5))
    await after.until(1)
    assert.deepEqual(after.ids, idsOf(sent.slice(5)))
    assert.equal(epochOf(after.messages[0]?.sequence ?? 0), 7)
  })
})

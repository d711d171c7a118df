import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, describe, type TestContext, test } from 'node:test'
import { zstdDecompressSync } from 'node:zlib'
import type { JetStreamManager } from '@nats-io/jetstream'
import { nanos } from '@nats-io/transport-node'
import { Value } from 'typebox/value'
import { onCleanup } from '../../../test/cleanup.ts'
import { createTestDatabase } from '../../../test/database.ts'
import { eventually } from '../../../test/eventually.ts'
import { connectManager, connectNatsTopic, natsSettings } from '../../../test/nats-harness.ts'
import { NO_NATS, startNatsServer } from '../../../test/nats-server.ts'
import { makeOrderEvent } from '../../../test/order-event-factory.ts'
import { silent } from '../../../test/stream-harness.ts'
import { idsOf, makeOutgoing } from '../../../test/topic-harness.ts'
import type { PublishedEvent } from '../delivery-log.ts'
import { EPOCH_SEQUENCES, type OutgoingMessage } from '../topic.ts'
import { NatsClient } from './connection.ts'
import { mayChain, NatsPublisher } from './publisher.ts'
import { type OrderStream, openStream } from './stream.ts'

const server = NO_NATS ? null : await startNatsServer({ after })
const url = server?.url ?? ''

/** A topic that tells what it has stored, and the broker's own look at it. */
async function makeTopic(t: TestContext) {
  const db = await createTestDatabase(t)
  const told: PublishedEvent[] = []
  const topic = connectNatsTopic(t, db, url, { onStored: (events) => void told.push(...events) })
  return { db, topic, told, manager: await connectManager(t, url) }
}

/** Publishers on one stream, as they would be on a server that chains or does not. */
async function makePublisher(t: TestContext, isChained: boolean) {
  const { name, pool } = await createTestDatabase(t)
  const client = new NatsClient(natsSettings(url), 'test', silent)
  onCleanup(t, () => client.close())
  const jetstream = await client.get()
  const stream = await openStream(jetstream, { pool, logger: silent, name, replicas: 1 })
  const told: PublishedEvent[] = []
  const onStored = (events: PublishedEvent[]) => void told.push(...events)
  const connect = () => new NatsPublisher({ jetstream, stream, subjectPrefix: name, isChained: () => isChained, onStored })
  const manager = await connectManager(t, url)
  const readIds = async () => {
    const { state } = await manager.streams.info(stream.name)
    const numbers = Array.from({ length: state.last_seq }, (_, index) => index + 1)
    const stored = await Promise.all(numbers.map((seq) => manager.streams.getMessage(stream.name, { seq })))
    return stored.map((message) => message?.json<{ id: string }>().id)
  }
  return { publisher: connect(), connect, stream, told, manager, readIds }
}

/** Waits until the broker knows the message no more by its id. */
async function forget(manager: JetStreamManager, { name }: OrderStream, message: OutgoingMessage | undefined): Promise<void> {
  await manager.streams.update(name, { duplicate_window: nanos(100) })
  await eventually(async () => {
    const again = manager.jetstream().publish(`${name.toLowerCase()}.${message?.event.id}`, '', { msgID: message?.event.id ?? '' })
    return (await again.catch(() => null)) === null
  })
}

const bySequence = (events: readonly PublishedEvent[]) => events.toSorted((a, b) => a.sequence - b.sequence)

describe('publishing to NATS', { skip: NO_NATS }, () => {
  test('puts an event where the AsyncAPI document says that it is, compressed above 64 KiB', async (t) => {
    const document = JSON.parse(readFileSync(new URL('../../../docs/asyncapi.json', import.meta.url), 'utf8'))
    const topic = connectNatsTopic(t, await createTestDatabase(t), url, { name: 'orders' })
    const manager = await connectManager(t, url)
    const [small, large] = [makeOrderEvent(), makeOrderEvent({ order: { version: 2, note: 'x'.repeat(64 * 1024) } })]
    await topic.publish([small, large].map((event) => ({ position: '1/0000000000000001', event })))
    for (const event of [small, large]) {
      const { order } = event.data
      const subject = document.channels.orders.address.replace('{order_id}', order.id).replace('{version}', String(order.version))
      const message = await manager.streams.getMessage('ORDERS', { last_by_subj: subject })
      assert.ok(message !== null, subject)
      const headers = Object.fromEntries(message.header.keys().map((name) => [name, message.header.get(name)]))
      assert.deepEqual([...Value.Errors(document.components.schemas['nats-headers'], headers)], [])
      const encoding = event === large ? 'zstd' : undefined
      assert.deepEqual([headers['Nats-Msg-Id'], headers['Content-Encoding']], [event.id, encoding])
      const payload = encoding === undefined ? message.data : zstdDecompressSync(message.data)
      assert.deepEqual(JSON.parse(Buffer.from(payload).toString()), event)
    }
  })

  test('tells of each event at which sequence it is, also of one that the broker knows already', async (t) => {
    const { topic, told } = await makeTopic(t)
    const sent = makeOutgoing(700)
    await topic.publish(sent.slice(0, 600))
    const first = told.splice(0)
    await topic.publish(sent)
    const stored = (await topic.read(0, 1_000)).map(({ sequence }, index) => ({ eventId: sent[index]?.event.id, sequence }))
    assert.deepEqual(first, stored.slice(0, 600))
    assert.deepEqual(told, stored)
  })

  for (const isChained of [true, false])
    test(`drops an event that it has, however long after the broker has forgotten the message id, and keeps the order, ${isChained ? '' : 'not '}chained`, async (t) => {
      const { publisher, stream, told, manager, readIds } = await makePublisher(t, isChained)
      const [old, fresh] = [makeOutgoing(700), makeOutgoing(700, 1_000)]
      await publisher.publish(old)
      await forget(manager, stream, old[0])
      told.length = 0
      await publisher.publish([...old.slice(0, 100), ...fresh.slice(0, 300), ...old.slice(100), ...fresh.slice(300)])
      const ids = idsOf([...old, ...fresh])
      assert.deepEqual(await readIds(), ids)
      assert.deepEqual(
        bySequence(told).map(({ eventId, sequence }) => [eventId, sequence]),
        ids.map((id, index) => [id, EPOCH_SEQUENCES + index + 1]),
      )
      const { time } = (await manager.streams.getMessage(stream.name, { seq: 1 })) ?? {}
      assert.deepEqual(told.find(({ eventId }) => eventId === ids[0])?.at, time, 'it was stored then')
    })

  test('two at once, unchained, with the same events in another order, store each once', async (t) => {
    const { publisher, connect, readIds } = await makePublisher(t, false)
    const sent = makeOutgoing(300)
    await Promise.all([publisher.publish(sent), connect().publish(sent.toReversed())])
    assert.deepEqual((await readIds()).toSorted(), idsOf(sent).toSorted())
  })

  test('names the message that it follows where that is safe, and nowhere else', () => {
    const safe = ['2.9.10', '2.10.27'].map((version) => mayChain(version, 3))
    const unsafe = ['2.11.0', '2.15.1', '3.0.0', '', undefined].map((version) => mayChain(version, 3))
    assert.deepEqual([safe, unsafe, mayChain('2.15.1', 1)], [[true, true], [false, false, false, false, false], true])
  })
})

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { zstdDecompressSync } from 'node:zlib'
import { JetStreamApiError, type JetStreamManager } from '@nats-io/jetstream'
import { nanos, TimeoutError } from '@nats-io/transport-node'
import { Value } from 'typebox/value'
import { onCleanup } from '../../../test/cleanup.ts'
import { createTestDatabase } from '../../../test/database.ts'
import { eventually } from '../../../test/eventually.ts'
import { connectManager, connectNatsTopic, natsSettings } from '../../../test/nats-harness.ts'
import { NO_NATS, startNatsServer } from '../../../test/nats-server.ts'
import { makeOrderEvent } from '../../../test/order-event-factory.ts'
import { silent } from '../../../test/stream-harness.ts'
import { idsOf, makeOutgoing } from '../../../test/topic-harness.ts'
import { type OrderEvent, type OrderRecord, toOrderEvents } from '../../orders/events.ts'
import type { OrderStatus } from '../../orders/order-status.ts'
import type { PublishedEvent } from '../delivery-log.ts'
import { ORDERS } from '../partitions.ts'
import { EPOCH_SEQUENCES, type OutgoingMessage } from '../topic.ts'
import { PubAcks } from './acks.ts'
import { type Jetstream, NatsClient } from './connection.ts'
import { POSITION_HEADER } from './messages.ts'
import { NatsPublisher } from './publisher.ts'
import { openStream, type TopicStream } from './stream.ts'

const server = NO_NATS ? null : await startNatsServer({ after })
const url = server?.url ?? ''
/** Delay of a failure's report, in which other messages are stored. */
const MISHAP_MS = 100

/** A topic that records what it has stored, and the broker's own view of it. */
async function makeTopic(t: TestContext) {
  const db = await createTestDatabase(t)
  const told: PublishedEvent[] = []
  const topic = connectNatsTopic(t, db, url, { onStored: (events) => void told.push(...events) })
  return { db, topic, told, manager: await connectManager(t, url) }
}

/** Publishers on one stream, and its content. */
async function makePublisher(t: TestContext) {
  const { name, pool } = await createTestDatabase(t)
  const client = new NatsClient(natsSettings(url), 'test', silent)
  onCleanup(t, () => client.close())
  const jetstream = await client.get()
  const stream = await openStream(jetstream, { pool, logger: silent, name, partition: 'orders', replicas: 1 })
  const told: PublishedEvent[] = []
  const onStored = (events: PublishedEvent[]) => void told.push(...events)
  const connect = (acks: PubAcks = jetstream.acks) =>
    new NatsPublisher({ partition: ORDERS, jetstream: { ...jetstream, acks }, stream, subjectPrefix: name, onStored })
  const manager = await connectManager(t, url)
  const readStored = async () => {
    const { state } = await manager.streams.info(stream.name)
    const numbers = Array.from({ length: state.last_seq }, (_, index) => index + 1)
    const stored = await Promise.all(numbers.map((seq) => manager.streams.getMessage(stream.name, { seq })))
    return stored.map((message) => ({ id: message?.json<{ id: string }>().id, position: message?.header.get(POSITION_HEADER) ?? '' }))
  }
  return { jetstream, publisher: connect(), connect, stream, told, manager, readStored }
}

/**
 * `message`: it is lost. `acknowledgement`: it is lost, the message is stored. `proposed` and `refused`: a server's
 * replies to a second copy while the first one is in flight, which is then lost.
 */
type Mishap = 'message' | 'acknowledgement' | 'proposed' | 'refused'

/** The failure, once per event id. */
class MishapAcks extends PubAcks {
  readonly #stream: string
  readonly #mishaps: Map<string, Mishap>

  constructor({ connection }: Jetstream, { name }: TopicStream, mishaps: ReadonlyMap<string, Mishap>) {
    super(connection)
    this.#stream = name
    this.#mishaps = new Map(mishaps)
  }

  override async publish(...message: Parameters<PubAcks['publish']>): ReturnType<PubAcks['publish']> {
    const eventId = message[0].split('.').slice(1).join('.')
    const mishap = this.#mishaps.get(eventId)
    this.#mishaps.delete(eventId)
    if (mishap === undefined) return super.publish(...message)
    if (mishap === 'acknowledgement') await super.publish(...message)
    await delay(MISHAP_MS)
    if (mishap === 'proposed') return { stream: this.#stream, seq: 0, duplicate: true, domain: '' }
    if (mishap === 'refused')
      throw new JetStreamApiError({ code: 503, err_code: 10_077, description: 'maximum messages per subject exceeded' })
    throw new TimeoutError()
  }
}

/** The row of an order that passed through these statuses, one second each. */
function makeRecord(statuses: readonly OrderStatus[]): OrderRecord {
  const { data } = makeOrderEvent()
  const { total, ...order } = data.order
  const history = statuses.map((status, index) => ({
    status,
    at: new Date(Date.parse(order.created_at) + index * 1_000).toISOString(),
    actor: { type: 'system' as const, id: null },
    reason: null,
  }))
  return {
    ...order,
    total_amount: String(total.amount),
    currency: total.currency,
    status: statuses.at(-1) ?? 'pending',
    version: statuses.length,
    status_history: history,
    traceparent: null,
    created_at: new Date(order.created_at),
    updated_at: new Date(history.at(-1)?.at ?? ''),
  }
}

/** Waits until the broker has forgotten the message id. */
async function forget(manager: JetStreamManager, { name }: TopicStream, message: OutgoingMessage | undefined): Promise<void> {
  await manager.streams.update(name, { duplicate_window: nanos(100) })
  await eventually(async () => {
    const again = manager.jetstream().publish(`${name.toLowerCase()}.${message?.event.id}`, '', { msgID: message?.event.id ?? '' })
    return (await again.catch(() => null)) === null
  })
}

const bySequence = (events: readonly PublishedEvent[]) => events.toSorted((a, b) => a.sequence - b.sequence)

describe('publishing to NATS', { skip: NO_NATS }, () => {
  test('publishes an event under the subject in the AsyncAPI document, compressed above 64 KiB', async (t) => {
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

  test('publishes an event that only a server out of step has', async (t) => {
    const { publisher, jetstream, readStored } = await makePublisher(t)
    const first = makeOrderEvent()
    const second = makeOrderEvent({ order: { id: first.subject, version: 2, status: 'confirmed' } })
    const [stored, next, claimed] = [first, second, makeOrderEvent()].map((event) => ({ position: '', event }))
    assert.ok(stored && next && claimed)
    await publisher.publish([stored])
    // This server has stored a message of a leader that was replaced before the others had it.
    const api = Object.getPrototypeOf(jetstream.manager.direct)
    const { getMessage } = api
    t.mock.method(api, 'getMessage', async function (this: unknown, name: string, query: { last_by_subj?: string }) {
      const subject = query.last_by_subj?.replace(claimed.event.id, stored.event.id)
      return getMessage.call(this, name, { ...query, ...(subject && { last_by_subj: subject }) })
    })
    // The second version waits for the refusal of the first, so the rest is looked up before it is sent.
    await publisher.publish([stored, next, claimed])
    assert.deepEqual(
      (await readStored()).map(({ id }) => id),
      idsOf([stored, next, claimed]),
    )
  })

  test('reports the sequence of each event, also of events that the broker already has', async (t) => {
    const { topic, told } = await makeTopic(t)
    const sent = makeOutgoing(700)
    await topic.publish(sent.slice(0, 600))
    const first = told.splice(0)
    await topic.publish(sent)
    const stored = (await topic.read(0, 1_000)).map(({ sequence }, index) => ({ eventId: sent[index]?.event.id, sequence }))
    assert.deepEqual(first, stored.slice(0, 600))
    assert.deepEqual(
      bySequence(told).map(({ eventId, sequence }) => ({ eventId, sequence })),
      stored,
    )
  })

  test('drops events that the stream has, even after the broker has forgotten their message ids, and keeps the order', async (t) => {
    const { publisher, stream, told, manager, readStored } = await makePublisher(t)
    const [old, fresh] = [makeOutgoing(700), makeOutgoing(700, 1_000)]
    await publisher.publish(old)
    await forget(manager, stream, old[0])
    told.length = 0
    await publisher.publish([...old.slice(0, 100), ...fresh.slice(0, 300), ...old.slice(100), ...fresh.slice(300)])
    const ids = idsOf([...old, ...fresh])
    assert.deepEqual(
      (await readStored()).map(({ id }) => id),
      ids,
    )
    assert.deepEqual(
      bySequence(told).map(({ eventId, sequence }) => [eventId, sequence]),
      ids.map((id, index) => [id, EPOCH_SEQUENCES + index + 1]),
    )
    const { time } = (await manager.streams.getMessage(stream.name, { seq: 1 })) ?? {}
    assert.deepEqual(told.find(({ eventId }) => eventId === ids[0])?.at, time, 'it was stored then')
  })

  test('two concurrent publishers with the same events in different orders store each event once', async (t) => {
    const { publisher, connect, readStored } = await makePublisher(t)
    const sent = makeOutgoing(1_500)
    await Promise.all([publisher.publish(sent), connect().publish(sent.toReversed())])
    assert.deepEqual((await readStored()).map(({ id }) => id).toSorted(), idsOf(sent).toSorted())
  })

  test('whatever is lost, each event is stored once, the events of an order are in order, and positions name only stored commits', async (t) => {
    const { jetstream, stream, connect, readStored } = await makePublisher(t)
    const sent = makeOutgoing(1_500)
    const [eventAt, idAt] = [(index: number) => sent[index]?.event as OrderEvent, (index: number) => eventAt(index).id]
    for (const [first, second] of [
      [700, 704],
      [1_100, 1_101],
    ] as const) {
      const { position = '' } = sent[second] ?? {}
      sent[second] = { position, event: makeOrderEvent({ order: { id: eventAt(first).subject, version: 2 } }) }
    }
    const mishaps = {
      200: 'message',
      201: 'acknowledgement',
      700: 'message',
      900: 'proposed',
      1100: 'message',
      1300: 'refused',
      1499: 'message',
    } as const
    const byId = new Map(Object.entries(mishaps).map(([index, mishap]) => [idAt(Number(index)), mishap]))
    await connect(new MishapAcks(jetstream, stream, byId)).publish(sent)
    const stored = await readStored()
    assert.deepEqual(stored.map(({ id }) => id).toSorted(), idsOf(sent).toSorted())
    const versions = new Map<string, number>()
    for (const { id = '' } of stored) {
      const [order = '', version] = id.split('.')
      assert.equal(Number(version), (versions.get(order) ?? 0) + 1, id)
      versions.set(order, Number(version))
    }
    // A reader that continues after any of them misses nothing.
    const positions = new Map(sent.map(({ event, position }) => [event.id, position]))
    const missing = new Set(positions.values())
    for (const { id = '', position } of stored) {
      missing.delete(positions.get(id) ?? '')
      assert.ok(
        [...missing].every((other) => other >= position),
        `${id} names ${position}`,
      )
    }
  })

  test('detects that another process has recreated the stream, and reports the events stored in the new one', async (t) => {
    const { db, topic, told, manager } = await makeTopic(t)
    const [before, lost, after] = makeOutgoing(3).map((message) => [message]) as [OutgoingMessage[], OutgoingMessage[], OutgoingMessage[]]
    await topic.publish(before)
    await manager.streams.delete(db.name.toUpperCase())
    await connectNatsTopic(t, db, url).start()
    await assert.rejects(topic.publish(lost), /was recreated/)
    told.length = 0
    await topic.publish(after)
    assert.deepEqual(
      told.map(({ eventId, sequence }) => [eventId, sequence]),
      [[after[0]?.event.id, 2 * EPOCH_SEQUENCES + 2]],
    )
  })

  test('stores an event again after each deletion of its message, even while the broker remembers the message id', async (t) => {
    const { publisher, stream, told, manager, readStored } = await makePublisher(t)
    const sent = makeOutgoing(20)
    await publisher.publish(sent)
    for (const seq of [3, 4, 20]) await manager.streams.deleteMessage(stream.name, seq)
    told.length = 0
    await publisher.publish(sent)
    const ids = async () => (await readStored()).flatMap(({ id }) => id ?? []).toSorted()
    assert.deepEqual(await ids(), idsOf(sent).toSorted())
    const numbers = new Map(told.map(({ eventId, sequence }) => [eventId, sequence - EPOCH_SEQUENCES]))
    assert.deepEqual(
      [2, 3, 19].map((index) => numbers.get(sent[index]?.event.id ?? '')),
      [21, 22, 23],
    )
    await manager.streams.deleteMessage(stream.name, 21)
    await publisher.publish(sent)
    assert.deepEqual(await ids(), idsOf(sent).toSorted())
    await manager.streams.purge(stream.name)
    await publisher.publish(sent)
    assert.deepEqual(await ids(), idsOf(sent).toSorted())
  })

  test('publishes earlier versions of an order that the stream has lost before a later version', async (t) => {
    const { publisher, manager, stream, readStored } = await makePublisher(t)
    const events = toOrderEvents(makeRecord(['pending', 'confirmed', 'shipped']))
    const other = toOrderEvents(makeRecord(['pending', 'cancelled']))
    const outgoing = (event: OrderEvent | undefined, position: string) => (event === undefined ? [] : [{ position, event }])
    await publisher.publish([...outgoing(events[0], '1/01'), ...outgoing(events[1], '1/02'), ...outgoing(other[0], '1/03')])
    await manager.streams.deleteMessage(stream.name, 1)
    await manager.streams.deleteMessage(stream.name, 2)
    await publisher.publish([...outgoing(events[2], '1/04'), ...outgoing(other[1], '1/05')])
    const stored = (await readStored()).flatMap(({ id, position }) => (id === undefined ? [] : [[id, position]]))
    assert.deepEqual(stored[0], [other[0]?.id, '1/01'])
    assert.deepEqual(
      stored.slice(1).map(([id]) => id),
      [...events, other[1]].map((event) => event?.id),
    )
    // A reader that continues after one of the earlier versions misses nothing.
    assert.ok(stored.slice(1).every(([, position = '']) => position <= '1/04'))
    const readEvent = async (id: string) =>
      (await manager.streams.getMessage(stream.name, { last_by_subj: `${stream.name.toLowerCase()}.${id}` }))?.json()
    for (const event of events) assert.deepEqual(await readEvent(event.id), event)
  })

  test('deletes what it has published to a stream that was recreated meanwhile, so that earlier versions can come first', async (t) => {
    const { jetstream, stream, connect, manager, readStored } = await makePublisher(t)
    const recreate = async () => {
      await manager.streams.delete(stream.name)
      await manager.streams.add(stream.info.config)
    }
    class RecreatingAcks extends PubAcks {
      #isDone = false

      override async publish(...message: Parameters<PubAcks['publish']>): ReturnType<PubAcks['publish']> {
        if (message[0].endsWith('.2') && !this.#isDone) {
          this.#isDone = true
          await recreate()
        }
        return super.publish(...message)
      }
    }
    const versions = toOrderEvents(makeRecord(['pending', 'confirmed', 'shipped'])).map((event) => ({ position: '1/01', event }))
    await connect().publish(versions.slice(0, 1))
    const publisher = connect(new RecreatingAcks(jetstream.connection))
    await publisher.publish(makeOutgoing(3))
    await assert.rejects(publisher.publish(versions.slice(1, 2)), /was recreated/)
    assert.deepEqual(
      (await readStored()).flatMap(({ id }) => id ?? []),
      [],
    )
    await connect().publish(versions.slice(1))
    assert.deepEqual(
      (await readStored()).flatMap(({ id }) => id ?? []),
      idsOf(versions),
    )
  })
})

import assert from 'node:assert/strict'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, type TestContext, test } from 'node:test'
import type { ConsumerAPI, ConsumerConfig, StreamAPI } from '@nats-io/jetstream'
import { createTestDatabase } from '../../../test/database.ts'
import { eventually } from '../../../test/eventually.ts'
import { connectManager, connectNatsTopic } from '../../../test/nats-harness.ts'
import { NO_NATS, startNatsServer } from '../../../test/nats-server.ts'
import { makeOrderEvent } from '../../../test/order-event-factory.ts'
import { idsOf, makeOutgoing, Recording, subscribe } from '../../../test/topic-harness.ts'
import { partitionMessages } from '../partition-messages.ts'
import { ORDERS } from '../partitions.ts'
import { EPOCH_SEQUENCES, type OutgoingMessage, type Subscription, type Topic } from '../topic.ts'

const server = NO_NATS ? null : await startNatsServer({ after })
const url = server?.url ?? ''

async function makeTopic(t: TestContext) {
  const db = await createTestDatabase(t)
  return { db, topic: connectNatsTopic(t, db, url), manager: await connectManager(t, url), stream: db.name.toUpperCase() }
}

/** Events of two orders: the first version of each, and the second of the first between them. */
function makeVersions(): OutgoingMessage[] {
  const first = makeOrderEvent()
  const second = makeOrderEvent({ order: { id: first.subject, version: 2, status: 'confirmed' } })
  return [first, second, makeOrderEvent()].map((event) => ({ position: '', event }))
}

/** Makes the broker withhold all but some messages from the next consumer, and report that nothing is pending. */
async function restrictFirstConsumer(t: TestContext, filter: string): Promise<{ made: number }> {
  const consumers = { made: 0 }
  const api: ConsumerAPI = Object.getPrototypeOf((await connectManager(t, url)).consumers)
  const { add } = api
  t.mock.method(api, 'add', function (this: ConsumerAPI, stream: string, config: ConsumerConfig) {
    consumers.made += 1
    const restriction = consumers.made === 1 ? { filter_subject: `${stream.toLowerCase()}.${filter}` } : {}
    return add.call(this, stream, { ...config, ...restriction })
  })
  return consumers
}

/** Flips a bit of a message's payload in the server's files. */
function spoil(directory: string, message: OutgoingMessage | undefined): void {
  const files = readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.blk'))
  for (const file of files.map((name) => join(directory, name))) {
    const bytes = readFileSync(file)
    const at = bytes.lastIndexOf(`"id":"${message?.event.subject}"`)
    if (at === -1) continue
    bytes[at] = (bytes[at] ?? 0) ^ 1
    writeFileSync(file, bytes)
    return
  }
  throw new Error('the message is in none of the files')
}

type Reader = (t: TestContext, topic: Topic) => Promise<Recording>

/** A subscription that must be failing until a message has been handled. */
async function readBySubscription(t: TestContext, topic: Topic): Promise<Recording> {
  const recording = new Recording()
  const subscription: Subscription = await subscribe(t, topic, 'reader', async (messages, signal) => {
    assert.equal(subscription.state, 'failing')
    await recording.handle(messages, signal)
  })
  await recording.until(3)
  return recording
}

async function readForCommand(_: TestContext, topic: Topic): Promise<Recording> {
  const recording = new Recording()
  await recording.handle(partitionMessages(ORDERS, await topic.read(0, 10)).messages, new AbortController().signal)
  return recording
}

const READERS: [string, Reader][] = [
  ['a subscription', readBySubscription],
  ['a read', readForCommand],
]
const FAULTS = [
  { what: 'sends nothing of what is there', filter: 'nobody' },
  { what: 'leaves out a message', filter: '*.1' },
  { what: 'leaves out the first messages', filter: '*.2' },
]

describe('reading from NATS', { skip: NO_NATS }, () => {
  for (const [name, read] of READERS)
    for (const { what, filter } of FAULTS)
      test(`${name} continues with another consumer if the first one ${what}`, async (t) => {
        const { topic } = await makeTopic(t)
        const consumers = await restrictFirstConsumer(t, filter)
        const sent = makeVersions()
        await topic.publish(sent)
        const recording = await read(t, topic)
        assert.deepEqual(recording.ids, idsOf(sent))
        assert.equal(consumers.made, 2)
      })

  for (const name of ['a subscription', 'a read'])
    test(`${name} skips messages that the stream's leader lacks, and continues with another consumer`, async (t) => {
      const { topic, stream } = await makeTopic(t)
      const [first, second, third] = makeVersions()
      assert.ok(first && second && third)
      const sent = [first, second, third]
      await topic.publish(sent)
      const consumers = await restrictFirstConsumer(t, '>')
      // This is a leader that never had the last message, until the broker has chosen another server for the next
      // consumer.
      const api: StreamAPI = Object.getPrototypeOf((await connectManager(t, url)).streams)
      const { getMessage, info } = api
      const isHidden = (subject: string | undefined) => consumers.made === 1 && subject === `${stream.toLowerCase()}.${third.event.id}`
      t.mock.method(api, 'getMessage', async function (this: StreamAPI, ...query: Parameters<typeof getMessage>) {
        const message = await getMessage.apply(this, query)
        return isHidden(message?.subject) ? null : message
      })
      t.mock.method(api, 'info', async function (this: StreamAPI, ...query: Parameters<typeof info>) {
        const { state, ...rest } = await info.apply(this, query)
        const subjects = Object.fromEntries(Object.entries(state.subjects ?? {}).filter(([subject]) => !isHidden(subject)))
        return { ...rest, state: { ...state, subjects } }
      })
      const made: number[] = []
      const recording = new Recording()
      if (name === 'a subscription') {
        await subscribe(t, topic, 'reader', async (messages, signal) => {
          made.push(...messages.map(() => consumers.made))
          await recording.handle(messages, signal)
        })
        await recording.until(3)
      } else {
        await recording.handle(partitionMessages(ORDERS, await topic.read(0, 10)).messages, new AbortController().signal)
        made.push(...sent.map(() => consumers.made))
      }
      assert.deepEqual([recording.ids, made], [idsOf(sent), [2, 2, 2]])
    })

  test('skips deleted messages, wherever they were', async (t) => {
    const { topic, manager, stream } = await makeTopic(t)
    const sent = makeOutgoing(9)
    await topic.publish(sent)
    const deleted = [1, 2, 4, 5, 7, 9]
    for (const number of deleted) await manager.streams.deleteMessage(stream, number)
    const consumers = await restrictFirstConsumer(t, '>')
    const left = idsOf(sent.filter((_, index) => !deleted.includes(index + 1)))
    assert.deepEqual(idsOf(await topic.read(0, 10)), left)
    const recording = new Recording()
    await subscribe(t, topic, 'reader', recording.handle)
    await recording.until(3)
    assert.deepEqual([recording.ids, consumers.made], [left, 2])
  })

  test('delivers the messages before a skipped one, and the others by another consumer', async (t) => {
    const { topic } = await makeTopic(t)
    const consumers = await restrictFirstConsumer(t, '*.1')
    const sent = [...makeOutgoing(2), ...makeVersions()]
    await topic.publish(sent)
    const made: number[] = []
    const recording = new Recording()
    await subscribe(t, topic, 'reader', async (messages, signal) => {
      made.push(...messages.map(() => consumers.made))
      await recording.handle(messages, signal)
    })
    await recording.until(sent.length)
    assert.deepEqual([recording.ids, made], [idsOf(sent), [1, 1, 1, 2, 2]])
  })

  test('skips large deleted messages, whose deletion some servers forget', async (t) => {
    const { db, topic, manager, stream } = await makeTopic(t)
    await topic.start()
    for (let number = 1; number <= 12; number++) await manager.jetstream().publish(`${db.name}.large.${number}`, Buffer.alloc(900_000))
    for (const number of [5, 6, 7, 9, 11, 12]) await manager.streams.deleteMessage(stream, number)
    const read = await topic.read(0, 20)
    assert.deepEqual(
      read.map(({ sequence }) => sequence % EPOCH_SEQUENCES),
      [1, 2, 3, 4, 8, 10],
    )
  })

  test('skips a message that a single server can no longer read', async (t) => {
    const own = await startNatsServer(t)
    const db = await createTestDatabase(t)
    const topic = connectNatsTopic(t, db, own.url)
    const sent = makeOutgoing(9)
    await topic.publish(sent)
    await own.end('SIGTERM')
    spoil(own.directory, sent[4])
    await own.start()
    const recording = new Recording()
    const subscription = await subscribe(t, topic, 'reader', recording.handle)
    await recording.until(8)
    assert.deepEqual(recording.ids, idsOf(sent.toSpliced(4, 1)))
    await eventually(async () => subscription.state === 'active')
  })

  test('skips messages that were removed because of their age', async (t) => {
    const { topic, manager, stream } = await makeTopic(t)
    const sent = makeOutgoing(5)
    await topic.publish(sent)
    await manager.streams.purge(stream, { seq: 4 })
    assert.deepEqual(idsOf(await topic.read(0, 10)), idsOf(sent.slice(3)))
  })

  test('throws if the stream was recreated, and then reads the new stream', async (t) => {
    const { topic, manager, stream } = await makeTopic(t)
    const sent = makeOutgoing(2)
    await topic.publish(sent)
    const { config } = await manager.streams.info(stream)
    await manager.streams.delete(stream)
    await manager.streams.add(config)
    await assert.rejects(topic.read(0, 10), /was recreated/)
    assert.deepEqual(await topic.read(0, 10), [])
  })
})

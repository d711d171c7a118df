import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { OutgoingMessage } from '../../src/topic/topic.ts'
import { eventually } from '../eventually.ts'
import { makeOrderEvent } from '../order-event-factory.ts'
import { idsOf, type MakeTopic, makeGate, makeOutgoing, Recording, subscribe } from '../topic-harness.ts'
import { corruptMessagesConformance } from './corrupt-messages-conformance.ts'
import { subscriptionConformance } from './subscription-conformance.ts'

/** The suite that every adapter of Topic must pass. */
export function topicConformance(name: string, makeTopic: MakeTopic): void {
  describe(name, () => {
    publishing(makeTopic)
    reading(makeTopic)
    outages(makeTopic)
    corruptMessagesConformance(makeTopic)
    subscriptionConformance(makeTopic)
  })
}

function publishing(makeTopic: MakeTopic): void {
  test('delivers messages in the order of their batches', async (t) => {
    const { topic } = await makeTopic(t)
    const sent = makeOutgoing(2_500)
    const seen = new Recording()
    await topic.publish(sent.slice(0, 10))
    await subscribe(t, topic, 'reader', seen.handle)
    await topic.publish(sent.slice(10, 1_500))
    await topic.publish(sent.slice(1_500))
    await seen.until(sent.length)
    assert.deepEqual(seen.ids, idsOf(sent))
    assert.deepEqual(seen.messages[1_700]?.event, sent[1_700]?.event)
  })

  test('assigns sequences that increase from message to message', async (t) => {
    const { topic } = await makeTopic(t)
    const seen = new Recording()
    const sent = makeOutgoing(50)
    for (const message of sent.slice(0, 5)) await topic.publish([message])
    await topic.publish(sent)
    await subscribe(t, topic, 'reader', seen.handle)
    await seen.until(50)
    assert.ok(seen.messages.every(({ sequence }, index) => sequence > (seen.messages[index - 1]?.sequence ?? 0)))
  })

  test('loses nothing of two publishers and keeps the order of each', async (t) => {
    const { topic, connect } = await makeTopic(t)
    const seen = new Recording()
    await subscribe(t, topic, 'reader', seen.handle)
    const publishers = [
      { topic, sent: makeOutgoing(200) },
      { topic: await connect(), sent: makeOutgoing(200, 1_000) },
    ]
    await Promise.all(
      publishers.map(async ({ topic, sent }) => {
        for (let first = 0; first < sent.length; first += 5) await topic.publish(sent.slice(first, first + 5))
      }),
    )
    await seen.until(400)
    for (const { sent } of publishers) {
      const own = new Set(idsOf(sent))
      assert.deepEqual(
        seen.ids.filter((id) => own.has(id)),
        idsOf(sent),
      )
    }
  })

  test('keeps messages for a topic object that is made later', async (t) => {
    const { topic, connect } = await makeTopic(t)
    const sent = makeOutgoing(3)
    await topic.publish(sent)
    await topic.stop()
    const later = await connect()
    const seen = new Recording()
    await subscribe(t, later, 'reader', seen.handle)
    await seen.until(3)
    assert.deepEqual(seen.ids, idsOf(sent))
  })

  test('drops a message whose event id it has, within a publish and across publishes and publishers', async (t) => {
    const { topic, connect } = await makeTopic(t)
    const [a, b, c, end] = makeOutgoing(4) as [OutgoingMessage, OutgoingMessage, OutgoingMessage, OutgoingMessage]
    await topic.publish([a, b, a])
    await topic.publish([a, b])
    await (await connect()).publish([b, c])
    await Promise.all([topic.publish([c, end]), topic.publish([c, end])])
    const seen = new Recording()
    await subscribe(t, topic, 'reader', seen.handle)
    await eventually(async () => seen.ids.at(-1) === end.event.id)
    assert.deepEqual(seen.ids, idsOf([a, b, c, end]))
  })

  test('accepts an empty batch, and can be read to its end while it is empty', async (t) => {
    const { topic } = await makeTopic(t)
    await topic.publish([])
    assert.equal(await topic.newestPosition(), null)
    assert.deepEqual(await topic.read(0, 10), [])
    assert.deepEqual(await topic.read(await topic.newestSequence(), 10), [])
  })

  test('returns a position up to which it has every commit, null when it is empty', async (t) => {
    const { topic, connect } = await makeTopic(t)
    assert.equal(await topic.newestPosition(), null)
    const sent = makeOutgoing(1_500)
    await topic.publish(sent.slice(0, 1_499))
    const positions = sent.map(({ position }) => position)
    assert.ok(positions.slice(800, 1_499).includes((await topic.newestPosition()) ?? ''))
    await topic.publish(sent.slice(1_499))
    assert.equal(await topic.newestPosition(), positions[1_499])
    assert.equal(await (await connect()).newestPosition(), positions[1_499])
  })

  test('transports every character of an event', async (t) => {
    const { topic } = await makeTopic(t)
    const note = 'quotes \' " \\ – Ünïcødé 🛒 \n\t \u0001 $1 %s {}'
    const event = makeOrderEvent({ order: { note, client_reference: 'x'.repeat(100_000) } })
    await topic.publish([{ position: '1/0000000000000001', event }])
    const seen = new Recording()
    await subscribe(t, topic, 'reader', seen.handle)
    await seen.until(1)
    assert.deepEqual(seen.messages[0]?.event, event)
  })
}

function reading(makeTopic: MakeTopic): void {
  test('returns the newest sequence, below that of every message to come', async (t) => {
    const { topic } = await makeTopic(t)
    const before = await topic.newestSequence()
    const sent = makeOutgoing(3)
    await topic.publish(sent.slice(0, 2))
    const [first, second] = await topic.read(0, 10)
    assert.ok(before < (first?.sequence ?? 0))
    assert.equal(await topic.newestSequence(), second?.sequence)
    await topic.publish(sent)
    assert.equal(await topic.newestSequence(), (await topic.read(0, 10)).at(-1)?.sequence)
  })

  test('a subscriber continues where it stopped, and another one starts at the beginning', async (t) => {
    const { topic, connect } = await makeTopic(t)
    const sent = makeOutgoing(6)
    const [first, second, other] = [new Recording(), new Recording(), new Recording()]
    await topic.publish(sent.slice(0, 3))
    const before = await subscribe(t, topic, 'reader', first.handle)
    await first.until(3)
    await before.stop()
    await topic.publish(sent.slice(3))
    await subscribe(t, await connect(), 'reader', second.handle)
    await subscribe(t, topic, 'another reader', other.handle)
    await second.until(3)
    await other.until(6)
    assert.deepEqual([first.ids, second.ids, other.ids], [idsOf(sent.slice(0, 3)), idsOf(sent.slice(3)), idsOf(sent)])
  })

  test('a subscriber with its own position is asked for it whenever it becomes active', async (t) => {
    const { topic } = await makeTopic(t)
    const sent = makeOutgoing(5)
    await topic.publish(sent)
    const all = new Recording()
    await subscribe(t, topic, 'scout', all.handle)
    await all.until(5)
    let stored = all.messages[1]?.sequence ?? Number.NaN
    const lastSequence = async () => stored
    for (const expected of [sent.slice(2), sent.slice(4)]) {
      const seen = new Recording()
      const subscription = await subscribe(t, topic, 'owner', seen.handle, { lastSequence })
      await seen.until(expected.length)
      await subscription.stop()
      assert.deepEqual(seen.ids, idsOf(expected))
      stored = all.messages[3]?.sequence ?? Number.NaN
    }
  })

  test('a handler that fails gets the same messages again, in order, before any later one', async (t) => {
    const { topic } = await makeTopic(t)
    const sent = makeOutgoing(5)
    await topic.publish(sent.slice(0, 3))
    const seen = new Recording()
    let failures = 0
    await subscribe(t, topic, 'reader', async (messages, signal) => {
      await seen.handle(messages, signal)
      if (++failures > 2) return
      await topic.publish(sent.slice(3))
      throw new Error('not yet')
    })
    await eventually(async () => seen.ids.filter((id) => id === sent[4]?.event.id).length > 0 && failures > 2)
    assert.deepEqual(seen.ids.slice(0, 6), [...idsOf(sent.slice(0, 3)), ...idsOf(sent.slice(0, 3))])
    assert.deepEqual(seen.ids.slice(-5), idsOf(sent))
  })

  test('retries reading a position that cannot be read', async (t) => {
    const { topic } = await makeTopic(t)
    await topic.publish(makeOutgoing(2))
    const seen = new Recording()
    let asked = 0
    const lastSequence = async () => {
      if (++asked === 1) throw new Error('the store is unavailable')
      return 0
    }
    await subscribe(t, topic, 'owner', seen.handle, { lastSequence })
    await seen.until(2)
    assert.equal(asked, 2)
  })

  test('a slow subscriber does not hold up another', async (t) => {
    const gate = makeGate(t)
    const { topic } = await makeTopic(t)
    const fast = new Recording()
    await subscribe(t, topic, 'slow', () => gate.pass())
    await subscribe(t, topic, 'fast', fast.handle)
    const sent = makeOutgoing(3)
    for (const message of sent) {
      await topic.publish([message])
      await gate.entered
    }
    await fast.until(3)
    assert.deepEqual(fast.ids, idsOf(sent))
  })
}

function outages(makeTopic: MakeTopic): void {
  test('refuses to publish while the broker is unavailable, and continues, with its subscribers, when it is back', async (t) => {
    const { topic, breakBroker, mendBroker } = await makeTopic(t)
    const sent = makeOutgoing(4)
    const [kept, owned] = [new Recording(), new Recording()]
    await subscribe(t, topic, 'keeper', kept.handle)
    await subscribe(t, topic, 'owner', owned.handle, { lastSequence: async () => owned.messages.at(-1)?.sequence ?? 0 })
    await topic.publish(sent.slice(0, 2))
    await kept.until(2)
    await owned.until(2)
    await breakBroker()
    await Promise.all([assert.rejects(topic.publish(sent.slice(2))), assert.rejects(topic.newestPosition())])
    await mendBroker()
    await eventually(() =>
      topic.publish(sent.slice(2)).then(
        () => true,
        () => false,
      ),
    )
    await eventually(async () => kept.ids.at(-1) === sent[3]?.event.id)
    await owned.until(4)
    assert.deepEqual([...new Set(kept.ids)], idsOf(sent))
    assert.deepEqual(owned.ids, idsOf(sent))
  })

  test('keeps what it had stored, its order and its ids, while the broker was unavailable', async (t) => {
    const { topic, connect, breakBroker, mendBroker } = await makeTopic(t)
    const sent = makeOutgoing(5)
    await topic.publish(sent.slice(0, 3))
    const before = await topic.read(0, 10)
    await breakBroker()
    await mendBroker()
    const later = await connect()
    await eventually(() =>
      later.publish(sent).then(
        () => true,
        () => false,
      ),
    )
    const stored = await later.read(0, 10)
    assert.deepEqual(idsOf(stored), idsOf(sent))
    assert.deepEqual(stored.slice(0, 3), before)
  })
}

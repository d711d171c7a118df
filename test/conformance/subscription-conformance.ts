import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { test } from 'node:test'
import type { OutgoingMessage, Subscription } from '../../src/topic/topic.ts'
import { eventually } from '../eventually.ts'
import { makeOrderEvent } from '../order-event-factory.ts'
import { idsOf, type MakeTopic, makeGate, makeOutgoing, Recording, subscribe } from '../topic-harness.ts'

/** The part of `topicConformance` about which subscription is active, and how it ends. */
export function subscriptionConformance(makeTopic: MakeTopic): void {
  sharing(makeTopic)
  restarting(makeTopic)
  stopping(makeTopic)
}

function sharing(makeTopic: MakeTopic): void {
  test('one of two subscriptions with the same name is active, and the other takes over when it stops', async (t) => {
    const { topic, connect } = await makeTopic(t)
    const recordings = [new Recording(), new Recording()]
    const subscriptions: Subscription[] = []
    for (const { handle } of recordings) subscriptions.push(await subscribe(t, await connect(), 'reader', handle))
    const sent = makeOutgoing(8)
    for (const message of sent.slice(0, 5)) await topic.publish([message])
    await eventually(async () => recordings.some(({ ids }) => ids.length === 5))
    const active = recordings.findIndex(({ ids }) => ids.length === 5)
    await subscriptions[active]?.stop()
    await topic.publish(sent.slice(5))
    await recordings[1 - active]?.until(3)
    assert.deepEqual(recordings[active]?.ids, idsOf(sent.slice(0, 5)))
    assert.deepEqual(recordings[1 - active]?.ids, idsOf(sent.slice(5)))
  })

  test('takes over, with the messages in flight, from a subscription whose connection broke', async (t) => {
    const gate = makeGate(t)
    const { topic, connect, breakConnection } = await makeTopic(t)
    const sent = makeOutgoing(4)
    const second = new Recording()
    await topic.publish(sent.slice(0, 2))
    await subscribe(t, await connect(), 'reader', () => gate.pass())
    await gate.entered
    await subscribe(t, await connect(), 'reader', second.handle)
    await breakConnection('reader')
    await second.until(2)
    await topic.publish(sent.slice(2))
    await second.until(4)
    assert.deepEqual(second.ids, idsOf(sent))
  })

  test('continues after its connection broke while it waited', async (t) => {
    const { topic, breakConnection } = await makeTopic(t)
    const seen = new Recording()
    const sent = makeOutgoing(2)
    await subscribe(t, topic, 'reader', seen.handle)
    await topic.publish(sent.slice(0, 1))
    await seen.until(1)
    await breakConnection('reader')
    await topic.publish(sent.slice(1))
    await eventually(async () => seen.ids.at(-1) === sent[1]?.event.id)
    assert.deepEqual([...new Set(seen.ids)], idsOf(sent))
  })
}

function restarting(makeTopic: MakeTopic): void {
  test('begins again at its own position as soon as that is demanded, even if no message arrives', async (t) => {
    const { topic } = await makeTopic(t)
    const sent = makeOutgoing(2)
    await topic.publish(sent)
    const seen = new Recording()
    let demand: (reason: Error) => void = () => assert.fail('it was not active')
    const lastSequence = async (restart: typeof demand) => {
      demand = restart
      return 0
    }
    const subscription = await subscribe(t, topic, 'owner', seen.handle, { lastSequence })
    await seen.until(2)
    demand(new Error('its data are lost'))
    await seen.until(4)
    assert.deepEqual(seen.ids, [...idsOf(sent), ...idsOf(sent)])
    await eventually(async () => subscription.state === 'active', { what: 'a healthy subscription' })
  })
}

function stopping(makeTopic: MakeTopic): void {
  test('stop signals the handler, waits for its batch and stores its position', async (t) => {
    const gate = makeGate(t)
    const { topic } = await makeTopic(t)
    const sent = makeOutgoing(3)
    await topic.publish(sent.slice(0, 2))
    const subscription = await subscribe(t, topic, 'reader', async (_messages, signal) => {
      const told = once(signal, 'abort')
      await gate.pass()
      await told
    })
    await gate.entered
    let stopped = false
    const stop = subscription.stop().then(() => {
      stopped = true
    })
    await topic.publish(sent.slice(2))
    assert.equal(stopped, false)
    gate.open()
    await stop
    const next = new Recording()
    await subscribe(t, topic, 'reader', next.handle)
    await next.until(1)
    assert.deepEqual(next.ids, idsOf(sent.slice(2)))
  })

  test('stop may come before start and twice, and start twice', async (t) => {
    const { topic } = await makeTopic(t)
    await topic.publish(makeOutgoing(1))
    const seen = new Recording()
    await topic.subscribe('unborn', seen.handle).stop()
    const subscription = topic.subscribe('reader', seen.handle)
    await Promise.all([subscription.start(), subscription.start()])
    await seen.until(1)
    await Promise.all([subscription.stop(), subscription.stop()])
    await subscription.stop()
    assert.equal(seen.messages.length, 1)
  })

  test('stops while on standby', async (t) => {
    const { topic } = await makeTopic(t)
    const seen = new Recording()
    await subscribe(t, topic, 'reader', seen.handle)
    await topic.publish(makeOutgoing(1))
    await seen.until(1)
    const standby = await subscribe(t, topic, 'reader', () => assert.fail('it was standing by'))
    await topic.publish([{ ...(makeOutgoing(1)[0] as OutgoingMessage), event: makeOrderEvent({ order: { id: randomUUID() } }) }])
    await seen.until(2)
    await standby.stop()
  })
}

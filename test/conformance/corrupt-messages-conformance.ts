import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CorruptMessage, MessageHandler } from '../../src/topic/topic.ts'
import { eventually } from '../eventually.ts'
import { makeOrderEvent } from '../order-event-factory.ts'
import { idsOf, type MakeTopic, makeOutgoing, Recording, subscribe } from '../topic-harness.ts'

/** The part of `topicConformance` about messages that are no order events. */
export function corruptMessagesConformance(makeTopic: MakeTopic): void {
  test('skips a message that is no order event, logs it once and continues, also after a handler failed', async (t) => {
    const { topic, inject } = await makeTopic(t)
    const sent = makeOutgoing(3)
    const poison = makeOrderEvent()
    await topic.publish(sent.slice(0, 1))
    await inject('first', JSON.stringify({ ...poison, id: 'another' }))
    await topic.publish(sent.slice(1, 2))
    await inject('second', '"no object at all"')
    const [seen, told] = [new Recording(), [] as CorruptMessage[]]
    const onCorrupt = (messages: readonly CorruptMessage[]) => void told.push(...messages)
    let failures = 0
    const handle: MessageHandler = async (messages, signal) => {
      if (failures++ === 0) throw new Error('not yet')
      await seen.handle(messages, signal)
    }
    const subscription = await subscribe(t, topic, 'reader', handle, { onCorrupt })
    await eventually(async () => told.length === 2 && seen.messages.length === 2)
    await topic.publish(sent.slice(2))
    await seen.until(3)
    assert.deepEqual(seen.ids, idsOf(sent))
    assert.equal(subscription.state, 'active')
    const stored = await topic.read(0, 10)
    assert.deepEqual(told, [
      { sequence: stored[1]?.sequence, reason: 'id is not that of the order and its version' },
      { sequence: stored[3]?.sequence, reason: 'it has no order' },
    ])
  })

  test('comes past a message that is no order event though nothing else follows', async (t) => {
    const { topic, inject } = await makeTopic(t)
    await topic.publish(makeOutgoing(1))
    const seen = new Recording()
    let told = 0
    const onCorrupt = () => void told++
    const first = await subscribe(t, topic, 'reader', seen.handle, { onCorrupt })
    await seen.until(1)
    await inject('poison', 'null')
    await eventually(async () => told === 1)
    await first.stop()
    const end = makeOutgoing(1)
    await topic.publish(end)
    await subscribe(t, topic, 'reader', seen.handle, { onCorrupt })
    await seen.until(2)
    assert.deepEqual([seen.ids[1], told], [end[0]?.event.id, 1])
  })
}

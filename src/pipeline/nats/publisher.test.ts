import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, describe, type TestContext, test } from 'node:test'
import { zstdDecompressSync } from 'node:zlib'
import { nanos } from '@nats-io/transport-node'
import { Value } from 'typebox/value'
import { createTestDatabase } from '../../../test/database.ts'
import { eventually } from '../../../test/eventually.ts'
import { connectManager, connectNatsTopic } from '../../../test/nats-harness.ts'
import { NO_NATS, startNatsServer } from '../../../test/nats-server.ts'
import { makeOrderEvent } from '../../../test/order-event-factory.ts'
import { idsOf, makeOutgoing } from '../../../test/topic-harness.ts'
import type { PublishedEvent } from '../delivery-log.ts'

const server = NO_NATS ? null : await startNatsServer({ after })
const url = server?.url ?? ''

/** A topic that tells what it has stored, and the broker's own look at it. */
async function makeTopic(t: TestContext) {
  const db = await createTestDatabase(t)
  const told: PublishedEvent[] = []
  const topic = connectNatsTopic(t, db, url, { onStored: (events) => void told.push(...events) })
  return { db, topic, told, manager: await connectManager(t, url) }
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

  test('drops an event that it has, however long after the broker has forgotten the message id, and keeps the order', async (t) => {
    const { db, topic, told, manager } = await makeTopic(t)
    const [old, fresh] = [makeOutgoing(700), makeOutgoing(700, 1_000)]
    await topic.publish(old)
    await manager.streams.update(db.name.toUpperCase(), { duplicate_window: nanos(100) })
    const probe = old[0]
    await eventually(async () => {
      if (probe === undefined) return false
      const again = await manager
        .jetstream()
        .publish(`${db.name}.${probe.event.id}`, '', { msgID: probe.event.id })
        .catch(() => null)
      return again === null
    })
    told.length = 0
    await topic.publish([...old.slice(0, 100), ...fresh.slice(0, 300), ...old.slice(100), ...fresh.slice(300)])
    const messages = await topic.read(0, 5_000)
    assert.deepEqual(idsOf(messages), idsOf([...old, ...fresh]))
    assert.deepEqual(
      bySequence(told),
      messages.map(({ sequence }, index) => ({ eventId: [...old, ...fresh][index]?.event.id, sequence })),
    )
  })
})

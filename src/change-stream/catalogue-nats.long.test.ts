import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onCleanup } from '../../test/cleanup.ts'
import { createTestDatabase } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { connectManager, natsSettings } from '../../test/nats-harness.ts'
import { NO_NATS, startNatsServer } from '../../test/nats-server.ts'
import { addProduct } from '../../test/store.ts'
import { silent } from '../../test/stream-harness.ts'
import type { CatalogueEvent } from '../catalogue/catalogue-event.ts'
import { recordProductEvents } from '../catalogue/change-catalogue.ts'
import { inTransaction } from '../db/transaction.ts'
import { NatsTopic } from '../topic/nats/nats-topic.ts'
import { CATALOGUE } from '../topic/partitions.ts'
import { createCatalogueStreamHandler } from './catalogue-stream-handler.ts'
import { slotNameFor } from './replication-slot.ts'

test('a recreated broker stream gets all events again, those of each product in order', { skip: NO_NATS }, async (t) => {
  const [db, server] = [await createTestDatabase(t), await startNatsServer(t)]
  const { pool, url } = db
  const topic = new NatsTopic(CATALOGUE, { nats: natsSettings(server.url), replicas: 1, pool, url, logger: silent })
  onCleanup(t, () => topic.stop())
  const stream = createCatalogueStreamHandler({ pool, url, slotName: slotNameFor(db.name, 'catalogue'), topic, logger: silent })
  onCleanup(t, () => stream.stop())
  await stream.start()
  const rename = (id: string, name: string) =>
    inTransaction(pool, async (tx) => {
      await tx.query('update products set name = $2 where id = $1', [id, name])
      await recordProductEvents(tx, [id], null)
    })
  const first = await addProduct(pool)
  const received: CatalogueEvent[] = []
  const subscriber = topic.subscribe('catalogue-test', async (messages) => void received.push(...messages.map(({ event }) => event)))
  onCleanup(t, () => subscriber.stop())
  await subscriber.start()
  for (const name of ['One', 'Two']) await rename(first.id, name)
  await eventually(async () => received.length >= 3, { what: 'the events' })

  const manager = await connectManager(t, server.url)
  for (const round of [1, 2]) {
    await manager.streams.delete('CATALOGUE')
    const before = received.length
    const other = await addProduct(pool)
    await rename(first.id, `Changed ${round}`)
    await rename(other.id, `Changed ${round}`)
    const { rows } = await pool.query<{ events: number }>('select count(*)::integer as events from product_events')
    const expected = rows[0]?.events ?? 0
    // The stream does not exist until it is recreated.
    const published = () => topic.read(0, 1_000).catch(() => [])
    await eventually(async () => (await published()).length === expected, { what: 'every event on the topic' })
    await eventually(async () => received.length >= before + expected, { what: 'every event at the subscriber' })
    const versions = new Map<string, number[]>()
    for (const { event } of await topic.read(0, 1_000)) {
      const { subject, sequence } = event as CatalogueEvent
      versions.set(subject, [...(versions.get(subject) ?? []), Number(sequence)])
    }
    for (const [id, of] of versions)
      assert.deepEqual(
        of,
        of.toSorted((a, b) => a - b),
        id,
      )
    assert.equal(versions.size, 1 + round)
  }
})

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { connectManager, connectNatsTopic } from '../../../test/nats-harness.ts'
import { NO_NATS, startNatsServer } from '../../../test/nats-server.ts'
import { startAuditedStore } from '../../../test/pipeline-audit.ts'
import { orderSlotOf } from '../../app/prepare-database.ts'
import { orderPartition } from '../verify/compared-partition.ts'
import { replay } from './replay.ts'

const server = NO_NATS ? null : await startNatsServer({ after })

test('publishes events that a broker has just lost, and counts the events that are then in its stream', { skip: NO_NATS }, async (t) => {
  const store = await startAuditedStore(t)
  await store.trade(6)
  const db = { name: orderSlotOf(store.url), pool: store.pool, url: store.url }
  const topic = connectNatsTopic(t, db, server?.url ?? '')
  const manager = await connectManager(t, server?.url ?? '')
  const stream = db.name.toUpperCase()
  const refill = async () => {
    const { published, dropped } = await replay(orderPartition(topic), {
      pool: store.pool,
      streamUrl: store.addresses.stream,
      slotName: db.name,
      patienceMs: 0,
    })
    return { published, dropped, stored: (await manager.streams.info(stream)).state.messages }
  }
  await store.pool.query('select pg_drop_replication_slot($1)', [db.name])
  assert.deepEqual(await refill(), { published: 8, dropped: [], stored: 8 })
  for (const seq of [2, 5]) await manager.streams.deleteMessage(stream, seq)
  assert.deepEqual(await refill(), { published: 2, dropped: [], stored: 8 })
  await manager.streams.purge(stream)
  assert.deepEqual(await refill(), { published: 8, dropped: [], stored: 8 })
})

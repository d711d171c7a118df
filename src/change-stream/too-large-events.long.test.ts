import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { onCleanup } from '../../test/cleanup.ts'
import { eventually } from '../../test/eventually.ts'
import { connectManager, connectNatsTopic } from '../../test/nats-harness.ts'
import { NO_NATS, startNatsServer } from '../../test/nats-server.ts'
import { insertOrders, makeStreamDatabase, moveOrder, silent } from '../../test/stream-harness.ts'
import { replay } from '../audit/replay/replay.ts'
import { orderPartition } from '../audit/verify/compared-partition.ts'
import { listDeadLetters, ORDER_DEAD_LETTERS } from './dead-letters.ts'
import { createOrderStreamHandler } from './order-stream-handler.ts'

test('an order that is too large for the broker stops no other, and replay publishes it once the broker accepts it', {
  skip: NO_NATS,
}, async (t) => {
  const server = await startNatsServer(t, 'max_payload: 20000')
  const db = await makeStreamDatabase(t)
  const topic = connectNatsTopic(t, db, server.url)
  const stream = createOrderStreamHandler({ url: db.url, pool: db.pool, slotName: db.slotName, topic, logger: silent })
  onCleanup(t, () => stream.stop())
  await stream.start()
  const published = async () => (await topic.read(0, 100)).map(({ event }) => (event as { id: string }).id)
  const replayAll = async () => {
    const report = await replay(orderPartition(topic), {
      pool: db.pool,
      streamUrl: db.addresses.stream,
      slotName: db.slotName,
      patienceMs: 0,
    })
    return { published: report.published, dropped: report.dropped.toSorted() }
  }

  const [before, [large = ''], after] = [
    await insertOrders(db.pool, 1),
    await insertOrders(db.pool, 1, 1_000),
    await insertOrders(db.pool, 2),
  ]
  const small = [...before, ...after].map((id) => `${id}.1`)
  await eventually(async () => (await published()).length === small.length, { what: 'the events of the other orders' })
  assert.deepEqual((await published()).sort(), small.toSorted())
  await moveOrder(db.pool, large, 'confirmed')
  const [last] = await insertOrders(db.pool, 1)
  await eventually(async () => (await published()).includes(`${last}.1`), { what: 'the event of the last order' })
  assert.equal(stream.state, 'active')
  const refused = [`${large}.1`, `${large}.2`]
  const letters = await listDeadLetters(db.pool, ORDER_DEAD_LETTERS)
  assert.deepEqual(
    letters.map(({ event_id }) => event_id),
    refused,
  )
  for (const { reason } of letters) assert.match(reason, /too large: raise max_payload/)

  const manager = await connectManager(t, server.url)
  await manager.streams.deleteMessage(db.name.toUpperCase(), 1)
  assert.deepEqual(await replayAll(), { published: 1, dropped: refused }, 'others are published nevertheless')

  await server.end('SIGTERM')
  const file = join(server.directory, 'nats.conf')
  writeFileSync(file, readFileSync(file, 'utf8').replace('max_payload: 20000', 'max_payload: 1MB'))
  await server.start()
  await eventually(
    () =>
      published().then(
        ({ length }) => length > 0,
        () => false,
      ),
    { what: 'the topic' },
  )
  assert.deepEqual(await replayAll(), { published: 2, dropped: [] })
  assert.deepEqual((await published()).slice(-2), refused)
})

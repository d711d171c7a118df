import assert from 'node:assert/strict'
import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { onCleanup } from '../../test/cleanup.ts'
import { makeDataFolder } from '../../test/data-folders.ts'
import { createTestDatabase } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { breakReader, insertOrders, makeStreamDatabase, silent, untilSent } from '../../test/stream-harness.ts'
import { makeGate } from '../../test/topic-harness.ts'
import type { DataFolder } from '../db/embedded/data-folder.ts'
import { startEmbeddedPostgres } from '../db/embedded/embedded-postgres.ts'
import { migrate } from '../db/migrate.ts'
import { connectToAny, createPool, type Pool } from '../db/pool.ts'
import { ORDERS } from '../topic/partitions.ts'
import { createPostgresTopic } from '../topic/postgres/postgres-topic.ts'
import type { Topic } from '../topic/topic.ts'
import type { WatchedStream } from './change-stream.ts'
import { ensureReplicationSlot } from './ensure-slot.ts'
import { createOrderStreamHandler } from './order-stream-handler.ts'

interface Slot {
  url: string
  pool: Pool
  slotName: string
}

async function startHandler(t: TestContext, { url, pool, slotName }: Slot, topic: Topic): Promise<WatchedStream> {
  const stream = createOrderStreamHandler({ url, pool, slotName, topic, logger: silent })
  onCleanup(t, () => stream.stop())
  await stream.start()
  return stream
}

/** A topic that also lists the published orders, including duplicates. */
function listening(topic: Topic): { given: string[]; topic: Topic } {
  const given: string[] = []
  const publish: Topic['publish'] = async (messages) => {
    given.push(...messages.map(({ event }) => event.subject))
    await topic.publish(messages)
  }
  return { given, topic: { ...topic, publish } }
}

interface Server {
  folder: DataFolder
  url: string
  pool: Pool
  stop(): Promise<void>
}

async function startServer(t: TestContext, folder: DataFolder): Promise<Server> {
  const server = await startEmbeddedPostgres(folder, { settings: { fsync: 'off' } })
  const pool = createPool({ url: server.url, size: 2, applicationName: 'test', onError: () => {} })
  const stop = async () => {
    if (!pool.ended) await pool.end()
    await server.stop()
  }
  onCleanup(t, stop)
  return { folder, url: server.url, pool, stop }
}

async function storedOrders(pool: Pool): Promise<string[]> {
  const { rows } = await pool.query<{ subject: string }>(`select event ->> 'subject' as subject from topic_messages order by sequence`)
  return rows.map(({ subject }) => subject)
}

test('a handler that gets the slot back asks the topic for the newest position that another handler published', async (t) => {
  const gate = makeGate(t)
  const db = await makeStreamDatabase(t)
  const topic = createPostgresTopic(ORDERS, { pool: db.pool, url: db.url, logger: silent })
  const first = listening(topic)
  const holder = await startHandler(t, db, first.topic)
  const [before = ''] = await insertOrders(db.pool, 1)
  await eventually(async () => (await storedOrders(db.pool)).length === 1)

  // The other handler publishes everything, confirms only the first order, and then never returns.
  const other = await startHandler(t, db, {
    ...topic,
    async publish(messages) {
      await gate.pass()
      await topic.publish(messages)
      if ((await storedOrders(db.pool)).length === 5) await new Promise<void>((resolve) => onCleanup(t, resolve))
    },
  })
  await eventually(
    async () => {
      // The reader of another process must be the other handler, which becomes active only after it has read the
      // position.
      if (holder.state === 'active' && other.state !== 'active') await breakReader(db)
      return other.state === 'active'
    },
    { what: 'the other handler has the slot' },
  )
  const between = (await insertOrders(db.pool, 1)).slice()
  await gate.entered
  for (let order = 0; order < 3; order++) between.push(...(await insertOrders(db.pool, 1)))
  await untilSent(db)
  gate.open()
  await eventually(async () => (await storedOrders(db.pool)).length === 5)
  await breakReader(db)
  const [after = ''] = await insertOrders(db.pool, 1)
  await eventually(async () => (await storedOrders(db.pool)).length === 6)
  assert.deepEqual(await storedOrders(db.pool), [before, ...between, after])
  // The topic may have only part of the newest commit, so that commit is published again. Earlier ones are not.
  assert.deepEqual([...new Set(first.given)], [before, between.at(-1), after])
})

test('a promoted standby continues at a lower position than its primary reached, and skips none of its commits', async (t) => {
  const { pool: topicPool, url: topicUrl } = await createTestDatabase(t)
  const topic = listening(createPostgresTopic(ORDERS, { pool: topicPool, url: topicUrl, logger: silent })).topic
  const primary = await startServer(t, makeDataFolder(t))
  await migrate(primary.url)
  const slotName = 'storefront_orders'
  assert.equal(await ensureReplicationSlot(primary.pool, primary.url, slotName), 'created')
  await primary.stop()
  const standbyFolder = makeDataFolder(t)
  cpSync(primary.folder.path, standbyFolder.path, { recursive: true })

  // The lagging standby never receives these.
  const lost = await startServer(t, primary.folder)
  const stream = await startHandler(t, { ...lost, slotName }, topic)
  await lost.pool.query(`select pg_logical_emit_message(false, 'ballast', repeat('x', 1000000))`)
  const [gone] = await insertOrders(lost.pool, 1)
  await eventually(async () => (await storedOrders(topicPool)).length === 1)
  await stream.stop()
  await lost.stop()

  writeFileSync(join(standbyFolder.cluster, 'standby.signal'), '')
  const promoted = await startServer(t, standbyFolder)
  // A pool of the store refuses a standby, so the operator has a plain connection.
  const operator = await connectToAny(promoted.url, 'test')
  await operator.query('select pg_promote(true, 30)')
  await operator.end()
  await startHandler(t, { ...promoted, slotName }, topic)
  const [kept] = await insertOrders(promoted.pool, 1)
  await eventually(async () => (await storedOrders(topicPool)).length === 2, { what: 'the order of the promoted standby' })
  assert.deepEqual(await storedOrders(topicPool), [gone, kept])
})

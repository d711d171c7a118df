import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { allowBrokenRows } from '../../test/broken-rows.ts'
import { onCleanup } from '../../test/cleanup.ts'
import type { TestDatabase } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { collectLog } from '../../test/logs.ts'
import { makeOrderItem } from '../../test/order-event-factory.ts'
import { insertOrders, makeStreamDatabase, silent } from '../../test/stream-harness.ts'
import { makeTestFolder } from '../../test/test-folder.ts'
import { replay } from '../audit/replay/replay.ts'
import { orderPartition } from '../audit/verify/compared-partition.ts'
import { formatReport } from '../audit/verify/format-report.ts'
import { verify } from '../audit/verify/verify.ts'
import { LocalLakeStore } from '../lake/local-store.ts'
import { ORDERS } from '../topic/partitions.ts'
import { createPostgresTopic } from '../topic/postgres/postgres-topic.ts'
import { createOrderStreamHandler } from './order-stream-handler.ts'

/** Values that the database accepts in a column and that make no event, with the stream's reason. */
const DEFECTS = [
  { column: 'items', value: '{"lamp": 1}', reason: 'items is no list' },
  { column: 'items', value: '[{"sku": "LAMP"}]', reason: 'items[0] is no line of an order' },
  { column: 'status_history', value: '"pending"', reason: 'status_history is no list' },
  { column: 'status_history', value: '[{"status": "lost", "at": "yesterday"}]', reason: 'status_history[0] is no change of status' },
  { column: 'updated_at', value: 'infinity', reason: 'updated_at is no time' },
  { column: 'created_at', value: '10000-01-01T00:00:00Z', reason: 'created_at is no time' },
  { column: 'created_at', value: '-infinity', reason: 'created_at is no time' },
  { column: 'updated_at', value: '290000-01-01T00:00:00Z', reason: 'updated_at is no time' },
  { column: 'updated_at', value: '4000-03-15 10:00:00+00 BC', reason: 'updated_at is no time' },
  {
    column: 'items',
    value: '[{"product_id": "a", "sku": "b", "name": "c", "quantity": 1e400, "unit_price": {}, "total": {}}]',
    reason: 'items[0] is no line of an order',
  },
  {
    column: 'status_history',
    value: '[{"status": "pending", "at": "+275760-09-13T00:00:00.001Z"}]',
    reason: 'status_history[0] is no change of status',
  },
]

async function storedEvents(db: TestDatabase) {
  const { rows } = await db.pool.query<{ id: string; previous: string | null; lines: number }>(
    `select id, event -> 'data' ->> 'previous_status' as previous, json_array_length(event -> 'data' -> 'order' -> 'items') as lines
    from topic_messages order by sequence`,
  )
  return rows
}

async function start(t: TestContext) {
  const db = await makeStreamDatabase(t)
  await allowBrokenRows(db.pool)
  const { logger, entries: lines } = collectLog<{ event?: string; reason?: string }>('error')
  const topic = createPostgresTopic(ORDERS, { pool: db.pool, url: db.url, logger: silent })
  const lakeDirectory = makeTestFolder(t)
  const stream = createOrderStreamHandler({ url: db.url, pool: db.pool, slotName: db.slotName, topic, logger })
  onCleanup(t, () => stream.stop())
  await stream.start()
  const options = { pool: db.pool, streamUrl: db.addresses.stream, topic, slotName: db.slotName }
  return {
    db,
    lines,
    verify: () => verify({ ...options, lake: new LocalLakeStore(lakeDirectory), now: () => new Date() }),
    replay: () => replay(orderPartition(topic), options),
  }
}

test('continues after rows from which no event can be made, and records and reports each with its reason', async (t) => {
  const { db, lines, verify, replay } = await start(t)
  const expected: string[] = []
  for (const { column, value, reason } of DEFECTS) {
    const [poisoned = ''] = await insertOrders(db.pool, 2)
    await db.pool.query(`update orders set ${column} = $2, version = version + 1 where id = $1`, [poisoned, value])
    expected.push(`${poisoned}.2: ${reason}`)
  }
  const [last] = await insertOrders(db.pool, 1)
  await eventually(async () => (await storedEvents(db)).at(-1)?.id === `${last}.1`)
  assert.equal((await storedEvents(db)).length, 2 * DEFECTS.length + 1)
  const told = lines.map(({ event, reason }) => `${event}: ${reason}`)
  assert.deepEqual(told, expected)
  const report = await verify()
  assert.deepEqual(report.findings.find(({ kind }) => kind === 'dead-lettered')?.examples, expected.toSorted())
  assert.ok(!report.findings.some(({ place, kind }) => place === 'topic' && kind === 'missing'))
  assert.match(
    formatReport(report),
    /change stream: 11 dead-lettered \(no event was published: repair the row or what the reason names, then run storefront replay\)/,
  )
  assert.equal((await replay()).published, 0)
})

test('the stream publishes a repaired row, replay publishes its earlier versions, and then verify finds nothing', async (t) => {
  const { db, verify, replay } = await start(t)
  const history = ['pending', 'confirmed'].map((status) => ({
    status,
    at: '2026-03-01T10:00:00.000Z',
    actor: { type: 'system', id: null },
  }))
  const id = randomUUID()
  await db.pool.query(
    `insert into orders (id, user_id, status, items, total_amount, currency, status_history, created_at, updated_at)
    values ($1, gen_random_uuid(), 'pending', '{}', 2500, 'EUR', $2, now(), now())`,
    [id, JSON.stringify(history.slice(0, 1))],
  )
  await db.pool.query(`update orders set status = 'confirmed', version = 2, status_history = $2 where id = $1`, [
    id,
    JSON.stringify(history),
  ])
  const deadLettered = async () => (await verify()).findings.find(({ kind }) => kind === 'dead-lettered')?.count
  await eventually(async () => (await deadLettered()) === 2)
  await db.pool.query('update orders set items = $2 where id = $1', [id, JSON.stringify([makeOrderItem()])])
  await eventually(async () => (await storedEvents(db)).length === 1)
  assert.equal(await deadLettered(), 1)
  assert.equal((await replay()).published, 1)
  assert.deepEqual(await storedEvents(db), [
    { id: `${id}.2`, previous: 'pending', lines: 1 },
    { id: `${id}.1`, previous: null, lines: 1 },
  ])
  assert.deepEqual((await verify()).findings, [])
})

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import pino from 'pino'
import { createTestDatabase } from '../../test/database.ts'
import { collectLog } from '../../test/logs.ts'
import { makeOrderEvent } from '../../test/order-event-factory.ts'
import { silent } from '../../test/stream-harness.ts'
import type { Pool } from '../db/pool.ts'
import { DeliveryLog, findDeliveries, type PublishedEvent } from './delivery-log.ts'
import { ORDERS } from './partitions.ts'
import { createPostgresTopic } from './postgres/postgres-topic.ts'
import { EPOCH_SEQUENCES } from './topic.ts'

const FIRST = EPOCH_SEQUENCES + 1
const PUBLISHED = new Date('2026-03-01T10:00:01.000Z')
const STORED = new Date('2026-03-01T10:00:05.000Z')
const WARN = pino.levels.values.warn
const LATER = new Date('2026-03-01T11:00:00.000Z')

test('returns when an event was published and when it reached the lake, whichever was written first', async (t) => {
  const { pool } = await createTestDatabase(t)
  const steps = [
    [PUBLISHED, (log: DeliveryLog, event: PublishedEvent) => log.published([event])],
    [STORED, (log: DeliveryLog, { sequence }: PublishedEvent) => log.inLake([sequence])],
  ] as const
  for (const [index, order] of [steps, steps.toReversed()].entries()) {
    const [event] = makePublished(1, FIRST + index)
    for (const [at, tell] of order) await write(pool, at, (log) => tell(log, event))
    assert.deepEqual(await deliveriesOf(pool, event), new Map([[1, { publishedAt: PUBLISHED, mail: null, copies: [], lakeAt: STORED }]]))
  }
})

test('returns null for deliveries that have not happened', async (t) => {
  const { pool } = await createTestDatabase(t)
  const [event, other] = makePublished(2)
  await write(pool, PUBLISHED, (log) => log.published([event]))
  assert.deepEqual(await deliveriesOf(pool, event), new Map([[1, { publishedAt: PUBLISHED, mail: null, copies: [], lakeAt: null }]]))
  assert.deepEqual(await deliveriesOf(pool, other), new Map())
})

test('keeps the first time of repeated events, and records new events', async (t) => {
  const { pool } = await createTestDatabase(t)
  const [late, ...events] = makePublished(4)
  await write(pool, PUBLISHED, (log) => log.published(events.slice(0, 2)))
  await write(pool, LATER, (log) => log.published(events))
  await write(pool, LATER, (log) => log.published([{ ...late, at: STORED }]))
  const known = await Promise.all(events.map((event) => deliveriesOf(pool, event)))
  assert.deepEqual(
    known.map((deliveries) => deliveries.get(1)?.publishedAt),
    [PUBLISHED, PUBLISHED, LATER],
  )
  assert.deepEqual((await deliveriesOf(pool, late)).get(1)?.publishedAt, STORED, 'what turned out to be there was published before')
})

test('keeps the first times of an event that another message publishes again after the topic was lost', async (t) => {
  const { pool } = await createTestDatabase(t)
  const [event] = makePublished(1)
  const again = { ...event, sequence: event.sequence + EPOCH_SEQUENCES }
  await write(pool, PUBLISHED, (log) => log.published([event]))
  await write(pool, LATER, (log) => log.published([again]))
  assert.deepEqual(await deliveriesOf(pool, event), new Map([[1, { publishedAt: PUBLISHED, mail: null, copies: [], lakeAt: null }]]))
  // The first message was lost before the lake had it.
  await write(pool, LATER, (log) => log.inLake([again.sequence]))
  assert.deepEqual(await deliveriesOf(pool, event), new Map([[1, { publishedAt: PUBLISHED, mail: null, copies: [], lakeAt: LATER }]]))
  await write(pool, STORED, (log) => log.inLake([event.sequence]))
  assert.deepEqual(await deliveriesOf(pool, event), new Map([[1, { publishedAt: PUBLISHED, mail: null, copies: [], lakeAt: STORED }]]))
})

test('warns if more entries wait than it keeps, and writes the rest', async (t) => {
  const { pool } = await createTestDatabase(t)
  const { logger, entries: lines } = collectLog<{ level: number; events: number }>()
  const events = makePublished(50_001)
  const log = new DeliveryLog({ pool, logger, now: () => PUBLISHED })
  log.published(events)
  log.inLake(Array.from({ length: 1_002 }, (_, index) => FIRST + 2 * index))
  await log.stop()
  assert.deepEqual(
    lines.map(({ level, events }) => [level, events]),
    [
      [WARN, 1],
      [WARN, 2],
    ],
  )
  const { rows } = await pool.query<{ events: number; ranges: number }>(
    'select (select count(*) from order_event_deliveries)::integer as events, (select count(*) from lake_arrivals)::integer as ranges',
  )
  assert.deepEqual(rows, [{ events: 50_000, ranges: 1_000 }])
})

test("reads the time of publication from the topic's table", async (t) => {
  const { pool, url } = await createTestDatabase(t)
  const first = makeOrderEvent()
  const second = makeOrderEvent({ order: { id: first.subject, version: 2, status: 'confirmed' } })
  const topic = createPostgresTopic(ORDERS, { pool, url, logger: silent })
  await topic.publish([first, second].map((event) => ({ position: '', event })))
  const [{ sequence = 0 } = {}] = await topic.read(0, 1)
  await write(pool, LATER, (log) => log.inLake([sequence]))
  const { rows } = await pool.query<{ at: Date }>('select published_at as at from topic_messages order by sequence')
  assert.deepEqual(
    await findDeliveries(pool, { id: first.subject, versions: [1, 2] }),
    new Map([
      [1, { publishedAt: rows[0]?.at, mail: null, copies: [], lakeAt: LATER }],
      [2, { publishedAt: rows[1]?.at, mail: null, copies: [], lakeAt: null }],
    ]),
  )
})

test('returns when messages reached the lake, which is recorded by ranges of sequences', async (t) => {
  const { pool, url } = await createTestDatabase(t)
  const events = Array.from({ length: 7 }, () => makeOrderEvent())
  const topic = createPostgresTopic(ORDERS, { pool, url, logger: silent })
  await topic.publish(events.map((event) => ({ position: '', event })))
  const sequences = (await topic.read(0, 10)).map(({ sequence }) => sequence)
  const [first = 0, second = 0, , fourth = 0, , sixth = 0] = sequences
  await write(pool, STORED, (log) => log.inLake([first, second]))
  await write(pool, LATER, (log) => log.inLake([first, second]))
  await write(pool, LATER, (log) => log.inLake([fourth, sixth]))
  const known = await Promise.all(events.map(({ subject: id }) => findDeliveries(pool, { id, versions: [1] })))
  assert.deepEqual(
    known.map((deliveries) => deliveries.get(1)?.lakeAt),
    [STORED, STORED, null, LATER, null, LATER, null],
    'nothing is known of those that were not named, also between two that were',
  )
})

/** Events of one order each, at consecutive sequences. */
function makePublished(count: number, first = FIRST): [PublishedEvent, PublishedEvent, ...PublishedEvent[]] {
  return Array.from({ length: count }, (_, index) => ({ eventId: `${randomUUID()}.1`, sequence: first + index })) as [
    PublishedEvent,
    PublishedEvent,
  ]
}

function deliveriesOf(pool: Pool, { eventId }: PublishedEvent) {
  return findDeliveries(pool, { id: eventId.split('.')[0] ?? '', versions: [1] })
}

async function write(pool: Pool, at: Date, tell: (log: DeliveryLog) => void): Promise<void> {
  const log = new DeliveryLog({ pool, logger: silent, now: () => at })
  tell(log)
  await log.stop()
}

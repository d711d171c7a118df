import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTestDatabase } from '../../test/database.ts'
import { makeOrderEvent } from '../../test/order-event-factory.ts'
import { silent } from '../../test/stream-harness.ts'
import type { Pool } from '../db/pool.ts'
import { DeliveryLog, findDeliveries, toLoggedEvent } from './delivery-log.ts'
import { createPostgresTopic } from './postgres-topic.ts'

const PUBLISHED = new Date('2026-03-01T10:00:01.000Z')
const STORED = new Date('2026-03-01T10:00:05.000Z')
const LATER = new Date('2026-03-01T11:00:00.000Z')

test('tells when an event was published and when it reached the lake, whichever is written first', async (t) => {
  const { pool } = await createTestDatabase(t)
  const steps = [
    { at: PUBLISHED, tell: 'published' },
    { at: STORED, tell: 'inLake' },
  ] as const
  for (const order of [steps, steps.toReversed()]) {
    const event = toLoggedEvent(makeOrderEvent())
    for (const { at, tell } of order) await write(pool, at, (log) => log[tell]([event]))
    assert.deepEqual(
      await findDeliveries(pool, { id: event.orderId, version: 1 }),
      new Map([[1, { publishedAt: PUBLISHED, mail: null, lakeAt: STORED }]]),
    )
  }
})

test('keeps the first time of what happens again, and knows nothing of what has not happened', async (t) => {
  const { pool } = await createTestDatabase(t)
  const event = toLoggedEvent(makeOrderEvent())
  for (const at of [STORED, LATER]) await write(pool, at, (log) => log.inLake([event]))
  assert.deepEqual(
    await findDeliveries(pool, { id: event.orderId, version: 1 }),
    new Map([[1, { publishedAt: null, mail: null, lakeAt: STORED }]]),
  )
  assert.deepEqual(await findDeliveries(pool, { id: makeOrderEvent().subject, version: 1 }), new Map())
})

test("takes the time of publication from the topic's table", async (t) => {
  const { pool, url } = await createTestDatabase(t)
  const first = makeOrderEvent()
  const second = makeOrderEvent({ order: { id: first.subject, version: 2, status: 'confirmed' } })
  await createPostgresTopic({ pool, url, logger: silent }).publish([first, second].map((event) => ({ position: '', event })))
  await write(pool, LATER, (log) => log.inLake([toLoggedEvent(first)]))
  const { rows } = await pool.query<{ at: Date }>('select published_at as at from topic_messages order by sequence')
  assert.deepEqual(
    await findDeliveries(pool, { id: first.subject, version: 2 }),
    new Map([
      [1, { publishedAt: rows[0]?.at, mail: null, lakeAt: LATER }],
      [2, { publishedAt: rows[1]?.at, mail: null, lakeAt: null }],
    ]),
  )
})

test('tells by stretches of the topic when its messages reached the lake', async (t) => {
  const { pool, url } = await createTestDatabase(t)
  const events = Array.from({ length: 7 }, () => makeOrderEvent())
  const topic = createPostgresTopic({ pool, url, logger: silent })
  await topic.publish(events.map((event) => ({ position: '', event })))
  const sequences = (await topic.read(0, 10)).map(({ sequence }) => sequence)
  const [first = 0, second = 0, , fourth = 0, , sixth = 0] = sequences
  await write(pool, STORED, (log) => log.messagesInLake([first, second]))
  await write(pool, LATER, (log) => log.messagesInLake([first, second]))
  await write(pool, LATER, (log) => log.messagesInLake([fourth, sixth]))
  const known = await Promise.all(events.map(({ subject: id }) => findDeliveries(pool, { id, version: 1 })))
  assert.deepEqual(
    known.map((deliveries) => deliveries.get(1)?.lakeAt),
    [STORED, STORED, null, LATER, null, LATER, null],
    'nothing is known of those that were not named, also between two that were',
  )
})

async function write(pool: Pool, at: Date, tell: (log: DeliveryLog) => void): Promise<void> {
  const log = new DeliveryLog({ pool, logger: silent, now: () => at })
  tell(log)
  await log.stop()
}

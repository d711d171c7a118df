import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { createTestDatabase } from '../../../test/database.ts'
import { connectNatsTopic } from '../../../test/nats-harness.ts'
import { NO_NATS, startNatsServer } from '../../../test/nats-server.ts'
import { makeOrderItem } from '../../../test/order-event-factory.ts'
import { silent } from '../../../test/stream-harness.ts'
import { recordCreatedSlot } from '../../change-stream/slot-positions.ts'
import type { Pool } from '../../db/pool.ts'
import { partitionMessages } from '../../topic/partition-messages.ts'
import { ORDERS } from '../../topic/partitions.ts'
import { createPostgresTopic } from '../../topic/postgres/postgres-topic.ts'
import type { Topic } from '../../topic/topic.ts'
import { orderPartition } from '../verify/compared-partition.ts'
import { replay } from './replay.ts'

const { pool, url, addresses, name } = await createTestDatabase({ after })
// Nothing reads this slot, so events that the topic lacks are lost.
await pool.query(`select pg_create_logical_replication_slot('order_of_replay', 'pgoutput')`)

const STATUSES = ['pending', 'confirmed', 'shipped', 'delivered', 'returned'] as const
/** The time of each version of some orders by clocks that jump: seconds within an hour, in any order. */
const histories = (most: number) =>
  fc.array(fc.array(fc.integer({ min: 0, max: 3_599 }), { minLength: 1, maxLength: STATUSES.length }), {
    minLength: most / 2,
    maxLength: most,
  })

async function insertOrders(db: Pool, seconds: readonly (readonly number[])[]): Promise<void> {
  const orders = seconds.map((versions) => {
    const history = versions.map((second, index) => ({
      status: STATUSES[index],
      at: new Date(Date.UTC(2026, 2, 1, 10, 0, second)).toISOString(),
      actor: { type: 'system', id: null },
      reason: null,
    }))
    return {
      id: randomUUID(),
      status: history.at(-1)?.status,
      version: history.length,
      history,
      created: history[0]?.at,
      updated: history.at(-1)?.at,
    }
  })
  await db.query(
    `insert into orders (id, user_id, status, items, total_amount, currency, version, status_history, created_at, updated_at)
    select id, gen_random_uuid(), status, $2, 2500, 'EUR', version, history, created, updated
    from jsonb_to_recordset($1) as orders (id uuid, status text, version integer, history jsonb, created timestamptz, updated timestamptz)`,
    [JSON.stringify(orders), JSON.stringify([makeOrderItem()])],
  )
}

/** The versions of each order in the topic's order. */
async function versionsOn(topic: Topic): Promise<Map<string, number[]>> {
  const byOrder = new Map<string, number[]>()
  for (let position = 0; ; ) {
    const stored = await topic.read(position, 1_000)
    if (stored.length === 0) return byOrder
    for (const { event } of partitionMessages(ORDERS, stored).messages)
      byOrder.set(event.subject, [...(byOrder.get(event.subject) ?? []), event.data.order.version])
    position = stored.at(-1)?.sequence ?? position
  }
}

async function assertInOrder(topic: Topic, orders: number): Promise<void> {
  const versions = await versionsOn(topic)
  assert.equal(versions.size, orders)
  for (const [id, found] of versions)
    assert.deepEqual(
      found,
      found.toSorted((a, b) => a - b),
      id,
    )
}

const postgres = createPostgresTopic(ORDERS, { pool, url, logger: silent })
const replayTo = (topic: Topic, filter = {}) =>
  replay(orderPartition(topic), { pool, streamUrl: addresses.stream, slotName: 'order_of_replay', filter, patienceMs: 0 })

async function startAgain(): Promise<void> {
  await pool.query('truncate orders cascade')
  await pool.query('truncate topic_messages')
  await forgetInSlot()
}

/** Advances the slot past the orders, so that it contains none of them. */
async function forgetInSlot(): Promise<void> {
  await pool.query(`select pg_replication_slot_advance('order_of_replay', pg_current_wal_lsn())`)
  await recordCreatedSlot(pool, 'order_of_replay')
}

test('publishes the versions of each order in their order, whatever their times are, also if an earlier replay was limited by time', async () => {
  await fc.assert(
    fc.asyncProperty(histories(30), fc.integer({ min: 0, max: 3_599 }), async (seconds, since) => {
      await startAgain()
      await insertOrders(pool, seconds)
      await forgetInSlot()
      await replayTo(postgres, { since: new Date(Date.UTC(2026, 2, 1, 10, 0, since)) })
      // No version was published without the ones before it.
      for (const [id, found] of await versionsOn(postgres))
        assert.deepEqual(
          found,
          Array.from(found, (_, index) => index + 1),
          id,
        )
      await replayTo(postgres)
      await assertInOrder(postgres, seconds.length)
    }),
    { numRuns: 15 },
  )
})

test('keeps the versions of each order in order across batches, in PostgreSQL and in NATS', { skip: NO_NATS }, async (t) => {
  const server = await startNatsServer(t)
  const nats = connectNatsTopic(t, { name, pool, url }, server.url)
  await startAgain()
  const seconds = fc.sample(histories(800), { numRuns: 1 })[0] ?? []
  await insertOrders(pool, seconds)
  await forgetInSlot()
  assert.ok(seconds.flat().length > 600, 'more than one batch')
  for (const topic of [postgres, nats]) {
    await replayTo(topic)
    await assertInOrder(topic, seconds.length)
  }
})

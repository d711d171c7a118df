import assert from 'node:assert/strict'
import { test } from 'node:test'
import { insertOrders, makeStreamDatabase, silent } from '../../test/stream-harness.ts'
import { ORDERS } from '../topic/partitions.ts'
import { createPostgresTopic } from '../topic/postgres/postgres-topic.ts'
import { publishOrderEvents } from './publish-order-events.ts'

test('ends even while orders are placed faster than events are published', async (t) => {
  const { pool, url } = await makeStreamDatabase(t)
  const topic = createPostgresTopic(ORDERS, { pool, url, logger: silent })
  const orders = await insertOrders(pool, 3)
  let placed = 0
  // New orders have the greatest ids.
  const place = () =>
    pool.query(
      `insert into orders (id, user_id, status, items, total_amount, currency, version, status_history, created_at, updated_at)
      select ('ffffffff-ffff-4fff-bfff-' || lpad($1::text, 12, '0'))::uuid, user_id, status, items, total_amount, currency, version,
        status_history, created_at, updated_at
      from orders
      limit 1`,
      [++placed],
    )
  const db: typeof pool = Object.create(pool, {
    query: {
      // An order is placed after each read.
      value: async (...parameters: Parameters<typeof pool.query>) => {
        const answer = await pool.query(...parameters)
        assert.ok(placed < 20, 'it follows the new orders')
        await place()
        return answer
      },
    },
  })
  assert.equal(await publishOrderEvents({ db, topic, logger: silent }), true)
  const { rows } = await pool.query<{ id: string }>('select id from topic_messages order by id')
  assert.deepEqual(
    rows.map(({ id }) => id),
    orders.map((id) => `${id}.1`).toSorted(),
  )
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTestDatabase, type TestDatabase } from '../../test/database.ts'
import { createPool } from '../db/pool.ts'
import { pagingOf } from '../http/pagination.ts'
import { OrderPosition } from './order-page.ts'
import { searchOrders } from './search-orders.ts'

async function addOrders({ pool }: TestDatabase, status: 'pending' | 'cancelled', count: number): Promise<void> {
  const history = (status === 'pending' ? ['pending'] : ['pending', status]).map((reached) => ({
    ...{ status: reached, at: '2026-01-01T00:00:00.000Z', reason: null, actor: { type: 'system', id: null } },
  }))
  const price = { amount: 100, currency: 'EUR' }
  const items = [{ product_id: crypto.randomUUID(), sku: 'LAMP', name: 'A lamp', quantity: 1, unit_price: price, total: price }]
  await pool.query(
    `insert into orders (id, user_id, status, items, total_amount, currency, status_history, version, created_at, updated_at)
    select gen_random_uuid(), gen_random_uuid(), $1, $2, 100, 'EUR', $3, $4, now(), now()
    from generate_series(1, $5)`,
    [status, JSON.stringify(items), JSON.stringify(history), history.length, count],
  )
}

test('finds the newest orders of a status without reading newer orders of another status', async (t) => {
  const database = await createTestDatabase(t)
  await addOrders(database, 'cancelled', 2_000)
  await addOrders(database, 'pending', 2_000)
  await database.pool.query('vacuum analyze orders')
  const pool = createPool({ url: database.url, size: 1, applicationName: 'test', onError: () => {} })
  t.after(() => pool.end())
  const countRead = async () => {
    await pool.query('select pg_stat_force_next_flush()')
    const { rows } = await pool.query<{ read: number }>(
      `select idx_tup_fetch + seq_tup_read as read from pg_stat_user_tables where relname = 'orders'`,
    )
    return rows[0]?.read ?? Number.NaN
  }
  const finders = { findBuyers: async (email: string) => ({ email, userIds: [] }), findPeople: null, findProducts: async () => [] }
  const before = await countRead()
  const { orders } = await searchOrders(pool, finders, { status: 'cancelled' }, pagingOf([], {}, OrderPosition))
  assert.equal(orders.length, 20)
  const read = (await countRead()) - before
  assert.ok(read > 0 && read < 100, `${read} orders were read`)
})

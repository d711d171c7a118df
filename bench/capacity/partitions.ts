import { randomInt } from 'node:crypto'
import type { Pool } from '../../src/db/pool.ts'
import { customerId } from './load-orders.ts'
import { medianTime } from './median-time.ts'

const SAMPLES = 300
const NAMES = ['orders', 'orders_by_month'] as const

/**
 * Compares `orders` with the same rows in partitions by month. Ids are UUIDs of version 7, which begin with the time.
 * The partition key is the primary key, so an order is found by its id in one partition.
 */
export async function comparePartitions(pool: Pool, customers: number): Promise<Record<string, object>> {
  await pool.query('create table orders_by_month (like orders including defaults including constraints) partition by range (id)')
  // The least id of a time, for UUID version 7 (RFC 9562).
  const { rows: months } = await pool.query<{ name: string; low: string; high: string }>(
    `with ids as (
      select month, (lpad(to_hex((extract(epoch from month) * 1000)::bigint), 12, '0') || '70008000000000000000')::uuid as low
      from (select min(created_at) as oldest, now() + interval '1 month' as newest from orders) as ends,
        generate_series(date_trunc('month', oldest), newest, interval '1 month') as month
    )
    select * from (select 'orders_' || to_char(month, 'YYYY_MM') as name, low, lead(low) over (order by month) as high from ids) as months
    where high is not null order by low`,
  )
  for (const { name, low, high } of months) {
    await pool.query(`create table ${name} partition of orders_by_month for values from ('${low}') to ('${high}')`)
  }
  await pool.query('insert into orders_by_month select * from orders')
  await pool.query('alter table orders_by_month add primary key (id)')
  for (const columns of ['user_id, number desc', 'status, number desc', 'created_at desc, id desc']) {
    await pool.query(`create index on orders_by_month (${columns})`)
  }
  await pool.query('create index on orders_by_month using gin (product_ids)')
  await pool.query('vacuum (analyze, freeze) orders_by_month')
  const { rows: ids } = await pool.query<{ id: string }>('select id from orders tablesample system (0.5) limit 1000')
  const times: Record<string, object> = {}
  for (const name of NAMES) {
    times[name] = {
      'an order by id, ms': await medianTime(SAMPLES, (sample) =>
        pool.query(`select * from ${name} where id = $1`, [ids[sample % ids.length]?.id]),
      ),
      'newest 20 of a customer, ms': await medianTime(SAMPLES, () =>
        pool.query(`select * from ${name} where user_id = $1 order by number desc limit 21`, [customerId(randomInt(customers))]),
      ),
      'newest 20 of a status, ms': await medianTime(SAMPLES, () =>
        pool.query(`select * from ${name} where status = 'delivered' order by number desc limit 21`),
      ),
    }
  }
  const [oldest] = months
  if (oldest === undefined) throw new Error('no months')
  const beganAt = performance.now()
  await pool.query(`alter table orders_by_month detach partition ${oldest.name}`)
  const detachMs = performance.now() - beganAt
  const deleteBeganAt = performance.now()
  await pool.query('alter table orders disable trigger user')
  const { rowCount } = await pool.query('delete from orders where id < $1', [oldest.high])
  await pool.query('vacuum orders')
  await pool.query('alter table orders enable trigger user')
  times['the oldest month'] = {
    rows: rowCount,
    'detached, ms': detachMs.toFixed(1),
    'deleted and vacuumed, ms': (performance.now() - deleteBeganAt).toFixed(0),
  }
  return times
}

import type { Pool } from '../../src/db/pool.ts'
import { pathTo } from '../../src/orders/order-status.ts'

const AT_ONCE = 250_000
const MONTHS = 36

/** The customer of the order with this number: a UUID that SQL and this program calculate alike. */
export function customerId(number: number): string {
  return `00000000-0000-4000-8000-${number.toString(16).padStart(12, '0')}`
}

/**
 * Adds delivered orders of one to three lines, placed over the last three years by `customers` customers, as long as
 * the store's own. Triggers are off, and indexes are created afterwards, because only the result is measured.
 */
export async function loadOrders(pool: Pool, count: number, customers: number): Promise<void> {
  const { rows: indexes } = await pool.query<{ name: string; definition: string }>(
    `select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition from pg_index
    where indrelid = 'orders'::regclass and not exists (select 1 from pg_constraint where conindid = indexrelid)`,
  )
  const history = JSON.stringify(
    pathTo('delivered').map((status) => ({
      status,
      at: 'TIME',
      reason: null,
      actor: { type: 'operator', id: 'ACTOR' },
    })),
  )
  for (const { name } of indexes) await pool.query(`drop index ${name}`)
  await pool.query('alter table orders disable trigger user')
  await pool.query(
    `create table capacity_baskets as
    select basket, 1250 * count(*) as total, array_agg(product) as product_ids,
      json_agg(json_build_object('product_id', product, 'sku', 'SKU-' || line, 'name', 'A product of the benchmark', 'category', 'bench', 'quantity', 1,
        'unit_price', json_build_object('amount', 1250, 'currency', 'EUR'), 'total', json_build_object('amount', 1250, 'currency', 'EUR'))) as items
    from generate_series(0, 9999) as basket, generate_series(0, basket % 3) as line,
      lateral (select md5(format('%s of %s', line, basket))::uuid as product) as product
    group by basket`,
  )
  for (let first = 0; first < count; first += AT_ONCE) {
    await pool.query(
      `insert into orders (id, number, user_id, status, items, product_ids, total_amount, currency, version, status_history, created_at, updated_at)
      select uuidv7(placed.at - clock_timestamp()), nextval('order_numbers'),
        ('00000000-0000-4000-8000-' || lpad(to_hex(abs(hashint8(n)) % $4::bigint), 12, '0'))::uuid, 'delivered', items, product_ids, total, 'EUR', 4,
        replace(replace($5, 'TIME', to_char(placed.at, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')), 'ACTOR', uuidv7()::text)::jsonb,
        placed.at, placed.at + interval '3 days'
      from generate_series($1::bigint, $2::bigint) as n
        join capacity_baskets on basket = n % 10000,
        lateral (select date_trunc('milliseconds', now() - make_interval(months => ${MONTHS}) * (1 - n / $3::float8)) as at) as placed`,
      [first, Math.min(first + AT_ONCE, count) - 1, count, customers, history],
    )
  }
  await pool.query('alter table orders enable trigger user')
  for (const { definition } of indexes) await pool.query(definition)
  await pool.query('vacuum (analyze, freeze) orders')
}

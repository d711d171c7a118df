import type { Pool, Queryable } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { startOfDay } from '../shop-time.ts'
import type { Figures, Range } from './figure-schemas.ts'

/** Length of a step, and their number; null: those since the shop's day began. */
const STEPS: Readonly<Record<Range, { seconds: number; count: number | null }>> = {
  hour: { seconds: 60, count: 60 },
  day: { seconds: 600, count: 144 },
  week: { seconds: 3_600, count: 168 },
  today: { seconds: 600, count: null },
}
const LISTED_PRODUCTS = 10
/** A greater sum would lose units as a JSON number. */
const MOST = Number.MAX_SAFE_INTEGER

interface Window {
  from: Date
  to: Date
  seconds: number
  count: number
}

/** When figures were last collected, null before the first time. */
export async function readCollectedAt(db: Queryable): Promise<Date | null> {
  const { rows } = await db.query<{ at: Date | null }>('select collected_at as at from figure_progress')
  return rows[0]?.at ?? null
}

interface ReadOptions {
  range: Range
  collectedAt: Date | null
  now: Date
  timeZone: string
}

/** The figures of a range that ends with the step of `collectedAt`; today ends now, whenever they were collected. */
export async function readFigures(pool: Pool, { range, collectedAt, now, timeZone }: ReadOptions): Promise<Figures> {
  const window = windowOf(range, range === 'today' ? now : (collectedAt ?? now), timeZone)
  const { from, to, seconds, count } = window
  const stepMs = seconds * 1_000
  const sales = await readSales(pool, window)
  return {
    range,
    time_zone: timeZone,
    generated_at: collectedAt?.toISOString() ?? null,
    step_seconds: seconds,
    from: from.toISOString(),
    to: to.toISOString(),
    times: Array.from({ length: count }, (_, step) => new Date(from.getTime() + step * stepMs).toISOString()),
    sales,
    best_sellers: await readBestSellers(pool, window),
    low_stock: await readLowStock(pool),
    totals: {
      orders: sum(sales.flatMap((series) => series.orders)),
      revenue: sales.map(({ currency, revenue }) => ({ currency, amount: sum(revenue) })),
    },
  }
}

function windowOf(range: Range, until: Date, timeZone: string): Window {
  const { seconds, count } = STEPS[range]
  const stepMs = seconds * 1_000
  const dayStart = count === null ? startOfDay(until, timeZone).getTime() : 0
  const to = dayStart + (Math.floor((until.getTime() - dayStart) / stepMs) + 1) * stepMs
  const steps = count ?? (to - dayStart) / stepMs
  return { from: new Date(to - steps * stepMs), to: new Date(to), seconds, count: steps }
}

async function readSales(pool: Pool, window: Window): Promise<Figures['sales']> {
  const { rows } = await pool.query<{ currency: string; step: number; orders: number; revenue: number }>(
    sql`select
      currency,
      (extract(epoch from minute - ${window.from}::timestamptz)::integer / ${window.seconds}::integer) as step,
      sum(orders)::bigint as orders,
      least(${MOST}, sum(revenue))::bigint as revenue
    from order_figures
    where minute >= ${window.from} and minute < ${window.to}
    group by 1, 2
    order by 1, 2`,
  )
  return [...Map.groupBy(rows, ({ currency }) => currency)].map(([currency, steps]) => {
    const series = { currency, orders: zeros(window.count), revenue: zeros(window.count) }
    for (const { step, orders, revenue } of steps) {
      series.orders[step] = orders
      series.revenue[step] = revenue
    }
    return series
  })
}

async function readBestSellers(pool: Pool, window: Window): Promise<Figures['best_sellers']> {
  const { rows } = await pool.query<Figures['best_sellers'][number]>(
    sql`select best.product_id, products.sku, products.name, best.quantity, best.revenue
    from (
      select product_id, least(${MOST}, sum(quantity))::bigint as quantity,
        json_agg(json_build_object('amount', revenue, 'currency', currency) order by currency) as revenue
      from (
        select product_id, currency, sum(quantity) as quantity, least(${MOST}, sum(revenue))::bigint as revenue
        from product_figures
        where slice > ${window.from}::timestamptz - interval '10 minutes' and slice < ${window.to}
        group by product_id, currency
      ) as sold
      group by product_id
      order by quantity desc, product_id
      limit ${LISTED_PRODUCTS}
    ) as best
    left join products on products.id = best.product_id
    order by best.quantity desc, best.product_id`,
  )
  return rows
}

// The whole table is read only where fewer are sold out than are listed: no index has the stock, which every order
// changes. See docs/decisions/figures.md.
async function readLowStock(pool: Pool): Promise<Figures['low_stock']> {
  const columns = sql`products.id as product_id, products.sku, products.name, inventory.available`
  const { rows } = await pool.query<Figures['low_stock'][number]>(
    sql`with sold_out as materialized (
      select ${columns}
      from products
      join inventory on inventory.product_id = products.id
      where not products.in_stock and products.archived_at is null and inventory.available <= 0
      order by products.created_at desc, products.id desc
      limit ${LISTED_PRODUCTS}
    )
    select product_id, sku, name, available from sold_out
    union all
    (
      select ${columns}
      from inventory
      join products on products.id = inventory.product_id
      where inventory.available > 0 and products.archived_at is null and (select count(*) from sold_out) < ${LISTED_PRODUCTS}
      order by inventory.available, inventory.product_id
      limit ${LISTED_PRODUCTS}
    )
    limit ${LISTED_PRODUCTS}`,
  )
  return rows
}

function zeros(count: number): number[] {
  return Array<number>(count).fill(0)
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => Math.min(MOST, total + value), 0)
}

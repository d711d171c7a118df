import type { Pool, Queryable } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { instantOf, localTimeOf, startOfDay } from '../shop-time.ts'
import type { Figures, Range } from './figure-schemas.ts'

const DAY_SECONDS = 86_400
const MINUTE_MS = 60_000

/** Length of a step in seconds, and the number of steps or of the shop's days. The days end with today or yesterday. */
const RANGES: Readonly<Record<Range, { seconds: number; count: number } | { seconds: number; days: number; isOver?: true }>> = {
  hour: { seconds: 60, count: 60 },
  day: { seconds: 600, count: 144 },
  week: { seconds: 3_600, count: 168 },
  today: { seconds: 600, days: 1 },
  yesterday: { seconds: 3_600, days: 1, isOver: true },
  '7_days': { seconds: DAY_SECONDS, days: 7 },
  '30_days': { seconds: DAY_SECONDS, days: 30 },
}
const SOLD_DAYS = 7
const LISTED_PRODUCTS = 10
/** A greater sum would lose units as a JSON number. */
const MOST = Number.MAX_SAFE_INTEGER

interface Window {
  /** The beginning of each step. */
  times: readonly Date[]
  /** The end of the last step. */
  to: Date
}

export interface Progress {
  /** It is null before the first collection. */
  collectedAt: Date | null
  /** Figures of earlier minutes may be missing. All may be missing when it is null. */
  filledFrom: Date | null
}

export async function readProgress(db: Queryable): Promise<Progress> {
  const { rows } = await db.query<Progress>(sql`select collected_at as "collectedAt", filled_from as "filledFrom" from figure_progress`)
  return rows[0] ?? { collectedAt: null, filledFrom: null }
}

interface ReadOptions extends Progress {
  range: Range
  now: Date
  timeZone: string
}

/** The sales of a range, which ends with the step of `collectedAt` or with the shop's day. */
export async function readSalesOf(pool: Pool, options: ReadOptions): Promise<Omit<Figures, 'best_sellers' | 'low_stock'>> {
  const { range, collectedAt, filledFrom, timeZone } = options
  const [window, before] = windowsOf(options)
  const { times, to } = window
  const filled = filledFrom === null || filledFrom > to ? to : filledFrom
  return {
    range,
    time_zone: timeZone,
    generated_at: collectedAt?.toISOString() ?? null,
    filled_from: filled > beginOf(before) ? filled.toISOString() : null,
    step_seconds: RANGES[range].seconds,
    from: beginOf(window).toISOString(),
    to: to.toISOString(),
    times: times.map((time) => time.toISOString()),
    ...(await readSales(pool, window)),
    before: { from: beginOf(before).toISOString(), to: before.to.toISOString(), ...(await readSales(pool, before)) },
  }
}

const beginOf = ({ times, to }: Window): Date => times[0] ?? to

/** The range, and the preceding period that is cut at the same point. */
function windowsOf({ range, collectedAt, now, timeZone }: ReadOptions): [Window, Window] {
  const rule = RANGES[range]
  const stepMs = rule.seconds * 1_000
  const stepsFrom = (from: number, count: number) => Array.from({ length: count }, (_, step) => new Date(from + step * stepMs))
  if ('count' in rule) {
    const until = wholeMinute(collectedAt ?? now).getTime()
    const to = (Math.floor(until / stepMs) + 1) * stepMs
    const spanMs = rule.count * stepMs
    return [
      { times: stepsFrom(to - spanMs, rule.count), to: new Date(to) },
      { times: stepsFrom(to - 2 * spanMs, rule.count), to: new Date(until - spanMs) },
    ]
  }
  const { days, isOver = false } = rule
  const daysAgo = (instant: Date, count: number) => shiftDays(instant, -count, timeZone)
  const today = startOfDay(now, timeZone)
  const last = isOver ? daysAgo(today, 1) : today
  const end = shiftDays(last, 1, timeZone)
  const from = daysAgo(last, days - 1)
  const until = isOver ? end : wholeMinute(latest(today, collectedAt !== null && collectedAt < now ? collectedAt : now))
  const dayTimes = (first: Date) => Array.from({ length: days }, (_, day) => shiftDays(first, day, timeZone))
  const beforeFrom = daysAgo(from, days)
  const beforeTo = daysAgo(until, days)
  if (rule.seconds === DAY_SECONDS)
    return [
      { times: dayTimes(from), to: end },
      { times: dayTimes(beforeFrom), to: beforeTo },
    ]
  const count = (to: Date) => Math.ceil((to.getTime() - from.getTime()) / stepMs)
  const to = isOver ? end : new Date(from.getTime() + (Math.floor((until.getTime() - from.getTime()) / stepMs) + 1) * stepMs)
  return [
    { times: stepsFrom(from.getTime(), count(to)), to },
    { times: stepsFrom(beforeFrom.getTime(), count(to)), to: beforeTo },
  ]
}

const wholeMinute = (instant: Date): Date => new Date(Math.floor(instant.getTime() / MINUTE_MS) * MINUTE_MS)
const latest = (a: Date, b: Date): Date => (a > b ? a : b)

/** The same time on the shop's clock some days later. */
function shiftDays(instant: Date, days: number, timeZone: string): Date {
  const local = localTimeOf(instant, timeZone)
  const day = new Date(Date.parse(`${local.slice(0, 10)}T00:00:00Z`) + days * DAY_SECONDS * 1_000).toISOString().slice(0, 10)
  // A clock change may skip midnight.
  const isBegin = instant.getTime() === startOfDay(instant, timeZone).getTime()
  return instantOf(isBegin ? day : `${day}${local.slice(10)}`, timeZone) as Date
}

type Series = Figures['sales'][number]
type Counted = { [Name in Exclude<keyof Series, 'currency'>]: number }

async function readSales(pool: Pool, window: Window): Promise<Pick<Figures, 'sales' | 'totals'>> {
  const { times, to } = window
  const { rows } = await pool.query<Counted & { currency: string; step: number }>(
    sql`select
      currency,
      width_bucket(minute, ${times}::timestamptz[]) - 1 as step,
      sum(orders)::bigint as orders,
      sum(cancelled)::bigint as cancelled,
      sum(returned)::bigint as returned,
      least(${MOST}, sum(revenue))::bigint as revenue,
      least(${MOST}, greatest(0, sum(coalesce(net_revenue, revenue))))::bigint as net_revenue
    from order_figures
    where minute >= ${beginOf(window)} and minute < ${to}
    group by 1, 2
    order by 1, 2`,
  )
  const sales = [...Map.groupBy(rows, ({ currency }) => currency)].map(([currency, steps]) => {
    const series = (name: keyof Counted) => {
      const values = Array<number>(times.length).fill(0)
      for (const counted of steps) values[counted.step] = counted[name]
      return values
    }
    return {
      currency,
      orders: series('orders'),
      revenue: series('revenue'),
      net_revenue: series('net_revenue'),
      cancelled: series('cancelled'),
      returned: series('returned'),
    }
  })
  const count = (of: keyof Counted) => sum(sales.flatMap((series) => series[of]))
  const amounts = (of: keyof Counted) => sales.map((series) => ({ currency: series.currency, amount: sum(series[of]) }))
  return {
    sales,
    totals: {
      orders: count('orders'),
      cancelled: count('cancelled'),
      returned: count('returned'),
      revenue: amounts('revenue'),
      net_revenue: amounts('net_revenue'),
    },
  }
}

export async function readBestSellers(pool: Pool, options: ReadOptions): Promise<Figures['best_sellers']> {
  const [window] = windowsOf(options)
  const { rows } = await pool.query<Figures['best_sellers'][number]>(
    sql`select best.product_id, products.sku, products.name, products.image_url, best.quantity, best.revenue
    from (
      select product_id, least(${MOST}, sum(quantity))::bigint as quantity,
        json_agg(json_build_object('amount', revenue, 'currency', currency) order by currency) as revenue
      from (
        select product_id, currency, sum(quantity) as quantity, least(${MOST}, sum(revenue))::bigint as revenue
        from product_figures
        where slice > ${beginOf(window)}::timestamptz - interval '10 minutes' and slice < ${window.to}
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

// Reads the whole table only when few products are sold out, because no index has the stock, which every order changes.
// See docs/decisions/figures.md.
export async function readLowStock(pool: Pool, now: Date): Promise<Figures['low_stock']> {
  const columns = sql`products.id as product_id, products.sku, products.name, inventory.available`
  const { rows } = await pool.query<Omit<Figures['low_stock'][number], 'sold_7_days'>>(
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
  const since = new Date(now.getTime() - SOLD_DAYS * DAY_SECONDS * 1_000)
  const { rows: sold } = await pool.query<{ product_id: string; quantity: number }>(
    sql`select product_id, least(${MOST}, sum(quantity))::bigint as quantity
    from product_figures
    where slice > ${since} and product_id = any(${rows.map(({ product_id }) => product_id)}::uuid[])
    group by product_id`,
  )
  const quantities = new Map(sold.map(({ product_id, quantity }) => [product_id, quantity]))
  return rows.map((row) => ({ ...row, sold_7_days: quantities.get(row.product_id) ?? 0 }))
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => Math.min(MOST, total + value), 0)
}

import { statusesWhere } from '../../src/orders/order-status.ts'
import { t } from '../kit/language.ts'

/** A prepared question. A test runs each one and compares its answer with docs/data/lake-queries.md. */
export interface Question {
  /** The question's name in the address. */
  name: string
  title: string
  /** What the numbers of the answer count. */
  about: string
  sql: string
  /** The columns with amounts in major units of the column `currency`. */
  amounts: readonly string[]
}

const ENDED = statusesWhere(({ phase }) => phase === 'ended')
  .map((status) => `'${status}'`)
  .join(', ')
// The units that were not cancelled. Rows of earlier releases have null in `cancelled`.
const SOLD = 'line.item.quantity - coalesce(line.item.cancelled, 0)'

/** `zone` is the IANA time zone of the days. `days` limits the orders to this number of last days, including today. */
export function readyQuestions(zone: string, days: number | null = null): Question[] {
  const quoted = `'${zone.replaceAll("'", "''")}'`
  const day = `strftime(created_at at time zone ${quoted}, '%Y-%m-%d') as day`
  const begin = `(date_trunc('day', now() at time zone ${quoted}) - interval ${(days ?? 1) - 1} day) at time zone ${quoted}`
  /** The condition of the period. `word` is `and` after other conditions. */
  const within = (word: 'where' | 'and') => (days === null ? '' : `\n${word} created_at >= ${begin}`)
  // Exact major units: JPY has no decimals, and KWD has three.
  const major = '[1, 0.1, 0.01, 0.001][currency_exponent + 1]'
  return [
    {
      name: 'revenue',
      title: t`Revenue per day`,
      about: t`Orders without those that were cancelled or returned.`,
      amounts: ['revenue'],
      sql: `select
  ${day},
  currency,
  count(*) as orders,
  sum(total_amount * ${major}) as revenue
from orders
where status not in (${ENDED})${within('and')}
group by day, currency
order by day, currency`,
    },
    {
      name: 'best-sellers',
      title: t`Best sellers`,
      about: t`The 20 products with the most units, without cancelled units, shipping, discounts and taxes.`,
      amounts: ['revenue'],
      sql: `select
  coalesce(line.item.sku, line.item.product_id) as sku,
  arg_max(line.item.name, created_at) as name,
  currency,
  sum(${SOLD}) as units,
  sum(line.item.unit_price_amount * (${SOLD}) * ${major}) as revenue
from orders, unnest(items) as line (item)
where status not in (${ENDED})${within('and')}
group by 1, currency
order by units desc, sku, currency
limit 20`,
    },
    {
      name: 'cancel-rate',
      title: t`Cancel rate`,
      about: t`How many orders of a day were cancelled, in percent.`,
      amounts: [],
      sql: `select
  ${day},
  round(100.0 * count(*) filter (where status = 'cancelled') / count(*), 1) as cancelled_percent,
  count(*) filter (where status = 'cancelled') as cancelled,
  count(*) as orders
from orders${within('where')}
group by day
order by day`,
    },
    {
      name: 'time-to-ship',
      title: t`Time to ship`,
      about: t`From the order to its last parcel, by the day of the order. Later events, such as payments, do not count.`,
      amounts: [],
      sql: `select
  ${day},
  round(median(epoch(shipped_at - placed_at)) / 3600, 1) as median_hours,
  round(quantile_cont(epoch(shipped_at - placed_at), 0.9) / 3600, 1) as hours_of_90_percent,
  count(*) as orders
from (
  select
    any_value(created_at) as created_at,
    min(event_time) filter (where version = 1) as placed_at,
    min(event_time) filter (where status = 'shipped') as shipped_at
  from order_events
  group by order_id
)
where placed_at is not null and shipped_at is not null${within('and')}
group by day
order by day`,
    },
    {
      name: 'repeat-customers',
      title: t`Repeat customers`,
      about: t`How many customers placed one order, two orders and so on, without cancelled ones.`,
      amounts: [],
      sql: `select orders || case when orders = 1 then ' order' else ' orders' end as customer_with, customers
from (
  select orders, count(*) as customers
  from (select count(*) as orders from orders where status <> 'cancelled'${within('and').replace('\n', ' ')} group by user_id)
  group by orders
)
order by orders`,
    },
  ]
}

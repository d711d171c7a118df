import { statusesWhere } from '#order-status'

/** Questions that are ready to run. A test runs each one, and compares the answers with those of docs/data/lake-queries.md. */
export interface Question {
  title: string
  sql: string
}

const ENDED = statusesWhere(({ phase }) => phase === 'ended')
  .map((status) => `'${status}'`)
  .join(', ')
// Units that were not cancelled. Rows of earlier releases have null.
const SOLD = 'line.item.quantity - coalesce(line.item.cancelled, 0)'

/** `zone`: the time zone of the days, as in the IANA database. */
export function readyQuestions(zone: string): Question[] {
  const day = `strftime(created_at at time zone '${zone.replaceAll("'", "''")}', '%Y-%m-%d') as day`
  // Exact major units: JPY has no decimals, KWD three.
  const major = '[1, 0.1, 0.01, 0.001][currency_exponent + 1]'
  return [
    {
      title: 'Revenue per day',
      sql: `-- Without what was cancelled or returned.
select
  ${day},
  currency,
  count(*) as orders,
  sum(total_amount * ${major}) as revenue
from orders
where status not in (${ENDED})
group by day, currency
order by day, currency`,
    },
    {
      title: 'Best sellers',
      sql: `-- Without cancelled units, shipping, discounts and taxes.
select
  coalesce(line.item.sku, line.item.product_id) as sku,
  arg_max(line.item.name, created_at) as name,
  currency,
  sum(${SOLD}) as units,
  sum(line.item.unit_price_amount * (${SOLD}) * ${major}) as revenue
from orders, unnest(items) as line (item)
where status not in (${ENDED})
group by 1, currency
order by units desc, sku, currency
limit 20`,
    },
    {
      title: 'Cancel rate',
      sql: `select
  ${day},
  round(100.0 * count(*) filter (where status = 'cancelled') / count(*), 1) as cancelled_percent,
  count(*) filter (where status = 'cancelled') as cancelled,
  count(*) as orders
from orders
group by day
order by day`,
    },
    {
      title: 'Time to ship',
      sql: `-- Until the last parcel; later events, such as payments, do not count.
select
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
where placed_at is not null and shipped_at is not null
group by day
order by day`,
    },
    {
      title: 'Repeat customers',
      sql: `select orders || case when orders = 1 then ' order' else ' orders' end as customer_with, customers
from (
  select orders, count(*) as customers
  from (select count(*) as orders from orders where status <> 'cancelled' group by user_id)
  group by orders
)
order by orders`,
    },
  ]
}

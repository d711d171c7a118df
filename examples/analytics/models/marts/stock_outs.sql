-- What each time without stock has cost: the units that were sold on average in the 28 days before, at the price of the
-- newest sale. An estimate: some customers wait, and others leave with their whole basket. While a product is out and
-- for sale, up to the newest order of the lake.
with outs as (
  select
    stock_outs.product_id,
    stock_outs.sku,
    stock_outs.out_at,
    stock_outs.back_at,
    stock_outs.archived_at,
    date_diff('second', stock_outs.out_at, coalesce(stock_outs.back_at, stock_outs.archived_at, newest.placed_at)) / 86400.0 as days_out
  from {{ ref('stg_stock_outs') }} as stock_outs
  cross join (select max(placed_at) as placed_at from {{ ref('stg_orders') }}) as newest
)

select
  outs.product_id,
  outs.sku,
  outs.out_at,
  outs.back_at,
  outs.archived_at,
  outs.days_out,
  lines.currency,
  sum(lines.units) / 28.0 as units_per_day,
  sum(lines.units) / 28.0 * outs.days_out as units_missed,
  sum(lines.units) / 28.0 * outs.days_out * arg_max(lines.unit_price, lines.placed_at) as revenue_missed
from outs
inner join {{ ref('stg_order_lines') }} as lines
  on lines.product_id = outs.product_id
  and lines.is_revenue
  and lines.placed_at < outs.out_at
  and lines.placed_at >= outs.out_at - interval '28 days'
group by outs.product_id, outs.sku, outs.out_at, outs.back_at, outs.archived_at, outs.days_out, lines.currency

-- A row for each line of an order. `units` are those that were neither cancelled nor returned.
select
  lines.order_id,
  lines.line,
  lines.product_id,
  lines.sku,
  lines.name,
  coalesce(lines.category, 'unknown') as category,
  lines.currency,
  lines.quantity as units_ordered,
  lines.quantity - coalesce(lines.cancelled, 0) - coalesce(lines.returned, 0) as units,
  lines.unit_price_amount
    * case lines.currency_exponent when 0 then 1.000 when 1 then 0.100 when 2 then 0.010 else 0.001 end as unit_price,
  lines.status not in ('cancelled', 'returned') as is_revenue,
  lines.created_at as placed_at,
  cast(lines.created_at at time zone shop.time_zone as date) as placed_on
from {{ source('storefront', 'order_lines') }} as lines
cross join {{ ref('stg_shop') }} as shop

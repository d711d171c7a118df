-- From the order to its last parcel, by the day of the shop on which the order was placed. Without orders that were
-- cancelled, or shipped in another shop.
select
  orders.placed_on as day,
  count(*) as orders,
  count(shipped.reached_at) as shipped,
  median(date_diff('second', orders.placed_at, shipped.reached_at)) / 3600.0 as median_hours,
  quantile_cont(date_diff('second', orders.placed_at, shipped.reached_at), 0.9) / 3600.0 as hours_of_90_percent
from {{ ref('stg_orders') }} as orders
left join {{ ref('stg_order_moves') }} as shipped on shipped.order_id = orders.order_id and shipped.status = 'shipped'
where orders.status <> 'cancelled' and not coalesce(shipped.is_imported, false)
group by orders.placed_on

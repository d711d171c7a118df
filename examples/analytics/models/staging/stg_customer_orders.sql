-- Each customer's orders in turn: nth_order is 1 for the first. Without orders that brought no revenue.
select
  orders.order_id,
  orders.customer_id,
  orders.currency,
  orders.total,
  orders.placed_at,
  orders.placed_on,
  row_number() over (partition by orders.customer_id order by orders.placed_at, orders.order_id) as nth_order,
  min(orders.placed_on) over (partition by orders.customer_id) as first_placed_on
from {{ ref('stg_orders') }} as orders
where orders.is_revenue

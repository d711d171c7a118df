-- How many customers have ordered how often. `days_since_previous` is the median number of days between the previous
-- order and this one.
select
  nth_order as orders,
  -- Customers with exactly this number of orders, and with at least this number.
  count(*) - count(next_order_id) as customers,
  count(*) as customers_at_least,
  median(date_diff('day', previous_placed_on, placed_on)) as days_since_previous
from (
  select
    nth_order,
    placed_on,
    lead(order_id) over (partition by customer_id order by nth_order) as next_order_id,
    lag(placed_on) over (partition by customer_id order by nth_order) as previous_placed_on
  from {{ ref('stg_customer_orders') }}
) as turns
group by nth_order

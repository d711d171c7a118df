-- Revenue of each day of the shop and currency: what the orders placed on that day cost now, without those that were
-- cancelled or came back. A cancellation changes the day of its order, also weeks later.
select
  placed_on as day,
  currency,
  count(*) as orders,
  count(distinct customer_id) as customers,
  sum(total) as revenue
from {{ ref('stg_orders') }}
where is_revenue
group by placed_on, currency

-- The newest state of each order, in major units of its currency and with the day of the shop on which it was placed.
select
  orders.order_id,
  orders.order_number,
  orders.user_id as customer_id,
  orders.status,
  orders.status not in ('cancelled', 'returned') as is_revenue,
  orders.shipping_country,
  coalesce(orders.billing_country, orders.shipping_country) as billing_country,
  orders.currency,
  orders.total_amount
    * case orders.currency_exponent when 0 then 1.000 when 1 then 0.100 when 2 then 0.010 else 0.001 end as total,
  orders.created_at as placed_at,
  cast(orders.created_at at time zone shop.time_zone as date) as placed_on
from {{ source('storefront', 'orders') }} as orders
cross join {{ ref('stg_shop') }} as shop

-- When each order first had each status. Parcels, payments and the like are events that leave the status as it was.
select
  order_id,
  status,
  min(event_time) as reached_at,
  -- Moves of an order that was moved in from another shop have the times of that shop.
  max(case when coalesce(imported, false) then 1 else 0 end) = 1 as is_imported
from {{ source('storefront', 'order_events') }}
group by order_id, status

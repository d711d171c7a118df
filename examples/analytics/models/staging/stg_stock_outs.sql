-- The times in which a product was out of stock. Stock leaves zero by the next event of it, also when it is no longer tracked.
select product_id, sku, out_at, back_at
from (
  select
    product_id,
    sku,
    available,
    event_time as out_at,
    lead(event_time) over (partition by product_id order by version) as back_at
  from {{ source('storefront', 'stock_events') }}
) as turns
where available = 0

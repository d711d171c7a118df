-- The times in which a product was for sale but out of stock. Stock leaves zero by the next event of it, also when it
-- is no longer tracked. An archived product is not for sale, so its time ends there; one that is restored without stock
-- is out again from then on.
with turns as (
  select
    product_id,
    sku,
    available,
    event_time as out_at,
    lead(event_time) over (partition by product_id order by version) as back_at
  from {{ source('storefront', 'stock_events') }}
),

states as (
  select
    product_id,
    version,
    valid_from,
    archived_at is null as is_sold,
    lag(archived_at is null) over (partition by product_id order by version) as was_sold
  from {{ source('storefront', 'products') }}
),

-- From one change of whether the product is for sale to the next. The first begins before its row: the lake may be
-- younger than the product.
periods as (
  select
    product_id,
    is_sold,
    case when was_sold is not null then valid_from end as sold_from,
    lead(valid_from) over (partition by product_id order by version) as sold_to
  from states
  where was_sold is distinct from is_sold
  union all
  select distinct product_id, true, null::timestamptz, null::timestamptz
  from turns
  where product_id not in (select product_id from states)
)

select
  turns.product_id,
  turns.sku,
  greatest(turns.out_at, coalesce(periods.sold_from, turns.out_at)) as out_at,
  case when periods.sold_to is null or turns.back_at <= periods.sold_to then turns.back_at end as back_at,
  case when turns.back_at is null or periods.sold_to < turns.back_at then periods.sold_to end as archived_at
from turns
inner join periods
  on periods.product_id = turns.product_id
  and periods.is_sold
  and (periods.sold_from is null or turns.back_at is null or periods.sold_from < turns.back_at)
  and (periods.sold_to is null or periods.sold_to > turns.out_at)
where turns.available = 0

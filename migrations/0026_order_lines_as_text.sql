-- Lines are written once and only ever read whole: as json they are kept as the text they came as, which spares every order the making
-- of a tree when it is placed, listed and published. What is searched in them, their products, is beside them.
drop index orders_product_ids_idx;
alter table orders alter column items type json using items::json;

-- As a generated column first: filling it by an update would tell the change stream of every order there is.
create function products_of_order(items json) returns uuid[] immutable language sql as $$
  select coalesce(array_agg((item ->> 'product_id')::uuid), '{}')
  from json_array_elements(case json_typeof(items) when 'array' then items else '[]' end) as item
  where item ->> 'product_id' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
$$;
alter table orders add column product_ids uuid[] not null generated always as (products_of_order(items)) stored;
alter table orders alter column product_ids drop expression;
alter table orders alter column product_ids set default '{}';
drop function products_of_order;

-- Which orders have a line of a product. The column's statistics tell the planner a hot product from a rare one.
create index orders_product_ids_idx on orders using gin (product_ids);

comment on column idempotency_keys.response is
  'The answer as it was sent, byte for byte, but for the lines of the order: those are an empty list here, and orders.items at length.';

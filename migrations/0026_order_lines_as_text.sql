-- Lines are written once and only ever read whole: as json they are kept as the text they came as, which spares every order the making
-- of a tree when it is placed, listed and published. What is searched in them, their products, is beside them.
drop index orders_product_ids_idx;
alter table orders alter column items type json using items::json;
alter table orders add column product_ids uuid[] not null default '{}';
update orders set product_ids = array(select (item ->> 'product_id')::uuid from json_array_elements(items) as item);

-- Which orders have a line of a product. The column's statistics tell the planner a hot product from a rare one.
create index orders_product_ids_idx on orders using gin (product_ids);

comment on column idempotency_keys.response is
  'The answer as it was sent, byte for byte, but for the lines of the order: those are an empty list here, and orders.items at length.';

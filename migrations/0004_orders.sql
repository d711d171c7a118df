create sequence order_numbers start 100001;

-- One row is a whole order, so that one record of the change stream is a whole order.
create table orders (
  id uuid primary key,
  number bigint not null default nextval('order_numbers'),
  -- No foreign key: an order outlives its account.
  user_id uuid not null,
  status text not null,
  -- Lines as they were when the order was placed: product_id, sku, name, unit_price, quantity, total. As json and not jsonb: they are only
  -- read whole, and the text needs no parsing when an order is placed, listed or published.
  items json not null,
  -- The products of the lines, which searches need.
  product_ids uuid[] not null default '{}',
  total_amount bigint not null,
  currency text not null,
  client_reference text,
  shipping_address jsonb,
  note text,
  -- 1, 2, 3 … one per change; the event id is `<id>.<version>`. After a restore see 0009_restore.sql.
  version integer not null default 1,
  status_history jsonb not null,
  -- W3C Trace Context of the request that made the last change.
  traceparent text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  constraint orders_number_unique unique (number),
  constraint orders_status_known check (status in ('pending', 'confirmed', 'shipped', 'delivered', 'cancelled', 'returned')),
  constraint orders_total_in_range check (total_amount between 0 and 9007199254740991),
  constraint orders_version_positive check (version >= 1)
);
alter sequence order_numbers owned by orders.number;
-- Named as a constraint, because the API's error is found by this name. An index can leave out the many orders without a reference.
create unique index orders_client_reference_unique on orders (user_id, client_reference) where client_reference is not null;
-- Lists are in the order of numbers, which increase whatever a clock does: see docs/decisions/0151-orders-are-listed-by-number.md.
create index orders_user_id_number_idx on orders (user_id, number desc);
create index orders_user_id_status_number_idx on orders (user_id, status, number desc);
create index orders_status_number_idx on orders (status, number desc);
create index orders_created_at_id_idx on orders (created_at desc, id desc);
-- Pending orders that expire, the oldest first.
create index orders_pending_created_at_id_idx on orders (created_at, id) where status = 'pending';
-- Which orders have a line of a product. The column's statistics tell the planner a popular product from a rare one.
create index orders_product_ids_idx on orders using gin (product_ids);

-- FULL, so that the record of an update has the old row: its status, and large columns that did not change, which PostgreSQL otherwise
-- leaves out of the record. See docs/decisions/0003-replica-identity-full.md.
alter table orders replica identity full;
create publication storefront_orders for table orders;

-- The database verifies what an order is. Triggers and not check constraints: a check would run at every update of a row, also when only
-- the status or the address changes. See docs/decisions/0093-orders-hold.md.

-- At least one line; each has its product, a whole quantity from 1 and a whole price from 0; both amounts are in the order's currency, and
-- quantity times price is the line's total; these add up to the order's. The path is strict: it selects only lines of exactly this shape.
create function order_lines_add_up(items json, total_amount bigint, currency text) returns boolean
  language plpgsql immutable strict parallel safe as $$
declare
  lines constant jsonb = items;
begin
  if jsonb_typeof(lines) <> 'array' or currency !~ '^[A-Z]{3}$' then
    return false;
  end if;
  return (
    select count(*) = jsonb_array_length(lines) and sum(amount::bigint) = total_amount
    from jsonb_path_query(lines, 'strict $[*] ? (
        @.quantity >= 1 && @.unit_price.amount >= 0 && @.quantity % 1 + @.unit_price.amount % 1 == 0
        && @.total.amount == @.quantity * @.unit_price.amount
        && @.unit_price.currency == $currency && @.total.currency == $currency
        && @.product_id > "" && @.sku starts with "" && @.name starts with ""
      ).total.amount', jsonb_build_object('currency', currency), true) as amount
  ) is true;
end
$$;

-- For `storefront verify`, where rows may have bypassed the trigger, as with session_replication_role: lines that cannot even be read do
-- not add up. Not parallel safe: before version 17 a parallel query of PostgreSQL fails at an exception block.
create function order_lines_are_sound(items json, total_amount bigint, currency text) returns boolean
  language plpgsql immutable as $$
begin
  return order_lines_add_up(items, total_amount, currency) is true;
exception when data_exception then
  return false;
end
$$;

-- One entry for each version: the first pending, the last with the order's status and version, each with a status and a time. The last
-- entry's version is its place in the list unless the entry names it. Entries may have more.
create function order_history_is_whole(status_history jsonb, version integer, status text) returns boolean
  language sql immutable parallel safe as $$
  select coalesce(
    jsonb_array_length(
      jsonb_path_query_array(status_history, 'strict $[*] ? (@.status > "" && @.at > "")', '{}', true)
    ) = case jsonb_typeof(status_history) when 'array' then jsonb_array_length(status_history) end
    and case
      when jsonb_typeof(status_history -> -1 -> 'version') = 'number' then (status_history -> -1 ->> 'version')::numeric
      when jsonb_typeof(status_history) = 'array' then jsonb_array_length(status_history)
    end = version
    and status_history -> 0 ->> 'status' = 'pending'
    and status_history -> -1 ->> 'status' = status,
    false
  )
$$;

-- The client sees a violated check constraint with the trigger's name.
create function refuse_row() returns trigger language plpgsql as $$
begin
  raise exception using
    errcode = 'check_violation',
    message = format('new row for relation "%s" violates "%s"', tg_table_name, tg_name),
    constraint = tg_name,
    table = tg_table_name,
    schema = tg_table_schema;
end
$$;

create trigger orders_lines_add_up before insert or update of items, total_amount, currency on orders
  for each row when (order_lines_add_up(new.items, new.total_amount, new.currency) is not true)
  execute function refuse_row();
create trigger orders_history_is_whole before insert or update of status, version, status_history on orders
  for each row when (not order_history_is_whole(new.status_history, new.version, new.status))
  execute function refuse_row();

create table idempotency_keys (
  user_id uuid not null,
  key text not null,
  -- SHA-256 of the request body, to tell a retry from another request with the same key.
  fingerprint bytea not null,
  -- No foreign key: orders are never deleted, and one statement writes both rows. Checking it would read every order again.
  order_id uuid not null,
  -- The answer as it was sent, byte for byte, without the number and the lines of the order: those are empty here, and in orders.
  response text not null,
  created_at timestamptz(3) not null default now(),
  primary key (user_id, key)
);
create index idempotency_keys_created_at_idx on idempotency_keys (created_at);

-- How many of a customer's orders are pending, so that placing an order can limit them without counting. Triggers keep the number, so that
-- every statement that writes orders counts.
create table pending_order_counts (
  user_id uuid primary key,
  pending integer not null
) with (fillfactor = 70);

-- By statement, so that a batch of orders is one upsert. Rows are locked in the order of users, before any stock: no two can deadlock.
create function count_new_pending_orders() returns trigger language plpgsql as $$
begin
  insert into pending_order_counts (user_id, pending)
  select user_id, count(*) from added where status = 'pending' group by user_id order by user_id
  on conflict (user_id) do update set pending = pending_order_counts.pending + excluded.pending;
  return null;
end
$$;

create function count_moved_pending_orders() returns trigger language plpgsql as $$
begin
  insert into pending_order_counts (user_id, pending)
  select user_id, sum(change)
  from (
    select user_id, -1 as change from before where status = 'pending'
    union all
    select user_id, 1 from after where status = 'pending'
  ) as changes
  group by user_id
  having sum(change) <> 0
  order by user_id
  on conflict (user_id) do update set pending = pending_order_counts.pending + excluded.pending;
  return null;
end
$$;

create function count_deleted_pending_orders() returns trigger language plpgsql as $$
begin
  insert into pending_order_counts (user_id, pending)
  select user_id, -count(*) from removed where status = 'pending' group by user_id order by user_id
  on conflict (user_id) do update set pending = pending_order_counts.pending + excluded.pending;
  return null;
end
$$;

create trigger orders_count_new_pending after insert on orders
  referencing new table as added for each statement execute function count_new_pending_orders();
create trigger orders_count_moved_pending after update on orders
  referencing old table as before new table as after for each statement execute function count_moved_pending_orders();
create trigger orders_count_deleted_pending after delete on orders
  referencing old table as removed for each statement execute function count_deleted_pending_orders();

-- Aborts what the nearest handler of SF001 encloses, or the transaction, unless the condition is true.
create function abort_unless(condition boolean) returns void language plpgsql as $$
begin
  if condition is not true then
    raise exception 'an assumption about the state of the store is false' using errcode = 'SF001';
  end if;
end
$$;

-- Places a batch of accepted orders, all or none, in one round trip. Returns their numbers, ascending in the order of the batch. Returns
-- null and changes nothing when the state is not the one that the batch was decided on. `batch_items` has the lines of each order: inside
-- `batch` they would be parsed twice. See docs/decisions/0162-one-function-places-a-batch.md.
--
-- Locks are taken in the order that all transactions use, so that no two deadlock: advisory locks (never waited for), counts of pending
-- orders by user, stock by product. Stock is locked last, because other batches wait for it.
create function place_orders(
  batch json,
  batch_items text[],
  lock_keys text[],
  taken_product_ids uuid[],
  taken_quantities bigint[],
  prices_version text,
  max_pending_orders bigint,
  max_quantity_per_product bigint,
  key_retention_hours integer,
  lock_timeout_ms integer
) returns bigint[] language plpgsql
  -- A plan that was made while a table was small must not read the whole table later.
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  numbers bigint[];
  buyers uuid[];
  keys_in_use bigint;
  sold_out uuid[];
begin
  perform set_config('lock_timeout', lock_timeout_ms::text, true);
  perform abort_unless(coalesce(bool_and(pg_try_advisory_xact_lock(hashtextextended(lock_key, 0))), true))
  from unnest(lock_keys) as lock_key;

  with draft as materialized (
    select *
    from rows from (
      json_to_recordset(batch) as (
        id uuid, user_id uuid, product_ids uuid[], total_amount bigint, currency text, client_reference text, shipping_address jsonb,
        note text, status_history jsonb, traceparent text, placed_at timestamptz, idempotency_key text, fingerprint bytea,
        response_template text
      ),
      unnest(batch_items)
    ) as draft (id, user_id, product_ids, total_amount, currency, client_reference, shipping_address, note, status_history,
      traceparent, placed_at, idempotency_key, fingerprint, response_template, items)
  ), placed as (
    insert into orders (id, user_id, status, items, product_ids, total_amount, currency, client_reference, shipping_address, note,
      status_history, traceparent, created_at, updated_at)
    select id, user_id, 'pending', items::json, product_ids, total_amount, currency, client_reference, shipping_address, note,
      status_history, traceparent, placed_at, placed_at
    from draft
    returning number, user_id
  ), kept as (
    insert into idempotency_keys (user_id, key, fingerprint, order_id, response)
    select user_id, idempotency_key, fingerprint, id, response_template from draft where idempotency_key is not null
    on conflict (user_id, key) do update
      set fingerprint = excluded.fingerprint, order_id = excluded.order_id, response = excluded.response, created_at = now()
      where idempotency_keys.created_at <= now() - make_interval(hours => key_retention_hours)
    returning key
  )
  select
    (select array_agg(number order by number) from placed),
    (select array_agg(distinct user_id) from placed),
    (select count(idempotency_key) from draft) - (select count(*) from kept)
  into numbers, buyers, keys_in_use;
  perform abort_unless(keys_in_use = 0);

  -- The trigger of the insert has locked these counts.
  perform abort_unless(false) from pending_order_counts where user_id = any(buyers) and pending > max_pending_orders;
  if max_quantity_per_product is not null then
    perform abort_unless(false)
    from (select distinct user_id, unnest(product_ids) as product_id from orders where number = any(numbers)) as pair
    join orders as bought
      on bought.user_id = pair.user_id
      and bought.status not in ('cancelled', 'returned')
      and bought.product_ids @> array[pair.product_id]
    cross join json_array_elements(bought.items) as item
    where (item ->> 'product_id')::uuid = pair.product_id
    group by pair.user_id, pair.product_id
    having sum((item ->> 'quantity')::bigint) > max_quantity_per_product;
  end if;

  -- By a select, because an update locks in the order of its plan.
  perform abort_unless(count(*) = cardinality(taken_product_ids))
  from (select from inventory where product_id = any(taken_product_ids) order by product_id for update) as locked;
  -- After the lock: an import that changed the stock may have changed the price.
  perform abort_unless(
    prices_version = (select sum(changes) || ' ' || extract(epoch from max(changed_at)) from catalogue_versions)
  );
  with sold as (
    update inventory set available = inventory.available - taken.quantity, version = inventory.version + 1
    from unnest(taken_product_ids, taken_quantities) as taken (product_id, quantity)
    where inventory.product_id = taken.product_id and inventory.available is not null
    returning inventory.product_id, inventory.available
  )
  select array_agg(product_id) filter (where available = 0) into sold_out from sold;
  -- The one place where an order writes to the catalogue.
  if sold_out is not null then
    update products set in_stock = false, updated_at = now() where id = any(sold_out) and in_stock;
  end if;
  return numbers;
exception
  when sqlstate 'SF001' then
    return null;
  when unique_violation or check_violation then
    declare
      violated text;
    begin
      get stacked diagnostics violated = constraint_name;
      if violated not in ('orders_client_reference_unique', 'inventory_available_not_negative') then
        raise;
      end if;
      return null;
    end;
end
$$;

-- Aborts what the nearest handler of SF001 encloses, or the transaction, unless the condition is true.
create or replace function abort_unless(condition boolean) returns void language plpgsql as $$
begin
  if condition is not true then
    raise exception 'an assumption about the state of the store is false' using errcode = 'SF001';
  end if;
end
$$;

-- The units of a product that a customer has bought and kept. See docs/decisions/orders-limits.md.
create or replace function purchased_quantity(buyer uuid, product uuid) returns bigint language sql stable
  set enable_seqscan = off
as $$
  select coalesce(sum(pieces.quantity), 0)::bigint
  from orders
  cross join lateral (
    select item ->> 'product_id' as product_id, (item ->> 'quantity')::bigint as quantity from json_array_elements(orders.items) as item
    union all
    select line ->> 'product_id', (line ->> 'quantity')::bigint
    from jsonb_path_query(orders.status_history, '$[*].change.added[*]') as line
    union all
    select line ->> 'product_id', -(line ->> 'quantity')::bigint
    from jsonb_array_elements(orders.status_history) as entry
    cross join jsonb_array_elements(coalesce(entry -> 'change' -> 'lines', entry -> 'change' -> 'removed')) as line
    where entry -> 'change' ->> 'type' in ('lines_cancelled', 'returned', 'amended')
  ) as pieces
  where orders.user_id = buyer and orders.status not in ('cancelled', 'returned') and orders.product_ids @> array[product]
    and pieces.product_id::uuid = product
$$;

-- Places a batch of accepted orders, all or none, in one round trip. Returns their numbers, ascending in the order of
-- the batch. Returns null and changes nothing if the state differs from the one that the batch was decided on.
-- `batch_items` has the lines of each order, because they would be parsed twice inside `batch`. See
-- docs/decisions/orders-placing.md#one-function.
--
-- Locks are taken in the order of all transactions, which prevents deadlocks: advisory locks (never waited for), counts
-- of pending orders by user, stock by product. Stock is locked last, because other batches wait for it.
create or replace function place_orders(
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
  -- A plan from a time when a table was small must not read the whole table later.
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  numbers bigint[];
  buyers uuid[];
  keys_in_use bigint;
  sold_out uuid[];
  guest_orders uuid[];
  max_percent integer;
  right_now timestamptz;
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
        response_template text, attributes json, stock_holder text, max_guest_stock_percent integer, repeat_names text[],
        repeat_seconds integer[], billing_address jsonb, vat_number text, audited_action text, request_id text,
        item_attributes json
      ),
      unnest(batch_items)
    ) as draft (id, user_id, product_ids, total_amount, currency, client_reference, shipping_address, note, status_history,
      traceparent, placed_at, idempotency_key, fingerprint, response_template, attributes, stock_holder, max_guest_stock_percent,
      repeat_names, repeat_seconds, billing_address, vat_number, audited_action, request_id, item_attributes, items)
  ), placed as (
    insert into orders (id, user_id, status, items, product_ids, total_amount, currency, client_reference, shipping_address, billing_address,
      vat_number, note, attributes, item_attributes, status_history, traceparent, created_at, updated_at)
    select id, user_id, 'pending', items::json, product_ids, total_amount, currency, client_reference, shipping_address, billing_address,
      vat_number, note, attributes, item_attributes, status_history, traceparent, placed_at, placed_at
    from draft
    returning number, user_id
  ), held as (
    insert into guest_holds (order_id, product_id, holder, quantity, created_at)
    -- Lines of a product with different attributes are one hold.
    select id, (item ->> 'product_id')::uuid, stock_holder, sum((item ->> 'quantity')::bigint), placed_at
    from draft
    cross join json_array_elements(items::json) as item
    where stock_holder is not null
    group by id, item ->> 'product_id', stock_holder, placed_at
  ), audited as (
    -- An operator or a key has placed the order for a customer.
    insert into activities (actor_type, actor_id, action, subject_type, subject_id, after, request_id)
    select status_history -> 0 -> 'actor' ->> 'type', status_history -> 0 -> 'actor' ->> 'id', audited_action, 'order', id::text,
      jsonb_build_object('status', 'pending', 'version', 1, 'total', jsonb_build_object('amount', total_amount, 'currency', currency)),
      request_id
    from draft
    where audited_action is not null
  ), kept as (
    insert into idempotency_keys (user_id, key, fingerprint, order_id, response)
    select user_id, idempotency_key, fingerprint, id, response_template from draft where idempotency_key is not null
    on conflict (user_id, key) do update
      set fingerprint = excluded.fingerprint, order_id = excluded.order_id, response = excluded.response, created_at = now()
      where idempotency_keys.created_at <= now() - make_interval(hours => key_retention_hours)
    returning key
  ), repeats as (
    insert into order_repeats (name, user_id, order_id, seconds)
    select repeat.name, user_id, id, repeat.seconds
    from draft
    cross join lateral unnest(repeat_names, repeat_seconds) as repeat (name, seconds)
    on conflict (name) do update
      set user_id = excluded.user_id, order_id = excluded.order_id, seconds = excluded.seconds, created_at = now()
      where excluded.seconds = 0 or order_repeats.created_at <= now() - make_interval(secs => excluded.seconds)
    returning name
  )
  select
    (select array_agg(number order by number) from placed),
    (select array_agg(distinct user_id) from placed),
    (select count(idempotency_key) + coalesce(sum(cardinality(repeat_names)), 0) from draft) - (select count(*) from kept)
      - (select count(*) from repeats),
    (select array_agg(id) from draft where stock_holder is not null),
    (select min(max_guest_stock_percent) from draft)
  into numbers, buyers, keys_in_use, guest_orders, max_percent;
  perform abort_unless(keys_in_use = 0);

  -- The trigger of the insert has locked these counts.
  perform abort_unless(false) from pending_order_counts where user_id = any(buyers) and pending > max_pending_orders;
  if max_quantity_per_product is not null then
    perform abort_unless(false)
    from (select distinct user_id, unnest(product_ids) as product_id from orders where number = any(numbers)) as pair
    where purchased_quantity(user_id, product_id) > max_quantity_per_product;
  end if;

  -- A select locks the rows first, because an update would lock in the order of its plan.
  perform abort_unless(count(*) = cardinality(taken_product_ids))
  from (select from inventory where product_id = any(taken_product_ids) order by product_id for update) as locked;
  -- Checks what a guest's network may hold of a product. The stock of the products is locked, so no hold of another
  -- transaction is missed.
  if guest_orders is not null and max_percent is not null then
    perform abort_unless(false)
    from (
      select product_id, sum(quantity) as quantity, coalesce(sum(quantity) filter (where order_id <> all (guest_orders)), 0) as earlier
      from guest_holds
      where (product_id, holder) in (select product_id, holder from guest_holds where order_id = any (guest_orders))
      group by product_id, holder
    ) as held
    join inventory using (product_id)
    where inventory.available is not null and held.quantity > greatest(10, (inventory.available + held.earlier) * max_percent / 100);
  end if;
  -- This is checked after the lock, because an import that changed the stock may have changed the price.
  perform abort_unless(
    prices_version = (select sum(changes) || ' ' || extract(epoch from max(changed_at)) from catalogue_versions)
  );
  -- The database's clock decides whether a product is in the shop, and its price. Due changes come before the order.
  right_now := clock_timestamp();
  perform abort_unless(not exists (select from products where changes_at <= right_now and id = any(taken_product_ids)));
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

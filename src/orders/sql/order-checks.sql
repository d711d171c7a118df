-- The database verifies what an order is. These are triggers, because a check constraint would run at every update of a
-- row, also when only the status or the address changes. See docs/decisions/orders-rules.md.

-- An order has at least one line. Each line has its product, a whole quantity from 1 and a whole price from 0 in the
-- order's currency, and its total is quantity times price. The totals add up to the order's. The path is strict: it
-- selects only lines of exactly this shape.
create or replace function order_lines_add_up(items json, total_amount bigint, currency text) returns boolean
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

-- For `storefront verify`, because rows may have bypassed the trigger (session_replication_role). Lines that cannot be
-- read do not add up. It is not parallel safe: before version 17 a parallel query of PostgreSQL fails at an exception
-- block.
create or replace function order_lines_are_sound(items json, total_amount bigint, currency text) returns boolean
  language plpgsql immutable as $$
begin
  return order_lines_add_up(items, total_amount, currency) is true;
exception when data_exception then
  return false;
end
$$;

-- The history has one entry for each version: the first is pending, the last has the order's status and version, and
-- each has a status and a time. The last entry's version is its place in the list unless the entry names it. Entries
-- may have more members.
create or replace function order_history_is_whole(status_history jsonb, version integer, status text) returns boolean
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

-- Entries of `orders.status_history` may have a `change`: what was changed besides the status, such as the units of a
-- parcel. Lines and total stay as they were placed, and everything else follows from the entries, added lines too. See
-- docs/decisions/orders-changes.md#parts. For each product no more units are shipped and cancelled than were ordered,
-- and no more returned than shipped. A change that names a line names one of this product, with no more units than it
-- has. The total, with what the changes add to it, stays in its range. A transition without `change` takes all units
-- that can make it. This function is not parallel safe: see order_lines_are_sound.
create or replace function order_changes_add_up(items json, total_amount bigint, status_history jsonb) returns boolean
  language plpgsql immutable strict as $$
declare
  ordered_lines jsonb;
  all_lines jsonb;
begin
  if not jsonb_path_exists(status_history, '$[*].change') then
    return true;
  end if;
  -- This is assigned here because an error of a declaration is not handled below.
  ordered_lines := items;
  all_lines := ordered_lines || jsonb_path_query_array(status_history, '$[*].change.added[*]');
  if jsonb_typeof(status_history) <> 'array' or jsonb_typeof(ordered_lines) <> 'array' then
    return false;
  end if;
  return (
    with entry as (
      select place, entry ->> 'status' as status, entry -> 'change' as change
      from jsonb_array_elements(status_history) with ordinality as history (entry, place)
    ), ordered as (
      select line ->> 'product_id' as product_id, sum((line ->> 'quantity')::numeric) as quantity
      from jsonb_array_elements(all_lines) as line
      group by 1
    ), piece as (
      select change ->> 'type' as type, line ->> 'product_id' as product_id, (line ->> 'quantity')::numeric as quantity,
        (line ->> 'line')::integer as line_place
      from entry
      cross join jsonb_array_elements(coalesce(change -> 'lines', change -> 'removed')) as line
    ), moved as (
      select product_id,
        coalesce(sum(quantity) filter (where type = 'shipped'), 0) as shipped,
        coalesce(sum(quantity) filter (where type in ('lines_cancelled', 'amended')), 0) as cancelled,
        coalesce(sum(quantity) filter (where type = 'returned'), 0) as returned
      from piece
      group by 1
    ), named as (
      select all_lines -> line_place as line, product_id,
        coalesce(sum(quantity) filter (where type <> 'returned'), 0) as moved,
        coalesce(sum(quantity) filter (where type = 'returned'), 0) as returned
      from piece
      where line_place is not null
      group by line_place, product_id
    ), refund as (
      select (change -> 'refund' ->> 'amount')::numeric as amount, change ->> 'type' as type,
        sum((change -> 'refund' ->> 'amount')::numeric) over (partition by change ->> 'provider', change ->> 'reference') as refunded
      from entry
      where change ? 'refund'
    ), cost as (
      select total_amount + sum(coalesce((change ->> 'amount')::numeric, 0)) over (order by place) as amount from entry
    )
    select coalesce(bool_and(coalesce(jsonb_typeof(change) = 'object' and change ->> 'type' > '', false)) filter (where change is not null), true)
      and (select coalesce(bool_and(coalesce(quantity >= 1 and quantity % 1 = 0 and coalesce(line_place, 0) >= 0, false)), true) from piece)
      and coalesce(bool_and(coalesce(order_lines_add_up(
        (change -> 'added')::json,
        (select sum((line -> 'total' ->> 'amount')::bigint)::bigint from jsonb_array_elements(change -> 'added') as line),
        ordered_lines -> 0 -> 'unit_price' ->> 'currency'
      ), false)) filter (where change -> 'added' <> '[]'), true)
      and (
        select coalesce(bool_and(coalesce(
          shipped + cancelled <= ordered.quantity
            and returned <= case when was_shipped_whole then ordered.quantity - cancelled else shipped end,
          false
        )), true)
        from moved
        left join ordered using (product_id)
        cross join (select exists (select from entry where status = 'shipped' and change is null) as was_shipped_whole) as whole
      )
      and (
        select coalesce(bool_and(coalesce(
          line ->> 'product_id' = product_id and greatest(moved, returned) <= (line ->> 'quantity')::numeric,
          false
        )), true)
        from named
      )
      -- The amount that a payment covers is derived from reports. This only verifies that no payment refunds more than
      -- the order has ever cost.
      and (
        select coalesce(bool_and(coalesce(
          type = 'payment' and amount >= 1 and amount % 1 = 0 and refunded <= (select max(cost.amount) from cost),
          false
        )), true)
        from refund
      )
      and total_amount + coalesce(sum((change ->> 'amount')::numeric), 0) between 0 and 9007199254740991
      and coalesce(sum((change ->> 'amount')::numeric), 0) % 1 = 0
    from entry
  ) is true;
exception when data_exception then
  return false;
end
$$;

-- The versions of an order as text, as in the ids of its events. They are not all numbers up to the newest: after a
-- restore or a promotion of the database they continue with far greater numbers.
create or replace function order_versions(version integer, status_history jsonb) returns setof text
  language sql immutable parallel safe as $$
  select coalesce(entry ->> 'version', place::text)
  from jsonb_path_query(status_history, '$[*]') with ordinality as change (entry, place)
  union
  select version::text
$$;

-- Whether the payment of an order is authorized, paid or partially refunded, as `paymentOf` of
-- src/orders/order-charges.ts derives it: the newest payment that is not refunded is authorized, or the last state of
-- any payment is one in which the shop has money. Such an order does not expire. The index below stores the outcome, so
-- this calls no other function of the store, and accepts every history. See docs/decisions/orders-limits.md.
create or replace function order_holds_money(status_history jsonb) returns boolean
  language sql immutable strict parallel safe as $$
  with payment as (
    select distinct on (change ->> 'provider', change ->> 'reference') change ->> 'state' as state, place
    from jsonb_path_query(status_history, '$[*].change ? (@.type == "payment")') with ordinality as report (change, place)
    order by change ->> 'provider', change ->> 'reference', place desc
  )
  select coalesce(bool_or(state in ('paid', 'partially_refunded'))
    or (array_agg(state order by place desc) filter (where state is distinct from 'refunded'))[1] = 'authorized', false)
  from payment
$$;

-- The client sees a violated check constraint with the trigger's name.
create or replace function refuse_row() returns trigger language plpgsql as $$
begin
  raise exception using
    errcode = 'check_violation',
    message = format('new row for relation "%s" violates "%s"', tg_table_name, tg_name),
    constraint = tg_name,
    table = tg_table_name,
    schema = tg_table_schema;
end
$$;

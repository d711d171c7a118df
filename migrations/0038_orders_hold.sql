-- The database has the last word on what an order is. Triggers and not check constraints: a check would run whenever a row is updated,
-- also when only the status or the address changes, and would keep old rows that break a rule from being changed at all. Rows from before
-- are not looked at here, so that this is quick on any table: `storefront verify` reports them. See docs/decisions/0093-orders-hold.md.

-- At least one line; each has its product, a whole quantity from 1 and a whole price from 0, both amounts are in the order's currency and
-- multiply; the totals of the lines add up to that of the order. The path is strict, so it selects only lines of exactly this shape.
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

-- One entry for each version: the first pending, the last with the order's status, each with a status and a time. Entries may have more.
create function order_history_is_whole(status_history jsonb, version integer, status text) returns boolean
  language sql immutable parallel safe as $$
  select coalesce(
    jsonb_array_length(
      jsonb_path_query_array(status_history, 'strict $[*] ? (@.status > "" && @.at > "")', '{}', true)
    ) = version
    and case jsonb_typeof(status_history) when 'array' then jsonb_array_length(status_history) end = version
    and status_history -> 0 ->> 'status' = 'pending'
    and status_history -> -1 ->> 'status' = status,
    false
  )
$$;

-- Shown as a violated check of the constraint that is named.
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

-- For `storefront verify`, which reads rows from before: what cannot even be read does not add up.
create function order_lines_are_sound(items json, total_amount bigint, currency text) returns boolean
  language plpgsql immutable parallel safe as $$
begin
  return order_lines_add_up(items, total_amount, currency) is true;
exception when data_exception then
  return false;
end
$$;

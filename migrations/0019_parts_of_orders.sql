-- Entries of `orders.status_history` may have a `change`: what was changed besides the status, such as the pieces of a parcel. Lines and total stay
-- as they were placed, and everything else follows from the entries. See docs/decisions/0221-parts-of-orders.md.

-- Of each product no more pieces are shipped and cancelled than were ordered, and no more returned than shipped; with what the changes add to it
-- the total stays in its range. A move without `change` is one of all pieces that can make it. Not parallel safe: see order_lines_are_sound.
create function order_changes_add_up(items json, total_amount bigint, status_history jsonb) returns boolean
  language plpgsql immutable strict as $$
declare
  ordered_lines jsonb;
begin
  if not jsonb_path_exists(status_history, '$[*].change') then
    return true;
  end if;
  -- Here and not above: an error of a declaration is not handled below.
  ordered_lines := items;
  if jsonb_typeof(status_history) <> 'array' or jsonb_typeof(ordered_lines) <> 'array' then
    return false;
  end if;
  return (
    with entry as (
      select place, entry ->> 'status' as status, entry -> 'change' as change
      from jsonb_array_elements(status_history) with ordinality as history (entry, place)
    ), ordered as (
      select line ->> 'product_id' as product_id, sum((line ->> 'quantity')::numeric) as quantity
      from jsonb_array_elements(ordered_lines) as line
      group by 1
    ), piece as (
      select change ->> 'type' as type, line ->> 'product_id' as product_id, (line ->> 'quantity')::numeric as quantity
      from entry
      cross join jsonb_path_query(change, '$.lines[*]') as line
    ), moved as (
      select product_id,
        coalesce(sum(quantity) filter (where type = 'shipped'), 0) as shipped,
        coalesce(sum(quantity) filter (where type = 'lines_cancelled'), 0) as cancelled,
        coalesce(sum(quantity) filter (where type = 'returned'), 0) as returned
      from piece
      group by 1
    )
    select coalesce(bool_and(coalesce(jsonb_typeof(change) = 'object' and change ->> 'type' > '', false)) filter (where change is not null), true)
      and (select coalesce(bool_and(coalesce(quantity >= 1 and quantity % 1 = 0, false)), true) from piece)
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
      and total_amount + coalesce(sum((change ->> 'amount')::numeric), 0) between 0 and 9007199254740991
      and coalesce(sum((change ->> 'amount')::numeric), 0) % 1 = 0
    from entry
  ) is true;
exception when data_exception then
  return false;
end
$$;

-- Only where a history changes: placing an order writes its first entry, which has no change.
create trigger orders_changes_add_up before update of status_history on orders
  for each row when (
    jsonb_path_exists(new.status_history, '$[*].change')
    and order_changes_add_up(new.items, new.total_amount, new.status_history) is not true
  )
  execute function refuse_row();

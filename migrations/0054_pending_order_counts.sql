-- How many of a customer's orders are pending, so that placing can limit them without counting. Triggers keep it: whoever writes orders.
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

-- The triggers hold back all writes until this is committed, so none is counted twice or not at all.
insert into pending_order_counts (user_id, pending)
select user_id, count(*) from orders where status = 'pending' group by user_id;

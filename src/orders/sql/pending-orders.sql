-- A statement trigger, so that a batch of orders is one upsert. Rows are locked in the order of users and before any
-- stock, which prevents deadlocks.
create or replace function count_new_pending_orders() returns trigger language plpgsql as $$
begin
  insert into pending_order_counts (user_id, pending)
  select user_id, count(*) from added where status = 'pending' group by user_id order by user_id
  on conflict (user_id) do update set pending = pending_order_counts.pending + excluded.pending;
  return null;
end
$$;

create or replace function count_moved_pending_orders() returns trigger language plpgsql as $$
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

create or replace function count_deleted_pending_orders() returns trigger language plpgsql as $$
begin
  insert into pending_order_counts (user_id, pending)
  select user_id, -count(*) from removed where status = 'pending' group by user_id order by user_id
  on conflict (user_id) do update set pending = pending_order_counts.pending + excluded.pending;
  return null;
end
$$;

create or replace function release_guest_holds() returns trigger language plpgsql as $$
begin
  delete from guest_holds using after where guest_holds.order_id = after.id and after.status <> 'pending';
  return null;
end
$$;

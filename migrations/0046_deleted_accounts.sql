-- Accounts that are gone and whose orders may hold an address, a phone or a note that law asks to be kept for a time: those are erased when
-- it is over, and then the row goes too. See docs/decisions/0103-what-a-deleted-account-leaves.md.
create table deleted_accounts (
  user_id uuid primary key,
  deleted_at timestamptz(3) not null default now(),
  -- The oldest last change of its orders that still hold something: none of them is due before that is old enough.
  oldest_change_at timestamptz(3) not null default '-infinity'
);
create index deleted_accounts_oldest_change_at_idx on deleted_accounts (oldest_change_at);

-- A trigger, so that nothing that deletes an account can forget it: a statement typed by an operator neither.
create function record_deleted_account() returns trigger language plpgsql as $$
begin
  insert into deleted_accounts (user_id) values (old.id) on conflict do nothing;
  return null;
end
$$;
create trigger users_deleted after delete on users for each row execute function record_deleted_account();

-- Accounts that earlier releases have deleted.
insert into deleted_accounts (user_id)
select distinct user_id
from orders
where (shipping_address is not null or note is not null) and not exists (select from users where users.id = orders.user_id);

-- Runs as its owner: the API's role may not change messages of the topic, but for taking out what is no longer in the order itself.
create function erase_addresses_in_topic(order_ids uuid[]) returns void language sql security definer set search_path from current as $$
  with erased as (
    select orders.id || '.' || made.version as event_id
    from orders
    cross join generate_series(1, orders.version) as made (version)
    where orders.id = any(order_ids) and shipping_address is null and note is null
  )
  update topic_messages as message
  set event = jsonb_set(jsonb_set(event::jsonb, '{data,order,shipping_address}', 'null'), '{data,order,note}', 'null')::json
  from erased
  where message.id = erased.event_id and json_typeof(event #> '{data,order}') = 'object'
$$;

-- The incarnations of this database, oldest first. Restoring an earlier state begins another one: the lake, a broker and customers remember
-- what was published in the lost time, and nothing new may look like it. See docs/decisions/0140-incarnations-of-the-database.md.
create table database_incarnations (
  -- 0 for the first, else the seconds from 2026 to its opening: two restores of one backup must not choose the same number.
  number integer primary key,
  -- `<system id>.<timeline>.<oid>` of the database that opened it.
  identity text not null,
  -- For the operator, as is opened_at.
  reason text not null,
  -- Numbers of orders placed before it are at most this.
  order_number bigint not null,
  -- Sequences of the topic behind the first and up to the second may belong to events that were lost. Null when no such is known.
  lost_after bigint,
  lost_up_to bigint,
  opened_at timestamptz(3) not null default now(),
  -- Null until topic and lake have been compared with it.
  reconciled_at timestamptz(3),
  constraint database_incarnations_lost_range check ((lost_after is null) = (lost_up_to is null) and lost_up_to >= lost_after)
);

-- Opens the next incarnation unless another process has (`expected`: the newest number that the caller knows, null for none), and moves the
-- numbers of orders and the sequences of the topic past all that is known. With the owner's rights: the API's role may move neither, and
-- here both only increase. `first_sequence`: above every sequence of the topic's earlier incarnations.
create function open_incarnation(
  expected integer, identity text, reason text, published_order_number bigint, first_sequence bigint, lost_after bigint, lost_up_to bigint,
  is_reconciled boolean
) returns boolean language plpgsql security definer as $$
declare
  newest integer;
  next integer := 0;
  seconds constant integer := extract(epoch from now() - timestamptz '2026-01-01 00:00:00+00');
  numbered bigint;
  sequenced bigint;
  message bigint;
  epoch_wanted integer := open_incarnation.first_sequence / 1000000000000;
begin
  lock table database_incarnations in share row exclusive mode;
  select max(incarnation.number) into newest from database_incarnations as incarnation;
  if newest is distinct from expected then
    return false;
  end if;
  select last_value into numbered from order_numbers;
  if newest is not null then
    next := greatest(newest + 1000, seconds);
    -- Lost orders whose events had not been published have numbers too: their customers know them. Two restores of one backup get
    -- different ranges: the first may have left no trace.
    numbered := setval('order_numbers', greatest(numbered, published_order_number) + 10000 + 100 * (seconds % 100000));
    select last_value into sequenced from topic_messages_sequence_seq;
    if first_sequence > sequenced then
      perform setval('topic_messages_sequence_seq', first_sequence, false);
      -- Messages published between the restore and now, by a process that was running meanwhile, have sequences of the lost time.
      for message in select stored.sequence from topic_messages as stored where stored.sequence > lost_after order by stored.sequence loop
        update topic_messages set sequence = default where sequence = message;
      end loop;
    end if;
    update topic_epochs set epoch = epoch_wanted
    where epoch = (select max(known.epoch) from topic_epochs as known) and epoch < epoch_wanted;
  end if;
  insert into database_incarnations (number, identity, reason, order_number, lost_after, lost_up_to, reconciled_at)
  values (next, open_incarnation.identity, open_incarnation.reason, numbered, open_incarnation.lost_after, open_incarnation.lost_up_to,
    case when is_reconciled then now() end);
  return true;
end
$$;

-- The greatest sequence that a message of the topic in PostgreSQL has been given, also when it was deleted since.
create function newest_topic_sequence() returns bigint language sql security definer as $$
  select case when is_called then last_value else last_value - 1 end from topic_messages_sequence_seq
$$;

-- A table in the caller's temporary schema must not replace one of the store in a function with the owner's rights.
do $$
begin
  execute format(
    'alter function open_incarnation(integer, text, text, bigint, bigint, bigint, bigint, boolean) set search_path = %I, pg_temp',
    current_schema()
  );
  execute format('alter function newest_topic_sequence() set search_path = %I, pg_temp', current_schema());
end
$$;

-- A change of an order from before the restore gets a version that no lost change can have had: the number of the incarnation plus its
-- place in the history, where the entry names it. A trigger, so that every statement that moves an order does it.
create function order_version_of_incarnation() returns trigger language plpgsql as $$
declare
  incarnation integer;
  place constant integer := jsonb_array_length(new.status_history);
begin
  select number into incarnation
  from database_incarnations
  where number > 0 and order_number >= new.number
  order by number desc
  limit 1;
  if incarnation is not null then
    new.version := incarnation + place;
    new.status_history := jsonb_set(new.status_history, array[(place - 1)::text, 'version'], to_jsonb(new.version));
  end if;
  return new;
end
$$;
-- PostgreSQL runs triggers in the order of their names: this one before `orders_history_is_whole`, which must see the new version.
create trigger orders_change_version before update of version on orders
  for each row when (new.version <> old.version and jsonb_typeof(new.status_history) = 'array')
  execute function order_version_of_incarnation();

-- Begins the next incarnation after `newest` (null: none), and advances order numbers past all known ones. The newest
-- order may be old, in a shop with quiet days or after an import, so the advance has a bound. The caller has locked the
-- table.
create or replace function begin_incarnation(newest integer, identity text, reason text, known_order_number bigint) returns integer language plpgsql
  set search_path from current
as $$
declare
  seconds constant integer := extract(epoch from now() - timestamptz '2026-01-01 00:00:00+00');
  following constant integer := case when newest is null then 0 else greatest(newest + 1000, seconds) end;
  numbered bigint := (select last_value from order_numbers);
  behind bigint;
begin
  if newest is not null then
    -- Lost orders that nothing else knows also have numbers that customers know: allow a hundred for each second since
    -- the newest order here, for at most a day.
    select least(86400, greatest(0, extract(epoch from now() - placed.created_at))) into behind
    from orders as placed order by placed.number desc limit 1;
    -- Two restores of one backup get different ranges: the first may have left no trace.
    numbered := setval('order_numbers', greatest(numbered, known_order_number) + 10000 + 100 * (seconds % 100000) + 100 * coalesce(behind, 0));
  end if;
  insert into database_incarnations (number, identity, reason, order_number, reconciled_at)
  values (following, begin_incarnation.identity, begin_incarnation.reason, numbered, now());
  return following;
end
$$;

-- Records how topic and lake compare with the newest incarnation, and moves the sequences of both partitions past all
-- known ones, like open_incarnation. Returns false if the incarnation is no longer the newest, or another process has
-- done this.
create or replace function complete_incarnation(
  number integer, published_order_number bigint, first_sequence bigint, lost_after bigint, lost_up_to bigint, is_reconciled boolean,
  catalogue_first_sequence bigint, catalogue_lost_after bigint, catalogue_lost_up_to bigint
) returns boolean language plpgsql
  security definer
  set search_path from current
as $$
declare
  message bigint;
  epoch_wanted constant integer := complete_incarnation.first_sequence / 1000000000000;
  catalogue_epoch_wanted constant integer := complete_incarnation.catalogue_first_sequence / 1000000000000;
begin
  lock table database_incarnations in share row exclusive mode;
  update database_incarnations as incarnation
  set lost_after = complete_incarnation.lost_after, lost_up_to = complete_incarnation.lost_up_to,
    catalogue_lost_after = complete_incarnation.catalogue_lost_after, catalogue_lost_up_to = complete_incarnation.catalogue_lost_up_to,
    reconciled_at = case when is_reconciled then now() end, compared_at = now(),
    -- A standby was further behind than the incarnation has advanced.
    order_number = case when published_order_number <= order_number then order_number
      else setval('order_numbers', greatest(published_order_number, (select last_value from order_numbers)) + 10000) end
  where incarnation.number = complete_incarnation.number and compared_at is null
    and incarnation.number = (select max(known.number) from database_incarnations as known);
  if not found then
    return false;
  end if;
  -- A process that ran meanwhile may have published messages between the restore and now. They have sequences of the
  -- lost time.
  if first_sequence > (select last_value from topic_messages_sequence_seq) then
    perform setval('topic_messages_sequence_seq', first_sequence, false);
    for message in
      select stored.sequence from topic_messages as stored where stored.sequence > complete_incarnation.lost_after order by stored.sequence
    loop
      update topic_messages set sequence = default where sequence = message;
    end loop;
  end if;
  update topic_epochs set epoch = epoch_wanted
  where epoch = (select max(known.epoch) from topic_epochs as known) and epoch < epoch_wanted;
  if catalogue_first_sequence > (select last_value from catalogue_messages_sequence_seq) then
    perform setval('catalogue_messages_sequence_seq', catalogue_first_sequence, false);
    for message in
      select stored.sequence from catalogue_messages as stored where stored.sequence > complete_incarnation.catalogue_lost_after order by stored.sequence
    loop
      update catalogue_messages set sequence = default where sequence = message;
    end loop;
  end if;
  update catalogue_epochs set epoch = catalogue_epoch_wanted
  where epoch = (select max(known.epoch) from catalogue_epochs as known) and epoch < catalogue_epoch_wanted;
  return true;
end
$$;

-- Begins and completes an incarnation: for a database that topic and lake show to be an older one.
create or replace function open_incarnation(
  expected integer, identity text, reason text, published_order_number bigint, first_sequence bigint, lost_after bigint, lost_up_to bigint,
  is_reconciled boolean, catalogue_first_sequence bigint, catalogue_lost_after bigint, catalogue_lost_up_to bigint
) returns boolean language plpgsql
  security definer
  set search_path from current
as $$
declare
  newest integer;
begin
  lock table database_incarnations in share row exclusive mode;
  select max(incarnation.number) into newest from database_incarnations as incarnation;
  if newest is distinct from expected then
    return false;
  end if;
  return complete_incarnation(
    begin_incarnation(newest, open_incarnation.identity, open_incarnation.reason, published_order_number),
    published_order_number, first_sequence, lost_after, lost_up_to, is_reconciled,
    catalogue_first_sequence, catalogue_lost_after, catalogue_lost_up_to
  );
end
$$;

-- Called by each new connection. `identity` is `<system id>.<timeline>.<oid>` of its server, null for a standby.
-- `given_order_number` is the greatest number that the calling process has given to a customer. Returns why an
-- incarnation has begun; null if the newest one continues, or if it is the first. It has the owner's rights, like
-- open_incarnation.
create or replace function confirm_incarnation(identity text, given_order_number bigint) returns text language plpgsql
  security definer
  set search_path from current
as $$
declare
  newest integer;
  known_identity text;
  numbered bigint;
  why text;
begin
  if confirm_incarnation.identity is null then
    raise exception 'the server is a standby that is not promoted' using errcode = 'read_only_sql_transaction';
  end if;
  for attempt in 1..2 loop
    select last_value into numbered from order_numbers;
    select known.number, known.identity into newest, known_identity
    from database_incarnations as known
    order by known.number desc
    limit 1;
    why := case
      when newest is null then 'the first'
      when known_identity <> confirm_incarnation.identity then format('the database was %s and is %s', known_identity, confirm_incarnation.identity)
      when given_order_number > numbered then format('order numbers were given up to %s, the database has given %s', given_order_number, numbered)
    end;
    if why is null then
      return null;
    end if;
    if attempt = 1 then
      -- Another connection may be doing it.
      lock table database_incarnations in share row exclusive mode;
    end if;
  end loop;
  perform begin_incarnation(newest, confirm_incarnation.identity, why, given_order_number);
  return case when newest is not null then why end;
end
$$;

-- Gives a change of an order from before the restore a version that no lost change can have had: the number of the
-- incarnation plus the place in the history, where the entry names it. A trigger covers every statement that changes an
-- order.
create or replace function order_version_of_incarnation() returns trigger language plpgsql as $$
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

-- Restores of the database lose events of the catalogue, too, which topic and lake still have. See docs/decisions/0140-incarnations-of-the-database.md.

-- As lost_after and lost_up_to, of the topic's partition of the catalogue.
alter table database_incarnations add column catalogue_lost_after bigint;
alter table database_incarnations add column catalogue_lost_up_to bigint;
alter table database_incarnations add constraint database_incarnations_catalogue_lost_range
  check ((catalogue_lost_after is null) = (catalogue_lost_up_to is null) and catalogue_lost_up_to >= catalogue_lost_after) not valid;

-- As in 0009, and the same for the partition of the catalogue. The release before calls the other one: then the trigger of 0036 advances the sequence.
create function open_incarnation(
  expected integer, identity text, reason text, published_order_number bigint, first_sequence bigint, lost_after bigint, lost_up_to bigint,
  is_reconciled boolean, catalogue_first_sequence bigint, catalogue_lost_after bigint, catalogue_lost_up_to bigint
) returns boolean language plpgsql
  security definer
  set search_path from current
as $$
declare
  message bigint;
  epoch_wanted constant integer := open_incarnation.catalogue_first_sequence / 1000000000000;
begin
  if not open_incarnation(expected, identity, reason, published_order_number, first_sequence, lost_after, lost_up_to, is_reconciled) then
    return false;
  end if;
  update database_incarnations as incarnation
  set catalogue_lost_after = open_incarnation.catalogue_lost_after, catalogue_lost_up_to = open_incarnation.catalogue_lost_up_to
  where incarnation.number = (select max(known.number) from database_incarnations as known);
  if open_incarnation.catalogue_first_sequence > (select last_value from catalogue_messages_sequence_seq) then
    perform setval('catalogue_messages_sequence_seq', open_incarnation.catalogue_first_sequence, false);
    -- Messages published between the restore and now, by a process that was running meanwhile, have sequences of the lost time.
    for message in
      select stored.sequence from catalogue_messages as stored where stored.sequence > open_incarnation.catalogue_lost_after order by stored.sequence
    loop
      update catalogue_messages set sequence = default where sequence = message;
    end loop;
  end if;
  update catalogue_epochs set epoch = epoch_wanted
  where epoch = (select max(known.epoch) from catalogue_epochs as known) and epoch < epoch_wanted;
  return true;
end
$$;

-- Records products as they are, also when nothing has changed: subscribers have seen later events of them, which a restore has lost. The caller
-- has locked their rows. Returns the number of events.
create function restate_products(ids uuid[]) returns bigint language sql
  security definer
  set search_path from current
as $$
  with stated as (
    insert into product_events (product_id, stream, version, type, occurred_at, data)
    select snapshot.product_id, 'product',
      greatest(
        coalesce((select max(version) from product_events where product_id = snapshot.product_id and stream = 'product'), 0),
        coalesce((select max(number) from database_incarnations), 0)
      ) + 1,
      case when snapshot.product ->> 'archived_at' is null then 'product.updated' else 'product.archived' end,
      clock_timestamp(), json_build_object('product', snapshot.product)
    from product_snapshots(ids) as snapshot
    returning 1
  )
  select count(*) from stated
$$;

-- Without pg_temp in it, a search path has it first: a table in the caller's temporary schema would replace one of the store in each function
-- with the owner's rights, also in that of 0006.
do $$
declare
  name regprocedure;
begin
  for name in
    select oid from pg_proc where prosecdef and pronamespace = to_regnamespace(current_schema()) and proowner = to_regrole(quote_ident(current_user))
  loop
    execute format('alter function %s set search_path = %I, pg_temp', name, current_schema());
  end loop;
end
$$;

-- Removes the address and the note from the events of orders that no longer have them. With the owner's rights: the API's role may not
-- change messages of the topic otherwise.
create or replace function erase_addresses_in_topic(order_ids uuid[]) returns void language sql security definer set search_path from current as $$
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

-- The greatest sequence that a message of the topic in PostgreSQL has been given, also when it was deleted since.
create or replace function newest_topic_sequence() returns bigint language sql
  security definer
  set search_path from current
as $$
  select case when is_called then last_value else last_value - 1 end from topic_messages_sequence_seq
$$;

-- The greatest sequence that a message of the catalogue in PostgreSQL has been given, also when it was deleted since.
create or replace function newest_catalogue_sequence() returns bigint language sql
  security definer
  set search_path from current
as $$
  select case when is_called then last_value else last_value - 1 end from catalogue_messages_sequence_seq
$$;

-- A restored database has lost messages that subscribers may have seen: sequences continue past all that the lost time can have published.
create or replace function advance_catalogue_messages() returns trigger language plpgsql
  security definer
  set search_path from current
as $$
begin
  perform setval('catalogue_messages_sequence_seq', nextval('catalogue_messages_sequence_seq') + 1000000000);
  return null;
end
$$;

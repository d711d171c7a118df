-- Removes from the events of these orders what their rows no longer have: each member of the order whose column is null
-- now. It has the owner's rights, because the API's role may not change messages of the topic.
create or replace function erase_addresses_in_topic(order_ids uuid[]) returns void language sql security definer set search_path from current as $$
  with stored as materialized (
    select id, version, status_history, array(select key from jsonb_each(to_jsonb(orders)) where value = 'null') as missing
    from orders
    where id = any(order_ids)
  ), erased as (
    select stored.id || '.' || made.version as event_id, missing
    from stored
    cross join order_versions(stored.version, stored.status_history) as made (version)
  )
  update topic_messages as message
  set event = jsonb_set(event::jsonb, '{data,order}', coalesce(
    (
      select jsonb_object_agg(key, case
        when key = any(missing) then 'null'
        when key = 'items' and 'item_attributes' = any(missing) and value @? '$[*].attributes'
          then (select jsonb_agg(item - 'attributes' order by place) from jsonb_array_elements(value) with ordinality as line (item, place))
        else value
      end)
      from jsonb_each(event::jsonb #> '{data,order}')
    ),
    '{}'
  ))::json
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

-- A restored database has lost messages that subscribers may have seen: sequences continue past all that the lost time
-- can have published.
create or replace function advance_catalogue_messages() returns trigger language plpgsql
  security definer
  set search_path from current
as $$
begin
  perform setval('catalogue_messages_sequence_seq', nextval('catalogue_messages_sequence_seq') + 1000000000);
  return null;
end
$$;

-- The notification topic of a store without a broker: an append-only log.
create table topic_messages (
  -- Assigned under an advisory lock, so that a reader never sees 8 before 7.
  sequence bigint generated always as identity primary key,
  -- The event id, `<order id>.<version>`; a second message with the same id is dropped.
  id text not null,
  -- The position in the change stream of the commit that made the event.
  position text not null,
  -- CloudEvents 1.0. As json and not jsonb: subscribers get the text that was published.
  event json not null,
  published_at timestamptz(3) not null default now(),
  constraint topic_messages_id_unique unique (id)
);

-- The position of each subscriber.
create table topic_subscribers (
  name text primary key,
  -- Null for a subscriber that keeps its own position, as the lake does.
  sequence bigint,
  -- Incremented whenever a process becomes the active one. A write of an earlier one is refused by it: a process that was paused for long
  -- does not know that another has taken over.
  fence bigint not null default 0
);

-- Streams of the broker that this store has published to, oldest first. A stream that was lost and recreated counts from 1 again: the
-- epoch keeps its sequences above those of the lost one. See docs/decisions/0041-epochs-of-the-topic.md.
create table topic_epochs (
  epoch integer primary key,
  -- Name and creation time, as the broker reports them.
  stream text not null,
  -- For the operator.
  started_at timestamptz(3) not null default now(),
  constraint topic_epochs_stream_unique unique (stream),
  constraint topic_epochs_in_range check (epoch between 1 and 9000)
);

-- When each order event was published, for a topic whose messages are outside the database. Written afterwards: a missing row means that
-- the event was not published or not recorded. See docs/decisions/0034-timeline.md.
create table order_event_deliveries (
  order_id uuid not null,
  version integer not null,
  -- Of the message, by which lake_arrivals has its time. A topic that was lost and recreated has the event at another sequence too.
  sequence bigint not null,
  published_at timestamptz(3) not null,
  primary key (order_id, version, sequence)
);

-- When messages of the topic were in the lake: a row for each range of sequences that was written together.
create table lake_arrivals (
  last_sequence bigint primary key,
  first_sequence bigint not null,
  at timestamptz(3) not null
);

-- Removes the address and the note from the events of orders that no longer have them. With the owner's rights: the API's role may not
-- change messages of the topic otherwise.
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

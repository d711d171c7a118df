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
  fence bigint not null default 0,
  -- Positions in different partitions cannot be compared.
  partition text not null default 'orders',
  -- Of a subscriber that keeps its own position: what it last reported, up to which it never reads again.
  stored_sequence bigint
);

-- Streams of the broker that this store has published to, oldest first. A stream that was lost and recreated counts from 1 again: the
-- epoch keeps its sequences above those of the lost one. See docs/decisions/topic.md#epochs.
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
-- the event was not published or not recorded. See docs/decisions/topic.md#the-timeline.
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

-- The partition of the topic for events of the catalogue: as topic_messages.
create table catalogue_messages (
  -- Assigned under an advisory lock, so that a reader never sees 8 before 7.
  sequence bigint generated always as identity primary key,
  -- `<product id>.<version>` or `<product id>.stock.<version>`; a second message with the same id is dropped.
  id text not null,
  position text not null,
  event json not null,
  published_at timestamptz(3) not null default now(),
  constraint catalogue_messages_id_unique unique (id)
);

-- As topic_epochs, for the broker's stream of the catalogue.
create table catalogue_epochs (
  epoch integer primary key,
  stream text not null,
  started_at timestamptz(3) not null default now(),
  -- When the stream had every event of product_events; null: it does not have them yet.
  refilled_at timestamptz(3),
  constraint catalogue_epochs_stream_unique unique (stream),
  constraint catalogue_epochs_in_range check (epoch between 1 and 9000)
);

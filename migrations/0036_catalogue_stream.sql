-- Read by a slot of its own, so that an import never holds up the events of orders. See docs/decisions/0278-the-stream-of-the-catalogue.md.
create publication storefront_catalogue for table product_events with (publish = 'insert');

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

-- Positions in different partitions cannot be compared.
alter table topic_subscribers add column partition text not null default 'orders';
-- Of a subscriber that keeps its own position: what it last reported, up to which it never reads again.
alter table topic_subscribers add column stored_sequence bigint;

-- As dead_letters, for rows of product_events.
create table catalogue_dead_letters (
  event_id text primary key,
  reason text not null,
  position text not null,
  recorded_at timestamptz(3) not null default now()
);

-- A restored database has lost messages that subscribers may have seen: sequences continue past all that the lost time can have published.
create function advance_catalogue_messages() returns trigger language plpgsql
  security definer
  set search_path from current
as $$
begin
  perform setval('catalogue_messages_sequence_seq', nextval('catalogue_messages_sequence_seq') + 1000000000);
  return null;
end
$$;
create trigger database_incarnations_advance_catalogue after insert on database_incarnations
  for each row when (new.number > 0) execute function advance_catalogue_messages();

-- The greatest sequence that a message of the catalogue in PostgreSQL has been given, also when it was deleted since.
create function newest_catalogue_sequence() returns bigint language sql
  security definer
  set search_path from current
as $$
  select case when is_called then last_value else last_value - 1 end from catalogue_messages_sequence_seq
$$;

-- Records the present stock of products whose newest event of stock says something else, which only a change without triggers can leave.
create function record_stock_events(ids uuid[]) returns bigint language sql
  security definer
  set search_path from current
as $$
  with counted as (
    update inventory set version = version + 1 where product_id = any(ids)
    returning product_id, version, available
  ), recorded as (
    insert into product_events (product_id, stream, version, type, occurred_at, data)
    select counted.product_id, 'stock',
      greatest(
        counted.version + coalesce((select max(number) from database_incarnations), 0),
        coalesce((select max(version) from product_events where product_id = counted.product_id and stream = 'stock'), 0) + 1
      ),
      case counted.available when 0 then 'stock.depleted' else 'stock.replenished' end, clock_timestamp(),
      json_build_object('product_id', counted.product_id, 'sku', products.sku, 'available', counted.available, 'previous_available', null)
    from counted
    join products on products.id = counted.product_id
    returning 1
  )
  select count(*) from recorded
$$;

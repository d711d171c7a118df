-- Changes of orders that no event can be made of. The stream continues without them; the row itself is in orders.
create table dead_letters (
  -- The id that the event would have: `<order id>.<version>`.
  event_id text primary key,
  reason text not null,
  -- The position in the change stream, see docs/decisions/change-stream-reading.md. Position and time are for the
  -- operator who looks for the cause.
  position text not null,
  recorded_at timestamptz(3) not null default now()
);

-- Replication slots that were lost and whose changes are not all on the topic yet. A row exists from before the slot is dropped until
-- `storefront replay` has published what the slot missed, so that a replay which was killed does not hide what is missing.
create table slot_refills (
  -- A copy of the database is not affected: its slot has another name.
  slot_name text primary key,
  -- Of the newest replay: an older one that ends later must not remove the row.
  replay_id uuid not null,
  reason text not null,
  -- For the operator.
  started_at timestamptz(3) not null default now()
);

-- As dead_letters, for rows of product_events.
create table catalogue_dead_letters (
  event_id text primary key,
  reason text not null,
  position text not null,
  recorded_at timestamptz(3) not null default now()
);

-- How far this store has confirmed each replication slot that it created. A slot without a row, or past its row, was created, recreated or moved
-- by something else, and may hide changes. See docs/decisions/change-stream-slots.md#creation-and-confirmed-positions.
create table slot_positions (
  slot_name text primary key,
  -- The log of the position, `<system id>.<timeline>`.
  log_id text,
  -- Written before the slot is told, so it is never below the slot's confirmed position. Null for a slot of an earlier release, until its next
  -- reader has opened it.
  position pg_lsn,
  -- Why the slot cannot be read although its position is known.
  lost_reason text,
  recorded_at timestamptz(3) not null default now()
);

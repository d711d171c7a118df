-- Changes of orders that no event can be made of. The stream continues without them; the row itself is in orders.
create table dead_letters (
  -- The id that the event would have: `<order id>.<version>`.
  event_id text primary key,
  reason text not null,
  -- The position in the change stream, see docs/decisions/0043. Position and time are for the operator who looks for the cause.
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

-- Replication slots that were lost and whose changes are not all on the topic yet. A row is there from before the slot is dropped until
-- `storefront replay` has published what it missed, so that a replay which was killed does not hide what is missing.
create table slot_refills (
  -- A copy of the database is not affected: its slot has another name.
  slot_name text primary key,
  -- Of the newest replay: an older one that ends later must not remove the row.
  replay_id uuid not null,
  reason text not null,
  started_at timestamptz(3) not null default now()
);

-- How far this store has confirmed each replication slot that it created. A slot without a row, or past its row, was created, recreated or moved
-- by something else, and may hide changes. See docs/decisions/0008-slot-is-made-once.md.
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

-- Slots of a store that an earlier release has set up. An empty store whose slot nobody reads gets a new one.
insert into slot_positions (slot_name)
select slot_name
from pg_replication_slots
where database = current_database()
  and plugin = 'pgoutput'
  and (
    active
    or exists (select from orders)
    or exists (select from product_events)
    or exists (select from topic_messages)
    or exists (select from catalogue_messages)
  );

-- The incarnations of this database, oldest first. Restoring an earlier state begins another one: the lake, a broker and customers remember
-- what was published in the lost time, and nothing new may look like it. See docs/decisions/audit-incarnations.md.
create table database_incarnations (
  -- 0 for the first, else the seconds from 2026 to its opening: two restores of one backup must not choose the same number.
  number integer primary key,
  -- `<system id>.<timeline>.<oid>` of the database that opened it.
  identity text not null,
  -- For the operator, as is opened_at.
  reason text not null,
  -- Numbers of orders placed before it are at most this.
  order_number bigint not null,
  -- Sequences of the topic behind the first and up to the second may belong to events that were lost. Null when no such is known.
  lost_after bigint,
  lost_up_to bigint,
  opened_at timestamptz(3) not null default now(),
  -- Null until topic and lake have been compared with it.
  reconciled_at timestamptz(3),
  -- As lost_after and lost_up_to, of the topic's partition of the catalogue.
  catalogue_lost_after bigint,
  catalogue_lost_up_to bigint,
  -- Since when a comparison with topic and lake is due that left the lake out, because it was unavailable. Null when none is.
  lake_left_out_at timestamptz(3),
  -- When topic and lake were compared with the incarnation. Null for one that a connection has begun, which compares nothing else.
  compared_at timestamptz(3),
  constraint database_incarnations_lost_range check ((lost_after is null) = (lost_up_to is null) and lost_up_to >= lost_after),
  constraint database_incarnations_catalogue_lost_range
    check ((catalogue_lost_after is null) = (catalogue_lost_up_to is null) and catalogue_lost_up_to >= catalogue_lost_after)
);
create trigger database_incarnations_advance_catalogue after insert on database_incarnations
  for each row when (new.number > 0) execute function advance_catalogue_messages();

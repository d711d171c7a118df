-- A comparison with topic and lake that left the lake out, because it was unavailable, is still due after a restart. Null when none is.
-- See docs/decisions/0140-incarnations-of-the-database.md.
alter table database_incarnations add column lake_left_out_at timestamptz(3);

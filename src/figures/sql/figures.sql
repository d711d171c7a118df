-- Refuses a deletion without an error: see docs/decisions/figures.md#upgrades.
create or replace function keep_row() returns trigger language plpgsql as $$
begin
  return null;
end
$$;

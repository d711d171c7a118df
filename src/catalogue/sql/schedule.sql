-- Gives a product the state that its schedule has at this moment, and the time of the next change. See
-- docs/decisions/catalogue-schedules.md.
create or replace function products_apply_schedule() returns trigger language plpgsql as $$
declare
  right_now constant timestamptz := clock_timestamp();
begin
  new.changes_at := null;
  -- Archived by an operator: no time brings it back.
  if new.archived_at is not null and not new.is_withheld then
    return new;
  end if;
  new.is_withheld := new.status <> 'active' or new.published_at > right_now is true or new.unpublished_at <= right_now is true;
  new.archived_at := case when new.is_withheld then coalesce(old.archived_at, right_now) end;
  if new.status = 'active' then
    select min(at) into new.changes_at from unnest(array[new.published_at, new.unpublished_at]) as at where at > right_now;
  end if;
  return new;
end
$$;

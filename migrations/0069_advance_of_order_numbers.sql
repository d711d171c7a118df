-- As in 0049, with a bound: the newest order may be old, in a shop with quiet days or after an import, and says nothing about how many were lost.
create or replace function begin_incarnation(newest integer, identity text, reason text, known_order_number bigint) returns integer language plpgsql
  set search_path from current
as $$
declare
  seconds constant integer := extract(epoch from now() - timestamptz '2026-01-01 00:00:00+00');
  following constant integer := case when newest is null then 0 else greatest(newest + 1000, seconds) end;
  numbered bigint := (select last_value from order_numbers);
  behind bigint;
begin
  if newest is not null then
    -- Lost orders that nothing else knows have numbers, too, and customers know them: a hundred for each second since the newest order here, for a
    -- day at most.
    select least(86400, greatest(0, extract(epoch from now() - placed.created_at))) into behind
    from orders as placed order by placed.number desc limit 1;
    -- Two restores of one backup get different ranges: the first may have left no trace.
    numbered := setval('order_numbers', greatest(numbered, known_order_number) + 10000 + 100 * (seconds % 100000) + 100 * coalesce(behind, 0));
  end if;
  insert into database_incarnations (number, identity, reason, order_number, reconciled_at)
  values (following, begin_incarnation.identity, begin_incarnation.reason, numbered, now());
  return following;
end
$$;

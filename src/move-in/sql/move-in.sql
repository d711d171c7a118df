-- A digest of a name and an address can be guessed, so it is erased with the account, however that is deleted.
create or replace function erase_imported_customer() returns trigger language plpgsql as $$
begin
  new.digest := null;
  return new;
end
$$;

-- Moves the numbers of new orders past `up_to`. It has the owner's rights, because the API's role may not set a
-- sequence. Here the sequence only increases. The distance leaves room for numbers that are drawn meanwhile.
create or replace function reserve_order_numbers(up_to bigint) returns void language plpgsql
  security definer
  set search_path from current
as $$
declare
  drawn bigint;
begin
  if up_to is null or up_to > 1000000000000000 then
    raise exception 'order numbers end at 1000000000000000' using errcode = 'numeric_value_out_of_range';
  end if;
  select last_value into drawn from order_numbers;
  if up_to > drawn - 1000 then
    perform setval('order_numbers', greatest(up_to, drawn) + 1000);
  end if;
end
$$;

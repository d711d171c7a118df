-- What was moved in from another shop: see docs/move-in.md.

-- Hashes of other systems, until the next login replaces them by argon2id. A failed login reads one, so that every failed login costs the same.
create index users_foreign_password_hash_idx on users (id) where password_hash not like '$argon2id$v=19$m=19456,t=2,p=1$%';

-- Customers of other shops, by a digest of the shop's name and of their id there: nothing of the id can be read from it.
create table imported_customers (
  id uuid primary key,
  -- Null when the account was deleted since: another run of the import must not create it again.
  user_id uuid references users (id) on delete set null,
  -- Of the line, so that the next run sees what has changed in the source. Null when the account was deleted.
  digest bytea,
  imported_at timestamptz(3) not null default now()
);
create index imported_customers_user_id_idx on imported_customers (user_id);

-- A digest of a name and an address can be guessed, so it is erased with the account, however that is deleted.
create function erase_imported_customer() returns trigger language plpgsql as $$
begin
  new.digest := null;
  return new;
end
$$;
create trigger imported_customers_erased before update of user_id on imported_customers
  for each row when (new.user_id is null) execute function erase_imported_customer();

-- Orders of other shops. Their ids are made of the shop's name and the id there, so that a repeated run finds them.
create table imported_orders (
  -- No foreign key: an order is never deleted.
  order_id uuid primary key,
  source text not null,
  -- Of the line without address, note and customer, which can be guessed.
  digest bytea not null,
  imported_at timestamptz(3) not null default now()
);

-- Moves the numbers of new orders past `up_to`. With the owner's rights: the API's role may not set a sequence, and here it only increases. The
-- distance leaves room for numbers that are drawn meanwhile.
create function reserve_order_numbers(up_to bigint) returns void language plpgsql security definer as $$
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
-- A table in the caller's temporary schema must not replace one of the store in a function with the owner's rights.
do $$
begin
  execute format('alter function reserve_order_numbers(bigint) set search_path = %I, pg_temp', current_schema());
end
$$;

-- No mail is sent about a change that was moved in; the row records that.
alter table email_deliveries drop constraint email_deliveries_status_known;
alter table email_deliveries add constraint email_deliveries_status_known check (status in ('queued', 'sent', 'failed', 'skipped'));

-- What was moved in from another shop: see docs/move-in.md.

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

-- functions: ef1d555d86dda163

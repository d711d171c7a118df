-- A blocked account cannot open a session; its orders stay as they are.
alter table users
  add column blocked_at timestamptz(3),
  -- For operators. Here and not in `activities`, so that it is erased with the account.
  add column blocked_reason text,
  add constraint users_blocked_with_reason check ((blocked_at is null) = (blocked_reason is null));

-- A trigger, so that every way of blocking ends the sessions in every process: also a statement typed by an operator.
create trigger users_blocked after update of blocked_at on users
  for each row when (old.blocked_at is null and new.blocked_at is not null) execute function revoke_sessions_of_changed_role();

-- Operators search by the beginning of an address, and page through what begins with it. By bytes: a prefix is a range only in this order.
create index users_email_bytes_id_idx on users ((email collate "C"), id);

-- Addresses that a customer keeps. Orders have their own copies.
create table customer_addresses (
  id uuid primary key,
  user_id uuid not null,
  -- As `shipping_address` of an order.
  address jsonb not null,
  is_default boolean not null default false,
  created_at timestamptz(3) not null default now(),
  constraint customer_addresses_user_exists foreign key (user_id) references users (id) on delete cascade
);
create index customer_addresses_user_id_id_idx on customer_addresses (user_id, id);
create unique index customer_addresses_one_default on customer_addresses (user_id) where is_default;

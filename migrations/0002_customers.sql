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

-- functions: a336850181d0d5cd

-- Names under which a person places no second order for some time: see src/orders/placing/repeats.ts. Rows are deleted after a day.
create table order_repeats (
  -- A keyed hash.
  name text primary key,
  user_id uuid not null,
  -- No foreign key, as in idempotency_keys.
  order_id uuid not null,
  -- The time that the newest order asked with. `place_orders` reads it as `excluded.seconds` only.
  seconds integer not null,
  created_at timestamptz(3) not null default now()
);
create index order_repeats_user_id_idx on order_repeats (user_id);
create index order_repeats_created_at_idx on order_repeats (created_at);

create sequence order_numbers start 100001;

-- One row is a whole order, so that one change-stream record is a whole order.
create table orders (
  id uuid primary key,
  number bigint not null default nextval('order_numbers'),
  -- No foreign key: an order outlives its account.
  user_id uuid not null,
  status text not null,
  -- Lines as they were when the order was placed: product_id, sku, name, unit_price, quantity, total.
  items jsonb not null,
  total_amount bigint not null,
  currency text not null,
  client_reference text,
  shipping_address jsonb,
  note text,
  -- 1, 2, 3 … one per change; the event id is `<id>.<version>`.
  version integer not null default 1,
  status_history jsonb not null,
  -- W3C Trace Context of the request that made the last change.
  traceparent text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  constraint orders_number_unique unique (number),
  constraint orders_client_reference_unique unique (user_id, client_reference),
  constraint orders_status_known check (status in ('pending', 'confirmed', 'shipped', 'delivered', 'cancelled', 'returned')),
  constraint orders_total_in_range check (total_amount between 0 and 9007199254740991),
  constraint orders_version_positive check (version >= 1)
);
alter sequence order_numbers owned by orders.number;
create index orders_user_id_created_at_id_idx on orders (user_id, created_at desc, id desc);
create index orders_user_id_status_created_at_id_idx on orders (user_id, status, created_at desc, id desc);

-- FULL, so that the record of an update carries the old row: its status, and large columns that did not change,
-- which PostgreSQL otherwise leaves out of the record. See docs/decisions/0003-replica-identity-full.md.
alter table orders replica identity full;
create publication storefront_orders for table orders;

create table idempotency_keys (
  user_id uuid not null,
  key text not null,
  -- SHA-256 of the request body, to tell a retry from another request under the same key.
  fingerprint bytea not null,
  order_id uuid not null references orders (id) on delete cascade,
  -- The answer as it was sent, byte for byte.
  response text not null,
  created_at timestamptz(3) not null default now(),
  primary key (user_id, key)
);
create index idempotency_keys_created_at_idx on idempotency_keys (created_at);
create index idempotency_keys_order_id_idx on idempotency_keys (order_id);

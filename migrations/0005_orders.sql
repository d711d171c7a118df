create sequence order_numbers start 100001;

-- One row is a whole order, so that one record of the change stream is a whole order.
create table orders (
  id uuid primary key,
  number bigint not null default nextval('order_numbers'),
  -- No foreign key: an order outlives its account.
  user_id uuid not null,
  status text not null,
  -- Lines as they were when the order was placed: product_id, sku, name, unit_price, quantity, total. As json and not jsonb: they are only
  -- read whole, and the text needs no parsing when an order is placed, listed or published.
  items json not null,
  -- The products of the lines, which searches need.
  product_ids uuid[] not null default '{}',
  total_amount bigint not null,
  currency text not null,
  client_reference text,
  shipping_address jsonb,
  note text,
  -- 1, 2, 3 … one per change; the event id is `<id>.<version>`. After a restore see 0010_incarnations.sql.
  version integer not null default 1,
  status_history jsonb not null,
  -- W3C Trace Context of the request that made the last change.
  traceparent text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  -- Null for none. As json and not jsonb, for the reasons of `items`. Without a check: only place_orders writes it.
  attributes json,
  constraint orders_number_unique unique (number),
  constraint orders_status_known check (status in ('pending', 'confirmed', 'shipped', 'delivered', 'cancelled', 'returned')),
  constraint orders_total_in_range check (total_amount between 0 and 9007199254740991),
  constraint orders_version_positive check (version >= 1)
);
alter sequence order_numbers owned by orders.number;
-- Named as a constraint, because the API's error is found by this name. An index can leave out the many orders without a reference.
create unique index orders_client_reference_unique on orders (user_id, client_reference) where client_reference is not null;
-- Lists are in the order of numbers, which increase whatever a clock does: see docs/decisions/orders-lists.md.
create index orders_user_id_number_idx on orders (user_id, number desc);
create index orders_user_id_status_number_idx on orders (user_id, status, number desc);
create index orders_status_number_idx on orders (status, number desc);
create index orders_created_at_id_idx on orders (created_at desc, id desc);
-- Which orders have a line of a product. The column's statistics tell the planner a popular product from a rare one.
create index orders_product_ids_idx on orders using gin (product_ids);
-- The orders that expire, the oldest first: a run reads none that it would skip. Those of another shop wait for that shop's payment. An
-- order that is placed has one entry, and its payment is not looked for.
create index orders_expiring_created_at_id_idx on orders (created_at, id)
  where status = 'pending' and status_history -> 0 -> 'imported' is null
    and (status_history -> 1 is null or not order_holds_money(status_history));
-- For operators, who ask for the orders of a status in a period: no other index has both.
create index orders_status_created_at_id_idx on orders (status, created_at desc, id desc);
-- FULL, so that the record of an update has the old row: its status, and large columns that did not change, which PostgreSQL otherwise
-- leaves out of the record. See docs/decisions/change-stream-slots.md#replica-identity.
alter table orders replica identity full;
create publication storefront_orders for table orders;
create trigger orders_lines_add_up before insert or update of items, total_amount, currency on orders
  for each row when (order_lines_add_up(new.items, new.total_amount, new.currency) is not true)
  execute function refuse_row();
create trigger orders_history_is_whole before insert or update of status, version, status_history on orders
  for each row when (not order_history_is_whole(new.status_history, new.version, new.status))
  execute function refuse_row();
create trigger orders_count_new_pending after insert on orders
  referencing new table as added for each statement execute function count_new_pending_orders();
create trigger orders_count_moved_pending after update on orders
  referencing old table as before new table as after for each statement execute function count_moved_pending_orders();
create trigger orders_count_deleted_pending after delete on orders
  referencing old table as removed for each statement execute function count_deleted_pending_orders();
-- PostgreSQL runs triggers in the order of their names: this one before `orders_history_is_whole`, which must see the new version.
create trigger orders_change_version before update of version on orders
  for each row when (new.version <> old.version and jsonb_typeof(new.status_history) = 'array')
  execute function order_version_of_incarnation();
-- Only where a history changes: placing an order writes its first entry, which has no change.
create trigger orders_changes_add_up before update of status_history on orders
  for each row when (
    jsonb_path_exists(new.status_history, '$[*].change')
    and order_changes_add_up(new.items, new.total_amount, new.status_history) is not true
  )
  execute function refuse_row();
create trigger orders_release_guest_holds after update on orders
  referencing new table as after for each statement execute function release_guest_holds();

create table idempotency_keys (
  user_id uuid not null,
  key text not null,
  -- SHA-256 of the request body, to tell a retry from another request with the same key.
  fingerprint bytea not null,
  -- No foreign key: orders are never deleted, and one statement writes both rows. Checking it would read every order again.
  order_id uuid not null,
  -- The answer as it was sent, byte for byte, without the number and the lines of the order: those are empty here, and in orders.
  response text not null,
  created_at timestamptz(3) not null default now(),
  primary key (user_id, key)
);
create index idempotency_keys_created_at_idx on idempotency_keys (created_at);

-- How many of a customer's orders are pending, so that placing an order can limit them without counting. Triggers keep the number, so that
-- every statement that writes orders counts.
create table pending_order_counts (
  user_id uuid primary key,
  pending integer not null
) with (fillfactor = 70);

-- What operators and keys write to each other about an order. Apart from the order, so that no note enters an event. Rows are added, and
-- deleted with the order's personal data.
create table order_notes (
  id uuid primary key,
  -- No foreign key: orders are never deleted, and every change of an order would check it.
  order_id uuid not null,
  author_type text not null,
  author_id uuid,
  text text not null,
  created_at timestamptz(3) not null default now(),
  constraint order_notes_author_known check (author_type in ('admin', 'key', 'system')),
  constraint order_notes_text_not_empty check (text <> '')
);
create index order_notes_order_id_id_idx on order_notes (order_id, id desc);

-- What pending orders of guests hold of each product, so that a share of it can be the most that one network holds, and so that these orders
-- are found when their time is over. `holder` is a keyed hash of the network. Rows live as long as their order is pending.
create table guest_holds (
  -- No foreign keys: an order is inserted in the same statement, and orders outlive products.
  order_id uuid not null,
  product_id uuid not null,
  holder text not null,
  quantity bigint not null,
  created_at timestamptz(3) not null,
  primary key (order_id, product_id),
  constraint guest_holds_quantity_positive check (quantity > 0)
);
create index guest_holds_product_id_holder_idx on guest_holds (product_id, holder);
create index guest_holds_created_at_order_id_idx on guest_holds (created_at, order_id);

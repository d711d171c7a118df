-- Figures over time, for `GET /admin/figures`. All of it can be computed again or lost: nothing else reads it. Each process of the API adds to
-- it once a minute, and placing an order touches none of it. See docs/decisions/figures.md.

-- Orders by the minute of their `created_at`: always computed from `orders`, never counted up, so that no run can count an order twice.
create table order_figures (
  minute timestamptz(0) not null,
  currency text not null,
  orders bigint not null,
  -- Minor units, of all orders that were placed, also of those that were cancelled later.
  revenue numeric not null,
  primary key (minute, currency)
);

-- The same by product, in slices of ten minutes.
create table product_figures (
  slice timestamptz(0) not null,
  product_id uuid not null,
  currency text not null,
  quantity bigint not null,
  revenue numeric not null,
  primary key (slice, product_id, currency)
);

-- Every order up to this number is in the figures, and no open transaction can add another below it.
create table figure_progress (
  is_only boolean primary key default true,
  order_number bigint not null default 0,
  collected_at timestamptz(3),
  constraint figure_progress_is_only check (is_only)
);
insert into figure_progress default values;

-- The newest order number at some moments. Transactions commit in another order than that of their numbers: the number counts as reached once
-- every transaction that was open at `at` has ended.
create table figure_checkpoints (
  at timestamptz(3) primary key,
  order_number bigint not null,
  -- Transactions from this id on began later.
  next_xid xid8 not null
);

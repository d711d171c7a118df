-- Changes with every change of `available`, so that a count can name the state that it was made of: a sale and a return between may
-- leave the same number.
alter table inventory add column version bigint not null default 1;

-- Statements that change `available` count up themselves; this does it for those that do not: the release before, and SQL by hand.
create function inventory_count_up() returns trigger
  language plpgsql as $$
begin
  new.version := old.version + 1;
  return new;
end
$$;
create trigger inventory_version before update of available on inventory
  for each row when (new.available is distinct from old.available and new.version <= old.version)
  execute function inventory_count_up();

-- Every change of stock that is no order's: orders have their own history.
create table stock_adjustments (
  -- The stock row and not the product: the transaction that changes stock has locked it, so that this check waits for nobody.
  product_id uuid not null references inventory (product_id) on delete cascade,
  -- That of the stock row after the change: the order of a product's adjustments, whatever their clocks say.
  version bigint not null,
  kind text not null,
  -- Null means that stock is not tracked.
  available_before bigint,
  available_after bigint,
  delta bigint generated always as (available_after - available_before) stored,
  reference text,
  reason text,
  actor_type text not null,
  -- No foreign key: the account may be deleted, what it did stays.
  actor_id uuid,
  created_at timestamptz(3) not null default now(),
  primary key (product_id, version),
  constraint stock_adjustments_kind_known check (kind in ('created', 'count', 'adjustment', 'import')),
  constraint stock_adjustments_actor_known check (actor_type in ('admin', 'system')),
  constraint stock_adjustments_is_a_change check (available_before is distinct from available_after),
  constraint stock_adjustments_not_negative check (available_before >= 0 and available_after >= 0)
);

-- A delivery is booked once, however often it is sent. A count may be repeated under the name of its list.
create unique index stock_adjustments_product_id_reference_idx on stock_adjustments (product_id, reference)
  where reference is not null and kind <> 'count';

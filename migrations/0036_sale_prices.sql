-- functions: f68dd9f43231097f
-- See docs/decisions/catalogue-schedules.md.
alter table products
  -- What a product costs in a currency between two times, either of which may be missing: [{"amount", "currency", "from", "until"}].
  add column sale_prices jsonb not null default '[]',
  -- The prices beside the sales that are on, by currency, as in prices. Written by the trigger below.
  add column regular_prices jsonb;

create or replace trigger products_apply_schedule
  before insert or update of
    status, published_at, unpublished_at, archived_at, changes_at,
    price_amount, price_currency, compare_at_amount, prices, sale_prices, regular_prices
  on products
  for each row when (
    new.status <> 'active' or new.published_at is not null or new.unpublished_at is not null
    or new.sale_prices <> '[]' or new.regular_prices is not null
  )
  execute function products_apply_schedule();

-- The columns of products_apply_schedule, which writes prices in a statement that names none: a sale begins or ends. See
-- docs/decisions/catalogue-schedules.md#sales.
create or replace trigger products_change_lowest_price
  before update of
    status, published_at, unpublished_at, archived_at, changes_at,
    price_amount, price_currency, compare_at_amount, prices, sale_prices, regular_prices
  on products
  for each row when (
    (new.compare_at_amount is not null or old.lowest_prior_amounts is not null or new.prices @? '$.*.compare_at')
    and (old.price_amount, old.price_currency, old.compare_at_amount, old.prices)
      is distinct from (new.price_amount, new.price_currency, new.compare_at_amount, new.prices)
  )
  execute function products_set_lowest_price();

-- functions: 9dd25d168817239f

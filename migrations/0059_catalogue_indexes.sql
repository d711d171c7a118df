-- no transaction
-- The indexes of the catalogue since 0032, built while the shop sells.

-- Products without attributes have no entry.
create index concurrently if not exists products_attribute_terms_idx on products using gin (attribute_terms(attributes))
  where archived_at is null and attributes <> '{}';

create index concurrently if not exists products_brand_created_at_id_idx on products (brand, created_at, id)
  where archived_at is null and brand is not null;

create index concurrently if not exists products_translated_search_idx on products using gin (translated_search)
  where translated_search is not null;

-- Lists by price in one currency walk it, and product_prices.
create index concurrently if not exists products_currency_price_id_idx on products (price_currency, price_amount, id)
  where archived_at is null;

-- The statistics of 0034 and 0039: otherwise every search expects translations until something analyzes the table.
analyze products;

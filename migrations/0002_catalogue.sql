create table products (
  id uuid primary key,
  sku text not null,
  name text not null,
  description text not null default '',
  category text not null,
  image_url text,
  -- Minor units of the currency (ISO 4217), below 2^53 so that JSON carries it exactly.
  price_amount bigint not null,
  price_currency text not null,
  -- Written only when stock reaches or leaves zero, so that selling does not rewrite the catalogue.
  in_stock boolean not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  search tsvector not null generated always as (
    to_tsvector('simple', sku || ' ' || name || ' ' || category || ' ' || description)
  ) stored,
  constraint products_sku_unique unique (sku),
  constraint products_price_in_range check (price_amount between 0 and 9007199254740991),
  constraint products_currency_iso check (price_currency ~ '^[A-Z]{3}$')
);
create index products_created_at_id_idx on products (created_at, id);
create index products_name_id_idx on products (name collate "C", id);
create index products_price_id_idx on products (price_amount, id);
create index products_category_created_at_id_idx on products (category, created_at, id);
create index products_search_idx on products using gin (search);

-- Apart from products: this is the row that every sale locks and writes.
create table inventory (
  product_id uuid primary key references products (id) on delete cascade,
  -- Null means that stock is not tracked and the product can always be bought.
  available bigint,
  constraint inventory_available_not_negative check (available >= 0)
) with (fillfactor = 70);

-- Trigram similarity, for searches with a typing error. A trusted extension of PostgreSQL's own contrib.
create extension if not exists pg_trgm;

create table products (
  id uuid primary key,
  sku text not null,
  name text not null,
  description text not null default '',
  category text not null,
  image_url text,
  -- Minor units of the currency (ISO 4217), below 2^53 so that JSON carries the number exactly.
  price_amount bigint not null,
  price_currency text not null,
  -- Written only when stock reaches or leaves zero, so that selling does not rewrite the catalogue.
  in_stock boolean not null,
  -- Products with the same group are variants of one thing, told apart by their options. A free text: the group has no row.
  variant_group text,
  options jsonb not null default '{}',
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  -- An archived product is in no list and cannot be ordered; orders keep their own copy of it.
  archived_at timestamptz(3),
  -- Written by a trigger. See docs/decisions/catalogue-search.md#brands.
  search tsvector not null,
  -- A few facts that the shop's own programs keep with a product; bounded by the API (src/attributes.ts). No part of the search.
  attributes jsonb not null default '{}',
  brand text,
  -- The price before a reduction, in the currency of the price. It is shown only above the price.
  compare_at_amount bigint,
  -- The texts of a product in other languages, by BCP 47 tag: {"de": {"name", "description", "seo_title", "seo_description",
  -- "availability_text"}}. A text that is missing is the product's own. See docs/decisions/catalogue-translations.md.
  translations jsonb not null default '{}',
  -- The words of `search` and those of the translations; null without translations.
  translated_search tsvector,
  -- The prices of a product in other currencies than that of its own price: {"USD": {"amount": 1999, "compare_at": 2499}}, minor units.
  -- See docs/decisions/catalogue-prices.md#prices-per-currency.
  prices jsonb not null default '{}',
  -- The lowest price of the 30 days before each reduction that a product has now began (Directive 98/6/EC, Article 6a): {"EUR": 1490}, minor
  -- units by currency. A currency is missing if its price is not reduced, or no earlier one is known; null: all are.
  -- See docs/decisions/catalogue-prices.md.
  lowest_prior_amounts jsonb,
  constraint products_sku_unique unique (sku),
  constraint products_price_in_range check (price_amount between 0 and 9007199254740991),
  constraint products_currency_iso check (price_currency ~ '^[A-Z]{3}$'),
  constraint products_variant_group_not_empty check (variant_group <> ''),
  constraint products_options_object check (jsonb_typeof(options) = 'object'),
  constraint products_attributes_object check (jsonb_typeof(attributes) = 'object'),
  constraint products_brand_not_empty check (brand <> ''),
  constraint products_compare_at_in_range check (compare_at_amount between 1 and 9007199254740991),
  constraint products_translations_object check (jsonb_typeof(translations) = 'object'),
  constraint products_prices_object check (jsonb_typeof(prices) = 'object'),
  constraint products_lowest_prior_object check (jsonb_typeof(lowest_prior_amounts) = 'object')
);
-- The planner chooses between walking a sort and the GIN index by how frequent a word is: it needs statistics of many words.
alter table products alter column search set statistics 400;
alter table products alter column translated_search set statistics 400;
-- One index for each sort, alone and within a category; lists never show archived products.
create index products_created_at_id_idx on products (created_at, id) where archived_at is null;
create index products_name_id_idx on products (name collate "C", id) where archived_at is null;
create index products_price_id_idx on products (price_amount, id) where archived_at is null;
create index products_category_created_at_id_idx on products (category, created_at, id) where archived_at is null;
create index products_category_name_id_idx on products (category, name collate "C", id) where archived_at is null;
create index products_category_price_id_idx on products (category, price_amount, id) where archived_at is null;
create index products_variant_group_idx on products (variant_group) where archived_at is null and variant_group is not null;
create index products_search_idx on products using gin (search);


-- Products without attributes have no entry.
create index products_attribute_terms_idx on products using gin (attribute_terms(attributes))
  where archived_at is null and attributes <> '{}';
create index products_brand_created_at_id_idx on products (brand, created_at, id)
  where archived_at is null and brand is not null;
create index products_translated_search_idx on products using gin (translated_search)
  where translated_search is not null;
-- Lists by price in one currency walk it, and product_prices.
create index products_currency_price_id_idx on products (price_currency, price_amount, id)
  where archived_at is null;
-- Indexes for reads and deletions that walked a whole table to find a few rows.

-- The products that are, or are not, in stock where these are few.
create index products_in_stock_created_at_id_idx on products (in_stock, created_at, id) where archived_at is null;
-- How frequent each term is, by which the planner chooses between the index and walking a sort: it does not read that of a partial index.
create statistics products_attribute_terms_statistics on (attribute_terms(attributes)) from products;
alter statistics products_attribute_terms_statistics set statistics 400;
create trigger products_insert_words after insert on products
  referencing new table as changed
  for each statement execute function products_collect_words();
create trigger products_update_words after update on products
  referencing old table as before new table as changed
  for each statement execute function products_collect_words();
create trigger products_note_insert after insert on products
  referencing new table as changed
  for each statement execute function products_note_change();
create trigger products_note_update after update on products
  referencing new table as changed
  for each statement execute function products_note_change();
create trigger products_note_delete after delete on products
  referencing old table as changed
  for each statement execute function products_note_change();
create trigger products_insert_slugs after insert on products
  referencing new table as changed
  for each statement execute function products_give_slugs();
create trigger products_insert_category after insert on products
  referencing new table as changed
  for each statement execute function products_give_category();
create trigger products_update_category after update on products
  for each row
  when (
    (old.category, old.name, old.price_amount, old.created_at, old.archived_at is null)
      is distinct from (new.category, new.name, new.price_amount, new.created_at, new.archived_at is null)
  )
  execute function products_update_category();
create trigger products_insert_search before insert on products
  for each row execute function products_set_words();
create trigger products_update_search before update of name, category, options, brand, sku, description on products
  for each row execute function products_set_words();
create trigger products_insert_translated_words before insert on products
  for each row when (new.translations <> '{}') execute function products_translate_words();
create trigger products_update_translated_words before update of name, category, options, brand, sku, description, translations on products
  for each row when (new.translations <> '{}' or old.translations <> '{}') execute function products_translate_words();
create trigger products_insert_languages after insert on products
  referencing new table as changed
  for each statement execute function products_count_languages();
create trigger products_update_languages after update on products
  referencing old table as before new table as changed
  for each statement execute function products_count_languages();
create trigger products_delete_languages after delete on products
  referencing old table as changed
  for each statement execute function products_count_languages();
create trigger products_insert_prices after insert on products
  referencing new table as changed
  for each statement execute function products_index_prices();
create trigger products_update_prices after update on products
  referencing old table as before new table as changed
  for each statement execute function products_index_prices();
-- The first conditions are all that products pay for that are not reduced.
create trigger products_change_lowest_price before update of price_amount, price_currency, compare_at_amount, prices on products
  for each row when (
    (new.compare_at_amount is not null or old.lowest_prior_amounts is not null or new.prices @? '$.*.compare_at')
    and (old.price_amount, old.price_currency, old.compare_at_amount, old.prices)
      is distinct from (new.price_amount, new.price_currency, new.compare_at_amount, new.prices)
  )
  execute function products_set_lowest_price();

-- Every word that a product has or had, to find what a mistyped word may have meant. Words without a product do no harm.
create table search_words (
  word text collate "C" primary key
);
create index search_words_spelling_trgm_idx on search_words using gin (search_spelling(word) gin_trgm_ops);

-- How often the catalogue has changed: the sum over all rows. A transaction counts in the row of its connection, so that concurrent
-- changes of the catalogue seldom wait for each other. See docs/decisions/catalogue-version.md#the-version.
create table catalogue_versions (
  shard smallint primary key,
  changes bigint not null default 0,
  changed_at timestamptz(3) not null default now()
) with (fillfactor = 50);
insert into catalogue_versions (shard) select generate_series(0, 31);

-- What a cache in front of the store has to purge. Written in the transaction of the change, deleted once a job for it exists.
create table catalogue_changes (
  id bigint generated always as identity primary key,
  -- Null: too many to name.
  product_ids uuid[]
);

-- Apart from products: this is the row that every sale locks and writes.
create table inventory (
  product_id uuid primary key references products (id) on delete cascade,
  -- Null means that stock is not tracked and the product can always be bought.
  available bigint,
  -- Increases with every change of `available`, so that a stocktake can name the state that was counted: a sale and a return in between may
  -- leave the same number.
  version bigint not null default 1,
  -- The level of the last event, and the pieces to the next, kept when stock is set, so that an order only compares. Null: only leaving and
  -- reaching zero are events.
  event_level bigint,
  event_step bigint,
  constraint inventory_available_not_negative check (available >= 0),
  constraint inventory_event_step_positive check (event_step > 0)
) with (fillfactor = 70);
create trigger inventory_version before update of available on inventory
  for each row when (new.available is distinct from old.available and new.version <= old.version)
  execute function inventory_count_up();
-- The conditions are all that orders pay for: the function runs when there is an event. Triggers run in the order of their names: this one
-- after inventory_version, which counts the version.
create trigger inventory_version_event before update of available on inventory
  for each row when (
    (old.available is not distinct from 0) <> (new.available is not distinct from 0)
    or abs(new.available - new.event_level) >= new.event_step
  )
  execute function inventory_record_event();
create trigger inventory_record_insert after insert on inventory
  for each row when (new.available = 0)
  execute function inventory_record_event();

-- Every change of stock that no order made: orders have their own history.
create table stock_adjustments (
  -- References the stock row and not the product: the transaction that changes stock has locked it, so the check waits for no other.
  product_id uuid not null references inventory (product_id) on delete cascade,
  -- That of the stock row after the change: the order of a product's adjustments, whatever the clocks say.
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
  constraint stock_adjustments_actor_known check (actor_type in ('admin', 'key', 'system')),
  constraint stock_adjustments_is_a_change check (available_before is distinct from available_after),
  constraint stock_adjustments_not_negative check (available_before >= 0 and available_after >= 0)
);
-- A delivery of goods is booked once, however often it is sent. A count may be repeated under the name of its list.
create unique index stock_adjustments_product_id_reference_idx on stock_adjustments (product_id, reference)
  where reference is not null and kind <> 'count';

-- What only the page of a product shows. Products without any of it have no row, so lists and orders read no more than before.
create table product_pages (
  product_id uuid primary key references products (id) on delete cascade,
  -- [{url, alt, width, height}]. products.image_url is the first one's URL.
  images jsonb not null default '[]',
  seo_title text,
  seo_description text,
  availability_text text,
  constraint product_pages_images_array check (jsonb_typeof(images) = 'array')
);

-- The addresses of products' pages, also those of the past: no address silently becomes another product's. See
-- docs/decisions/catalogue-slugs.md.
create table product_slugs (
  slug text collate "C" constraint product_slugs_slug_unique primary key,
  product_id uuid not null,
  -- When another slug took its place; null for the one of now.
  retired_at timestamptz(3),
  constraint product_slugs_product_id_fkey foreign key (product_id) references products (id) on delete cascade
);
-- `include`: lists read the slug from the index alone.
create unique index product_slugs_product_id_idx on product_slugs (product_id) include (slug) where retired_at is null;
create index product_slugs_product_id_retired_at_idx on product_slugs (product_id, retired_at) where retired_at is not null;

-- What happened to products, prices and stock: a row is one event. Rows are only added, by the functions of src/catalogue/sql/events.sql, in the
-- transaction of the change; old ones are removed by remove_old_product_events. See docs/decisions/catalogue-events.md.
create table product_events (
  product_id uuid not null,
  -- Each has versions of its own: those of stock are the versions of its row in inventory, but for restores.
  stream text not null,
  version bigint not null,
  type text not null,
  occurred_at timestamptz(3) not null,
  -- Of the request that made the change, for tracing.
  traceparent text,
  -- Of a product event the whole product. As json and not jsonb: subscribers get the text that was recorded.
  data json not null,
  -- No foreign key: a product that is deleted by hand keeps its past.
  primary key (product_id, stream, version),
  constraint product_events_stream_known check (stream in ('product', 'stock')),
  constraint product_events_version_positive check (version > 0)
);
-- The prices of a product over time.
create index product_events_product_id_occurred_at_idx on product_events (product_id, occurred_at)
  where type in ('product.created', 'price.changed');
-- For the removal of old events. Rows are added in the order of time, so it has a few entries for a million of them.
create index product_events_occurred_at_idx on product_events using brin (occurred_at) with (pages_per_range = 32);
-- Read by a slot of its own, so that an import never holds up the events of orders. See
-- docs/decisions/catalogue-events.md.
create publication storefront_catalogue for table product_events with (publish = 'insert');

-- Where the recording of products that were there before their events has arrived; no row when it has ended. A migration after which
-- product_snapshots has other content for existing products inserts the row again.
create table product_event_backfill (
  -- Products above this id are still to be recorded.
  last_id uuid not null
);

-- The settings of stock events, which the program writes at its start.
create table stock_event_settings (
  -- An event each time that a level has fallen or risen by this part of the level that was set; 0 for none.
  percent smallint not null,
  constraint stock_event_settings_percent_in_range check (percent between 0 and 100)
);
insert into stock_event_settings (percent) values (0);

-- Categories in a tree. The text in products.category stays: it is the name of a product's first category. See
-- docs/decisions/catalogue-categories.md.
create table categories (
  id uuid primary key,
  parent_id uuid references categories (id),
  slug text collate "C" not null,
  name text collate "C" not null,
  -- The place among its siblings; null: after those that have one, by name.
  position integer,
  -- Since when products may still have the former name as their text, or events with the former slug; null: none has.
  renamed_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  constraint categories_slug_unique unique (slug),
  constraint categories_name_unique unique nulls not distinct (parent_id, name),
  constraint categories_position_not_negative check (position >= 0)
);
create index categories_parent_id_idx on categories (parent_id) where parent_id is not null;
create index categories_name_idx on categories (name);
create index categories_renamed_at_idx on categories (renamed_at) where renamed_at is not null;
create trigger categories_insert_tree before insert on categories
  for each row when (new.parent_id is not null) execute function categories_check_tree();
create trigger categories_update_tree before update of parent_id on categories
  for each row when (new.parent_id is not null and new.parent_id is distinct from old.parent_id) execute function categories_check_tree();
create trigger categories_note_insert after insert on categories
  referencing new table as changed
  for each statement execute function categories_note_change();
create trigger categories_note_update after update on categories
  referencing old table as before new table as changed
  for each statement execute function categories_note_change();
create trigger categories_note_delete after delete on categories
  referencing old table as changed
  for each statement execute function categories_note_change();

-- The categories of each product. Rows repeat what lists are sorted by, so that a page of a category is one short scan of an index.
create table product_categories (
  product_id uuid not null references products (id) on delete cascade,
  category_id uuid not null references categories (id),
  -- 0 for the first one, whose name is products.category.
  position smallint not null,
  -- Whether the product is not archived.
  is_listed boolean not null,
  price_amount bigint not null,
  created_at timestamptz(3) not null,
  name text collate "C" not null,
  primary key (product_id, category_id)
);
create index product_categories_created_at_idx on product_categories (category_id, created_at, product_id) where is_listed;
create index product_categories_name_idx on product_categories (category_id, name, product_id) where is_listed;
create index product_categories_price_idx on product_categories (category_id, price_amount, product_id) where is_listed;

-- How many sold products have texts in a language: the languages that a request can be answered in, known without reading products.
create table catalogue_languages (
  language text primary key,
  products bigint not null
);

-- Lists by price in one currency walk products_currency_price_id_idx and this one, the other prices of sold products. A trigger keeps the table.
create table product_prices (
  product_id uuid not null references products (id) on delete cascade,
  currency text not null,
  amount bigint not null,
  primary key (product_id, currency),
  constraint product_prices_currency_iso check (currency ~ '^[A-Z]{3}$'),
  constraint product_prices_amount_in_range check (amount between 0 and 9007199254740991)
);
create index product_prices_currency_amount_product_id_idx on product_prices (currency, amount, product_id);

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
  search tsvector not null generated always as (
    setweight(catalogue_words(name), 'A')
      || setweight(catalogue_words(case when options = '{}' then category else category || ' ' || search_option_words(options) end), 'B')
      || setweight(catalogue_words(sku), 'C')
      || setweight(catalogue_words(description), 'D')
  ) stored,
  constraint products_sku_unique unique (sku),
  constraint products_price_in_range check (price_amount between 0 and 9007199254740991),
  constraint products_currency_iso check (price_currency ~ '^[A-Z]{3}$'),
  constraint products_variant_group_not_empty check (variant_group <> ''),
  constraint products_options_object check (jsonb_typeof(options) = 'object')
);
-- The planner chooses between walking a sort and the GIN index by how frequent a word is: it needs statistics of many words.
alter table products alter column search set statistics 400;

-- One index for each sort, alone and within a category; lists never show archived products.
create index products_created_at_id_idx on products (created_at, id) where archived_at is null;
create index products_name_id_idx on products (name collate "C", id) where archived_at is null;
create index products_price_id_idx on products (price_amount, id) where archived_at is null;
create index products_category_created_at_id_idx on products (category, created_at, id) where archived_at is null;
create index products_category_name_id_idx on products (category, name collate "C", id) where archived_at is null;
create index products_category_price_id_idx on products (category, price_amount, id) where archived_at is null;
create index products_variant_group_idx on products (variant_group) where archived_at is null and variant_group is not null;
create index products_search_idx on products using gin (search);

-- Every word that a product has or had, to find what a mistyped word may have meant. Words without a product do no harm.
create table search_words (
  word text collate "C" primary key
);
create index search_words_spelling_trgm_idx on search_words using gin (search_spelling(word) gin_trgm_ops);

create function products_collect_words() returns trigger
  language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    insert into search_words (word)
    select distinct entry.lexeme
    from changed
    cross join unnest(ts_filter(changed.search, '{a,b,d}')) as entry
    where length(entry.lexeme) between 3 and 40 and entry.lexeme !~ '[0-9]'
    -- In one order, so that two imports with the same new words wait for each other in one direction.
    order by 1
    on conflict do nothing;
  else
    insert into search_words (word)
    select distinct entry.lexeme
    from changed
    join before on before.id = changed.id and before.search is distinct from changed.search
    cross join unnest(ts_filter(changed.search, '{a,b,d}')) as entry
    where length(entry.lexeme) between 3 and 40 and entry.lexeme !~ '[0-9]'
    order by 1
    on conflict do nothing;
  end if;
  return null;
end
$$;

create trigger products_insert_words after insert on products
  referencing new table as changed
  for each statement execute function products_collect_words();
create trigger products_update_words after update on products
  referencing old table as before new table as changed
  for each statement execute function products_collect_words();

-- How often the catalogue has changed: the sum over all rows. A transaction counts in the row of its connection, so that concurrent
-- changes of the catalogue seldom wait for each other. See docs/decisions/0020-catalogue-version.md.
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

create function products_note_change() returns trigger
  language plpgsql as $$
declare
  most constant integer := 200;
  ids uuid[];
begin
  select array_agg(id) into ids from (select id from changed limit most + 1) as named;
  if ids is null then
    return null;
  end if;
  update catalogue_versions
  set changes = changes + 1, changed_at = clock_timestamp()
  where shard = pg_backend_pid() % 32;
  insert into catalogue_changes (product_ids) values (case when cardinality(ids) <= most then ids end);
  perform pg_notify('storefront_catalogue', '');
  return null;
end
$$;

create trigger products_note_insert after insert on products
  referencing new table as changed
  for each statement execute function products_note_change();
create trigger products_note_update after update on products
  referencing new table as changed
  for each statement execute function products_note_change();
create trigger products_note_delete after delete on products
  referencing old table as changed
  for each statement execute function products_note_change();

-- Apart from products: this is the row that every sale locks and writes.
create table inventory (
  product_id uuid primary key references products (id) on delete cascade,
  -- Null means that stock is not tracked and the product can always be bought.
  available bigint,
  -- Increases with every change of `available`, so that a stocktake can name the state that was counted: a sale and a return in between may
  -- leave the same number.
  version bigint not null default 1,
  constraint inventory_available_not_negative check (available >= 0)
) with (fillfactor = 70);

-- The program's statements that change `available` increase the version themselves; this does it for SQL that an operator types.
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
  constraint stock_adjustments_actor_known check (actor_type in ('admin', 'system')),
  constraint stock_adjustments_is_a_change check (available_before is distinct from available_after),
  constraint stock_adjustments_not_negative check (available_before >= 0 and available_after >= 0)
);

-- A delivery of goods is booked once, however often it is sent. A count may be repeated under the name of its list.
create unique index stock_adjustments_product_id_reference_idx on stock_adjustments (product_id, reference)
  where reference is not null and kind <> 'count';

-- Trigram similarity, for searches with a typing error. A trusted extension of PostgreSQL's own contrib.
create extension if not exists pg_trgm;

alter table products
  -- Products with the same group are variants of one thing, told apart by their options. A free text: the group has no row.
  add column variant_group text,
  add column options jsonb not null default '{}',
  -- An archived product is in no list and cannot be ordered; orders keep their own copy of it.
  add column archived_at timestamptz(3),
  add constraint products_variant_group_not_empty check (variant_group <> ''),
  add constraint products_options_object check (jsonb_typeof(options) = 'object');

-- The words of a text. ASCII punctuation separates, so that a sku such as MUG-1 is found by its parts and no token is a URL or
-- a negative number; searches are cut in the same way (search-words.ts).
create function catalogue_words(text) returns tsvector
  language sql immutable strict parallel safe
  return to_tsvector('simple'::regconfig, translate($1, '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~', repeat(' ', 32)));

-- The same name and type as before: the release before this one goes on working.
alter table products drop column search;
alter table products add column search tsvector not null generated always as (
  setweight(catalogue_words(name), 'A')
    || setweight(catalogue_words(category) || jsonb_to_tsvector('simple'::regconfig, options, '["string"]'), 'B')
    || setweight(catalogue_words(sku), 'C')
    || setweight(catalogue_words(description), 'D')
) stored;
-- The planner must know frequent words from rare ones: it chooses between walking a sort and asking the GIN index by them.
alter table products alter column search set statistics 400;

-- One index for each sort, alone and within a category; lists never show archived products.
drop index products_created_at_id_idx, products_name_id_idx, products_price_id_idx, products_category_created_at_id_idx;
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
create index search_words_word_trgm_idx on search_words using gin (word gin_trgm_ops);

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

insert into search_words (word)
select distinct entry.lexeme
from products
cross join unnest(ts_filter(products.search, '{a,b,d}')) as entry
where length(entry.lexeme) between 3 and 40 and entry.lexeme !~ '[0-9]';

-- Categories in a tree. The text in products.category stays: it is the name of a product's first category. 0058 gives every text of the
-- existing products a category of its own. See docs/decisions/0281.

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

-- The tree has no cycle and at most ten levels, also when two moves run at once: each is valid alone, so they take turns.
create function categories_check_tree() returns trigger
  language plpgsql as $$
declare
  most constant integer := 10;
  above integer;
  below integer;
begin
  perform pg_advisory_xact_lock(hashtextextended('storefront categories', 0));
  with recursive ancestor as (
    select new.parent_id as id, 1 as level
    union all
    select category.parent_id, ancestor.level + 1
    from ancestor
    join categories as category on category.id = ancestor.id
    where category.parent_id is not null and ancestor.id <> new.id and ancestor.level <= most
  )
  select max(level) into above from ancestor having not bool_or(id = new.id);
  if above is null then
    raise exception 'a category cannot be below itself' using errcode = 'check_violation', constraint = 'categories_no_cycle';
  end if;
  with recursive descendant as (
    select new.id as id, 1 as level
    union all
    select category.id, descendant.level + 1
    from descendant
    join categories as category on category.parent_id = descendant.id
    where descendant.level <= most
  )
  select max(level) into below from descendant;
  if above + below > most then
    raise exception 'the tree has % levels at most', most using errcode = 'check_violation', constraint = 'categories_depth_in_range';
  end if;
  return new;
end
$$;
create trigger categories_insert_tree before insert on categories
  for each row when (new.parent_id is not null) execute function categories_check_tree();
create trigger categories_update_tree before update of parent_id on categories
  for each row when (new.parent_id is not null and new.parent_id is distinct from old.parent_id) execute function categories_check_tree();

-- The category of this name below a parent, null for none; created if it is missing. A slug that is taken gets that of the parent, then a
-- part of the id.
create function category_below(parent uuid, wanted text) returns uuid
  language plpgsql as $$
declare
  found_id uuid;
  made constant uuid := gen_random_uuid();
begin
  for attempt in 1..4 loop
    select id into found_id from categories where parent_id is not distinct from parent and name = wanted;
    if found then
      return found_id;
    end if;
    insert into categories (id, parent_id, name, slug)
    select made, parent, wanted, candidate
    from slug_candidate(wanted, (select slug from categories where id = parent), made, attempt) as candidate
    where candidate is not null
    on conflict do nothing;
    if found then
      return made;
    end if;
  end loop;
  raise exception 'the category % could not be created', wanted;
end
$$;

-- The category that a text in products.category means: the root of that name, else the oldest of that name, else a new root.
create function category_of_name(wanted text) returns uuid
  language plpgsql as $$
declare
  found_id uuid;
begin
  -- Locked: after a rename that is in progress it is no longer the one.
  select id into found_id from categories where name = wanted order by parent_id is not null, created_at, id limit 1 for key share;
  return coalesce(found_id, category_below(null, wanted));
end
$$;

-- The categories above one and itself, from the root.
create function category_path(wanted uuid) returns json
  language sql stable as $$
  with recursive ancestor as (
    select id, parent_id, slug, name, 1 as level from categories where id = wanted
    union all
    select category.id, category.parent_id, category.slug, category.name, ancestor.level + 1
    from ancestor
    join categories as category on category.id = ancestor.parent_id
    where ancestor.level < 20
  )
  select coalesce(json_agg(json_build_object('id', id, 'slug', slug, 'name', name) order by level desc), '[]') from ancestor
$$;

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

-- Products that were inserted are in the category of their text.
create function products_give_category() returns trigger
  language plpgsql
  -- A plan that was made while the table was small must not read the whole table later.
  set enable_seqscan = off
as $$
begin
  with text as materialized (
    -- In one order, so that two imports with the same new categories wait for each other in one direction.
    select category, category_of_name(category) as id from (select distinct category from changed order by category) as sorted
  )
  insert into product_categories (product_id, category_id, position, is_listed, price_amount, created_at, name)
  select changed.id, text.id, 0, changed.archived_at is null, changed.price_amount, changed.created_at, changed.name
  from changed
  join text on text.category = changed.category;
  return null;
end
$$;
create trigger products_insert_category after insert on products
  referencing new table as changed
  for each statement execute function products_give_category();

-- A text that is not the name of the first category replaces the first category, also when the release before has written it.
create function products_update_category() returns trigger
  language plpgsql
  set enable_seqscan = off
as $$
declare
  first uuid;
begin
  if new.category is distinct from old.category or old.archived_at is not null then
    select category.id into first
    from product_categories as member
    join categories as category on category.id = member.category_id
    where member.product_id = new.id and member.position = 0 and category.name = new.category;
    if not found then
      first := category_of_name(new.category);
      delete from product_categories where product_id = new.id and (position = 0 or category_id = first);
      insert into product_categories (product_id, category_id, position, is_listed, price_amount, created_at, name)
      values (new.id, first, 0, new.archived_at is null, new.price_amount, new.created_at, new.name);
    end if;
  end if;
  update product_categories
  set is_listed = new.archived_at is null, price_amount = new.price_amount, created_at = new.created_at, name = new.name
  where product_id = new.id
    and (is_listed, price_amount, created_at, name) is distinct from (new.archived_at is null, new.price_amount, new.created_at, new.name);
  return null;
end
$$;
create trigger products_update_category after update on products
  for each row
  when (
    (old.category, old.name, old.price_amount, old.created_at, old.archived_at is null)
      is distinct from (new.category, new.name, new.price_amount, new.created_at, new.archived_at is null)
  )
  execute function products_update_category();

-- Counts a change in the row of this connection, or in one that no other transaction has. A transaction that waited for a row here while it has
-- locked products or categories could deadlock with the one that has the row and needs those.
create function catalogue_count_change() returns void
  language plpgsql as $$
declare
  own constant smallint := pg_backend_pid() % 32;
  free smallint;
begin
  select shard into free from catalogue_versions where shard = own for no key update skip locked;
  if not found then
    select shard into free from catalogue_versions order by shard limit 1 for no key update skip locked;
  end if;
  update catalogue_versions set changes = changes + 1, changed_at = clock_timestamp() where shard = coalesce(free, own);
end
$$;

-- As in 0003, without waiting.
create or replace function products_note_change() returns trigger
  language plpgsql as $$
declare
  most constant integer := 200;
  ids uuid[];
begin
  select array_agg(id) into ids from (select id from changed limit most + 1) as named;
  if ids is null then
    return null;
  end if;
  perform catalogue_count_change();
  insert into catalogue_changes (product_ids) values (case when cardinality(ids) <= most then ids end);
  perform pg_notify('storefront_catalogue', '');
  return null;
end
$$;

-- A change of the tree is one of the catalogue. Pages of products show the names and addresses above them; all else is in lists only.
create function categories_note_change() returns trigger
  language plpgsql as $$
declare
  ids uuid[] := '{}';
begin
  if not exists (select from changed) then
    return null;
  end if;
  if tg_op = 'UPDATE' then
    if exists (
      select from changed
      join before on before.id = changed.id
      where (before.parent_id, before.slug, before.name) is distinct from (changed.parent_id, changed.slug, changed.name)
    ) then
      ids := null;
    end if;
  end if;
  perform catalogue_count_change();
  insert into catalogue_changes (product_ids) values (ids);
  perform pg_notify('storefront_catalogue', '');
  return null;
end
$$;
create trigger categories_note_insert after insert on categories
  referencing new table as changed
  for each statement execute function categories_note_change();
create trigger categories_note_update after update on categories
  referencing old table as before new table as changed
  for each statement execute function categories_note_change();
create trigger categories_note_delete after delete on categories
  referencing old table as changed
  for each statement execute function categories_note_change();

-- Products that have events get one with their categories.
insert into product_event_backfill (last_id)
select '00000000-0000-0000-0000-000000000000'
where exists (select from products) and not exists (select from product_event_backfill);

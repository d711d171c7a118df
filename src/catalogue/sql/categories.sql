-- Verifies that the tree has no cycle and at most ten levels. Two moves take turns, because each may be valid alone.
create or replace function categories_check_tree() returns trigger
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

-- Finds the category of this name below a parent (null: a root), or creates it. A taken slug gets the slug of the
-- parent, then a part of the id.
create or replace function category_below(parent uuid, wanted text) returns uuid
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

-- Finds the category that a text in products.category means: the root of that name, else the oldest of that name, else
-- a new root.
create or replace function category_of_name(wanted text) returns uuid
  language plpgsql as $$
declare
  found_id uuid;
begin
  -- The row is locked, because a rename in progress could give the category another name.
  select id into found_id from categories where name = wanted order by parent_id is not null, created_at, id limit 1 for key share;
  return coalesce(found_id, category_below(null, wanted));
end
$$;

-- Returns a category and all above it, from the root.
create or replace function category_path(wanted uuid) returns json
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

-- Puts inserted products into the category of their text.
create or replace function products_give_category() returns trigger
  language plpgsql
  -- A plan from a time when the table was small must not read the whole table later.
  set enable_seqscan = off
as $$
begin
  with text as materialized (
    -- The order prevents a deadlock of two imports with the same new categories.
    select category, category_of_name(category) as id from (select distinct category from changed order by category) as sorted
  )
  insert into product_categories (product_id, category_id, position, is_listed, price_amount, created_at, name)
  select changed.id, text.id, 0, changed.archived_at is null, changed.price_amount, changed.created_at, changed.name
  from changed
  join text on text.category = changed.category;
  return null;
end
$$;

-- A text that is not the name of the first category replaces the first category.
create or replace function products_update_category() returns trigger
  language plpgsql
  set enable_seqscan = off
as $$
declare
  first uuid;
begin
  if new.category is distinct from old.category or (old.archived_at is not null and not old.is_withheld) then
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
  -- A rename passes over products that are not in the shop: it reaches this one now.
  if old.is_withheld and new.archived_at is null then
    update categories
    set renamed_at = clock_timestamp()
    from product_categories as member
    where member.product_id = new.id and member.position = 0 and categories.id = member.category_id and categories.name <> new.category;
  end if;
  return null;
end
$$;

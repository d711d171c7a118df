-- Counts a change in the row of this connection, or in a row that no other transaction has locked. Waiting for a row
-- here could deadlock, because this transaction may have locked products or categories that the other one needs.
create or replace function catalogue_count_change() returns void
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

create or replace function products_note_change() returns trigger
  language plpgsql as $$
declare
  most constant integer := 200;
  ids uuid[];
  groups text[];
begin
  select array_agg(id) into ids from (select id from changed limit most + 1) as named;
  if ids is null then
    return null;
  end if;
  perform catalogue_count_change();
  if cardinality(ids) <= most then
    groups := array(select distinct variant_group from changed where variant_group is not null);
    if tg_op = 'UPDATE' then
      -- These include the groups that the products have left.
      groups := array(
        select unnest(groups) union select variant_group from before where variant_group is not null
      );
    end if;
    insert into catalogue_changes (product_ids, variant_groups) values (ids, groups);
  else
    insert into catalogue_changes (product_ids) values (null);
  end if;
  perform pg_notify('storefront_catalogue', '');
  return null;
end
$$;

-- Counts a change of the tree as one of the catalogue. Pages of products show names and addresses of categories, and
-- lists show everything else.
create or replace function categories_note_change() returns trigger
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

-- A new ranking changes the lists by it. Their tags are those of `rankingTag` in src/catalogue/events.ts.
create or replace function rankings_note_change() returns trigger
  language plpgsql as $$
declare
  tags text[];
begin
  select array_agg(concat_ws('-', sort, category_id)) into tags from changed;
  if tags is null then
    return null;
  end if;
  perform catalogue_count_change();
  insert into catalogue_changes (product_ids, list_tags) values ('{}', tags);
  perform pg_notify('storefront_catalogue', '');
  return null;
end
$$;

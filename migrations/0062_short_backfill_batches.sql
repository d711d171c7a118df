-- A batch ends after a fifth of a second, and the words are computed before any row is locked: those of a description of 64 KB take as long as that
-- alone, so a hundred of them ended in the time limit of a statement, again and again, with a hundred products locked.
create or replace function backfill_product_events(most integer) returns boolean language plpgsql
  security definer
  set search_path from current
  set enable_seqscan = off
as $$
declare
  ends_at constant timestamptz := clock_timestamp() + interval '200 milliseconds';
  previous_id uuid;
  next_id uuid;
  product record;
  ids uuid[] := '{}';
  -- The products that have other words than the functions give them, and what was read of each.
  changed uuid[] := '{}';
  versions xid[] := '{}';
  words tsvector[] := '{}';
  translated tsvector[] := '{}';
begin
  -- Of several processes each takes its turn, so that one continues when another dies.
  select last_id into previous_id from product_event_backfill for update;
  if not found then
    return false;
  end if;
  for next_id in select id from products where id > previous_id order by id limit most loop
    ids := ids || next_id;
    select xmin as version, search, product_words(name, category, options, brand, sku, description) as words, translated_search,
      case when translations <> '{}' then translated_words(name, concat_ws(' ', category, brand), options, sku, description, translations) end as translated
    into product
    from products
    where id = next_id;
    if (product.search, product.translated_search) is distinct from (product.words, product.translated) then
      changed := changed || next_id;
      versions := versions || product.version;
      words := words || product.words;
      translated := array_append(translated, product.translated);
    end if;
    exit when clock_timestamp() > ends_at;
  end loop;
  if ids = '{}' then
    delete from product_event_backfill;
    return false;
  end if;
  -- Stock before products, as everywhere, so that nobody waits in a circle. Of stock only what becomes an event: orders need these rows.
  perform from inventory where product_id = any(ids) and available = 0 order by product_id for update;
  perform from products where id = any(ids) order by id for no key update;
  -- The triggers of the columns write the words of those that have changed since they were read.
  update products set name = products.name
  from unnest(changed, versions) as found (id, version)
  where products.id = found.id and products.xmin <> found.version;
  update products set search = found.words, translated_search = found.translated
  from unnest(changed, versions, words, translated) as found (id, version, words, translated)
  where products.id = found.id and products.xmin = found.version;
  perform record_product_events(ids, null);
  insert into product_events (product_id, stream, version, type, occurred_at, data)
  select inventory.product_id, 'stock', inventory.version, 'stock.depleted', clock_timestamp(),
    json_build_object('product_id', inventory.product_id, 'sku', products.sku, 'available', 0, 'previous_available', null)
  from inventory
  join products on products.id = inventory.product_id
  where inventory.product_id = any(ids) and inventory.available = 0
    and not exists (select from product_events where product_id = inventory.product_id and stream = 'stock')
  on conflict do nothing;
  update product_event_backfill set last_id = ids[cardinality(ids)];
  return true;
end
$$;
do $$
begin
  execute format('alter function backfill_product_events(integer) set search_path = %I, pg_temp', current_schema());
end
$$;

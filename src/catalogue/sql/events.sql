-- Returns whole products as their events contain them: like the page of a product in the API, without what changes with
-- stock. A new property is added here only. Null, [] and {} count as absent, so products without the new property have
-- not changed.
create or replace function product_snapshots(ids uuid[]) returns table (product_id uuid, product json) language sql stable as $$
  select
    product.id,
    json_build_object(
      'id', product.id,
      'slug', product_slugs.slug,
      'sku', product.sku,
      'name', product.name,
      'description', product.description,
      'category', product.category,
      -- Ancestors are left out: moving one changes no product.
      'categories', (
        select coalesce(json_agg(json_build_object('id', category.id, 'slug', category.slug, 'name', category.name) order by member.position), '[]')
        from product_categories as member
        join categories as category on category.id = member.category_id
        where member.product_id = product.id and member.is_listed
      ),
      'brand', product.brand,
      'image_url', product.image_url,
      'group', product.variant_group,
      'options', product.options,
      'attributes', product.attributes,
      'price', json_build_object('amount', product.price_amount, 'currency', product.price_currency),
      'compare_at_price', case when product.compare_at_amount > product.price_amount
        then json_build_object('amount', product.compare_at_amount, 'currency', product.price_currency) end,
      'images', case
        when product.image_url is null then '[]'
        when page.images -> 0 ->> 'url' = product.image_url then page.images
        -- image_url is the first image, also if a statement has changed only image_url.
        else jsonb_build_array(jsonb_build_object('url', product.image_url, 'alt', '', 'width', null, 'height', null))
          || coalesce(page.images - 0, '[]')
      end,
      'seo', json_build_object('title', page.seo_title, 'description', page.seo_description),
      'availability_text', page.availability_text,
      'translations', product.translations,
      'prices', (
        select coalesce(
          json_agg(json_build_object('amount', other.value -> 'amount', 'currency', other.key, 'compare_at', other.value -> 'compare_at') order by other.key),
          '[]'
        )
        from jsonb_each(product.prices) as other
        where other.key <> product.price_currency
      ),
      'sale_prices', product.sale_prices,
      'status', nullif(product.status, 'active'),
      'published_at', to_char(product.published_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'unpublished_at', to_char(product.unpublished_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'created_at', to_char(product.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'archived_at', to_char(product.archived_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    )
  from unnest(ids) as wanted (id)
  join products as product on product.id = wanted.id
  left join product_slugs on product_slugs.product_id = product.id and product_slugs.retired_at is null
  left join product_pages as page on page.product_id = product.id
$$;

-- Removes what counts as absent, so that snapshots can be compared.
create or replace function product_state(product json) returns jsonb language sql immutable parallel safe as $$
  select coalesce(jsonb_object_agg(key, value), '{}')
  from jsonb_each(jsonb_strip_nulls(product::jsonb))
  where value not in ('{}', '[]')
$$;

-- Like all_prices, from the product of an event, with the amounts of price events. compare_at is null without a
-- reduction.
create or replace function event_prices(product json) returns table (currency text, price jsonb, compare_at jsonb)
language sql immutable parallel safe as $$
  select product -> 'price' ->> 'currency', (product -> 'price')::jsonb, nullif((product -> 'compare_at_price')::jsonb, 'null')
  union all
  select
    other ->> 'currency',
    jsonb_build_object('amount', other -> 'amount', 'currency', other -> 'currency'),
    case when other ->> 'compare_at' is not null then jsonb_build_object('amount', other -> 'compare_at', 'currency', other -> 'currency') end
  from json_array_elements(case json_typeof(product -> 'prices') when 'array' then product -> 'prices' else '[]' end) as other
$$;

-- Returns the currency of a price event. Its price or its previous price may be missing.
create or replace function event_currency(data json) returns text language sql immutable parallel safe as $$
  select coalesce(data -> 'price' ->> 'currency', data -> 'previous_price' ->> 'currency')
$$;

-- Records the changes of products since their newest events, and returns the number of events. Each currency whose
-- price is changed, new or gone has an event before that of the product. Call it as the last statement of a transaction
-- that has written the products and locked their rows, so that each product gets consecutive versions. It has the
-- owner's rights, because the API's role may not write events.
create or replace function record_product_events(ids uuid[], traceparent text) returns bigint language plpgsql
  security definer
  set search_path from current
  -- A plan from a time when a table was small must not read the whole table later.
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
as $$
declare
  recorded bigint;
  -- After a restore no version may repeat one that was published in the lost time.
  incarnation constant bigint := coalesce((select max(number) from database_incarnations), 0);
  recorded_at constant timestamptz := clock_timestamp();
begin
  with change as materialized (
    select snapshot.product_id, snapshot.product, newest.product as previous, coalesce(newest.version, 0) as version,
      -- All events of a change have one time, which is never before the newest event, also if the clock has gone back.
      greatest(recorded_at, newest.occurred_at) as occurred_at
    from product_snapshots(ids) as snapshot
    left join lateral (
      -- The newest event of a product is never a price event alone: see the order below.
      select event.version, event.occurred_at, case json_typeof(event.data -> 'product') when 'object' then event.data -> 'product' end as product
      from product_events as event
      where event.product_id = snapshot.product_id and event.stream = 'product'
      order by event.version desc
      limit 1
    ) as newest on true
    where newest.product is null
      or (newest.product::text <> snapshot.product::text and product_state(newest.product) <> product_state(snapshot.product))
  ), repriced as materialized (
    select
      product_id, product -> 'sku' as sku, greatest(version, incarnation) as version, occurred_at,
      price, previous_price, compare_at_price, previous_compare_at_price,
      row_number() over (partition by product_id order by currency) as place
    from (
      select change.product_id, change.product, change.version, change.occurred_at, product -> 'price' ->> 'currency' as currency,
        (product -> 'price')::jsonb as price,
        (previous -> 'price')::jsonb as previous_price,
        nullif((product -> 'compare_at_price')::jsonb, 'null') as compare_at_price,
        nullif((previous -> 'compare_at_price')::jsonb, 'null') as previous_compare_at_price
      from change
      where previous is not null and product -> 'price' ->> 'currency' = previous -> 'price' ->> 'currency'
      union all
      -- All prices in other currencies, and the own price if its currency differs.
      select change.product_id, change.product, change.version, change.occurred_at, currency, now.price, was.price, now.compare_at, was.compare_at
      from change
      cross join (
        event_prices(product) as now
        full join event_prices(previous) as was using (currency)
      )
      where previous is not null
        and ((product -> 'prices')::text is distinct from (previous -> 'prices')::text
          or product -> 'price' ->> 'currency' <> previous -> 'price' ->> 'currency')
        and (product -> 'price' ->> 'currency' <> previous -> 'price' ->> 'currency' or currency <> product -> 'price' ->> 'currency')
    ) as priced
    where (price, compare_at_price) is distinct from (previous_price, previous_compare_at_price)
  )
  insert into product_events (product_id, stream, version, type, occurred_at, traceparent, data)
  select change.product_id, 'product', greatest(change.version, incarnation) + 1
      + (select count(*) from repriced where repriced.product_id = change.product_id),
    case
      when change.version = 0 then 'product.created'
      when change.previous ->> 'archived_at' is null and change.product ->> 'archived_at' is not null then 'product.archived'
      when change.previous ->> 'archived_at' is not null and change.product ->> 'archived_at' is null then 'product.restored'
      else 'product.updated'
    end,
    change.occurred_at, record_product_events.traceparent, json_build_object('product', change.product)
  from change
  union all
  select product_id, 'product', version + place, 'price.changed', occurred_at, record_product_events.traceparent,
    json_build_object(
      'product_id', product_id,
      'sku', sku,
      'price', price,
      'previous_price', previous_price,
      'compare_at_price', compare_at_price,
      'previous_compare_at_price', previous_compare_at_price
    )
  from repriced
  -- Price events precede the product event: the stream publishes rows in the order of their insertion.
  order by 1, 3;
  get diagnostics recorded = row_count;
  return recorded;
end
$$;

-- Records the present state of products, also if nothing has changed: subscribers have seen later events, which a
-- restore has lost. The caller has locked the rows. Returns the number of events.
create or replace function restate_products(ids uuid[]) returns bigint language sql
  security definer
  set search_path from current
as $$
  with stated as (
    insert into product_events (product_id, stream, version, type, occurred_at, data)
    select snapshot.product_id, 'product',
      greatest(
        coalesce((select max(version) from product_events where product_id = snapshot.product_id and stream = 'product'), 0),
        coalesce((select max(number) from database_incarnations), 0)
      ) + 1,
      case when snapshot.product ->> 'archived_at' is null then 'product.updated' else 'product.archived' end,
      clock_timestamp(), json_build_object('product', snapshot.product)
    from product_snapshots(ids) as snapshot
    returning 1
  )
  select count(*) from stated
$$;

-- Records the present stock of products whose newest stock event differs. Only a change without triggers can cause
-- this.
create or replace function record_stock_events(ids uuid[]) returns bigint language sql
  security definer
  set search_path from current
as $$
  with counted as (
    update inventory set version = version + 1 where product_id = any(ids)
    returning product_id, version, available
  ), recorded as (
    insert into product_events (product_id, stream, version, type, occurred_at, data)
    select counted.product_id, 'stock',
      greatest(
        counted.version + coalesce((select max(number) from database_incarnations), 0),
        coalesce((select max(version) from product_events where product_id = counted.product_id and stream = 'stock'), 0) + 1
      ),
      case counted.available when 0 then 'stock.depleted' else 'stock.replenished' end, clock_timestamp(),
      json_build_object('product_id', counted.product_id, 'sku', products.sku, 'available', counted.available, 'previous_available', null)
    from counted
    join products on products.id = counted.product_id
    returning 1
  )
  select count(*) from recorded
$$;

-- Statements of the program that change `available` increase the version themselves. This trigger does it for SQL that
-- an operator types.
create or replace function inventory_count_up() returns trigger
  language plpgsql as $$
begin
  new.version := old.version + 1;
  return new;
end
$$;

create or replace function inventory_record_event() returns trigger language plpgsql
  security definer
  set search_path from current
as $$
begin
  -- The setting became 0 after stock was set.
  if (old.available is not distinct from 0) = (new.available is not distinct from 0)
    and exists (select from stock_event_settings where percent = 0)
  then
    new.event_level := null;
    new.event_step := null;
    return new;
  end if;
  -- The version contains the number of the incarnation: after a restore none may repeat one that was published in the
  -- lost time.
  insert into product_events (product_id, stream, version, type, occurred_at, data)
  select new.product_id, 'stock', new.version + coalesce((select max(number) from database_incarnations), 0),
    case
      when new.available = 0 then 'stock.depleted'
      when old.available = 0 then 'stock.replenished'
      else 'stock.level_changed'
    end,
    clock_timestamp(),
    json_build_object('product_id', new.product_id, 'sku', sku, 'available', new.available, 'previous_available', old.available)
  from products
  where id = new.product_id
  -- This happens only if somebody has lowered a version by hand. No sale fails for its event, and verify compares the
  -- newest event with the row.
  on conflict do nothing;
  if new.event_step is not null then
    new.event_level := new.available;
  end if;
  return new;
end
$$;

-- Records up to `most` products whose newest events differ from product_snapshots, and those that are out of stock.
-- Also corrects their search words. Returns whether there may be more. A batch ends after a fifth of a second. The
-- words are computed before any row is locked, because a description of 64 KB takes long.
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
  -- Products whose words differ from those of the functions, with what was read of each.
  changed uuid[] := '{}';
  versions xid[] := '{}';
  words tsvector[] := '{}';
  translated tsvector[] := '{}';
begin
  -- Processes take turns, so that one continues when another dies.
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
  -- Stock is locked before products, as everywhere, which prevents deadlocks. Only stock that becomes an event is
  -- locked, because orders need these rows.
  perform from inventory where product_id = any(ids) and available = 0 order by product_id for update;
  perform from products where id = any(ids) order by id for no key update;
  -- The columns' triggers write the words of products that have changed since they were read.
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

-- Examines up to `most` events after a key, in key order, and removes those that are older than a given time, with
-- their messages and dead letters. It keeps the newest event of each product, its stock and each price, the creation of
-- a product until each of its prices has a later event, and every event that a subscriber has yet to read. Returns the
-- number of removed events and the last key, whose nulls mean the end. Nothing younger than CATALOGUE_EVENT_DAYS allows
-- can be removed, and nothing while a refill reads the table.
create or replace function remove_old_product_events(
  before timestamptz, after_product_id uuid, after_stream text, after_version bigint, most integer
) returns table (removed bigint, product_id uuid, stream text, version bigint) language sql
  security definer
  set search_path from current
  set enable_seqscan = off
as $$
  with reached as (
    select coalesce(min(coalesce(sequence, stored_sequence, 0)), 9223372036854775807) as sequence
    from topic_subscribers
    where partition = 'catalogue'
  ), examined as materialized (
    select event.*
    from product_events as event
    where (event.product_id, event.stream, event.version) > (after_product_id, after_stream, after_version)
      and not exists (select from slot_positions where refill_id is not null)
    order by event.product_id, event.stream, event.version
    limit least(most, 10000)
  ), old as materialized (
    select event.product_id, event.stream, event.version, event_id.id, message.sequence
    from examined as event
    cross join lateral (
      select event.product_id || case event.stream when 'stock' then '.stock.' else '.' end || event.version as id
    ) as event_id
    left join lateral (
      select sequence from catalogue_messages where catalogue_messages.id = event_id.id limit 1
    ) as message on true
    where event.occurred_at < least(before, now() - interval '31 days')
      and exists (
        select from product_events as later
        where later.product_id = event.product_id and later.stream = event.stream and later.version > event.version
          and (later.type = 'price.changed') = (event.type = 'price.changed')
          and (event.type <> 'price.changed' or event_currency(later.data) = event_currency(event.data))
      )
      and (
        event.type <> 'product.created'
        or not exists (
          select from event_prices(event.data -> 'product') as priced
          where not exists (
            select from product_events as later
            where later.product_id = event.product_id and later.stream = 'product' and later.version > event.version
              and later.type = 'price.changed' and event_currency(later.data) = priced.currency
          )
        )
      )
      and case
        when message.sequence is not null then message.sequence <= (select sequence from reached)
        -- Otherwise the event is still to be published, unless the messages are in a broker or will never exist.
        else exists (select from catalogue_epochs) or exists (select from catalogue_dead_letters where catalogue_dead_letters.event_id = event_id.id)
      end
  ), removed_messages as (
    delete from catalogue_messages using old where catalogue_messages.sequence = old.sequence
  ), removed_letters as (
    delete from catalogue_dead_letters using old where catalogue_dead_letters.event_id = old.id
  ), removed_events as (
    delete from product_events as event
    using old
    where event.product_id = old.product_id and event.stream = old.stream and event.version = old.version
    returning 1
  )
  select (select count(*) from removed_events), last.product_id, last.stream, last.version
  from (values (1)) as one (row)
  left join lateral (
    select examined.product_id, examined.stream, examined.version
    from examined
    order by examined.product_id desc, examined.stream desc, examined.version desc
    limit 1
  ) as last on true
$$;

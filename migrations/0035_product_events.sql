-- What happened to products, prices and stock: a row is one event. Rows are only added, by the functions below, in the transaction of the
-- change; old ones are removed by remove_old_product_events. See docs/decisions/0277-events-of-the-catalogue.md.
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

-- Where the recording of products that were there before their events has arrived; no row when it has ended. A migration after which
-- product_snapshots has other content for existing products inserts the row again.
create table product_event_backfill (
  -- Products above this id are still to be recorded.
  last_id uuid not null
);
insert into product_event_backfill (last_id)
select '00000000-0000-0000-0000-000000000000' where exists (select from products);

-- The settings of stock events, which the program writes at its start.
create table stock_event_settings (
  -- An event each time that a level has fallen or risen by this part of the level that was set; 0 for none.
  percent smallint not null,
  constraint stock_event_settings_percent_in_range check (percent between 0 and 100)
);
insert into stock_event_settings (percent) values (0);
-- The level of the last event, and the pieces to the next, kept when stock is set, so that an order only compares. Null: only leaving and
-- reaching zero are events.
alter table inventory add column event_level bigint;
alter table inventory add column event_step bigint;
alter table inventory add constraint inventory_event_step_positive check (event_step > 0) not valid;

-- Whole products as their events contain them: as the API shows the page of a product, without what changes with stock. The one place where
-- a property is added: what is null, [] or {} counts as absent, so that products without the new property have not changed.
create function product_snapshots(ids uuid[]) returns table (product_id uuid, product json) language sql stable as $$
  select
    product.id,
    json_build_object(
      'id', product.id,
      'slug', product_slugs.slug,
      'sku', product.sku,
      'name', product.name,
      'description', product.description,
      'category', product.category,
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
        -- image_url is the first image, also where the release before has changed it since.
        else jsonb_build_array(jsonb_build_object('url', product.image_url, 'alt', '', 'width', null, 'height', null))
          || coalesce(page.images - 0, '[]')
      end,
      'seo', json_build_object('title', page.seo_title, 'description', page.seo_description),
      'availability_text', page.availability_text,
      'created_at', to_char(product.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'archived_at', to_char(product.archived_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    )
  from unnest(ids) as wanted (id)
  join products as product on product.id = wanted.id
  left join product_slugs on product_slugs.product_id = product.id and product_slugs.retired_at is null
  left join product_pages as page on page.product_id = product.id
$$;

-- A snapshot without what counts as absent, to compare.
create function product_state(product json) returns jsonb language sql immutable parallel safe as $$
  select coalesce(jsonb_object_agg(key, value), '{}')
  from jsonb_each(jsonb_strip_nulls(product::jsonb))
  where value not in ('{}', '[]')
$$;

-- Records what has changed of products since their newest events, and returns the number of events. The last statement of a transaction
-- that has written them: their rows must be locked, which gives each product one version after the other. With the owner's rights: the
-- API's role may not write events otherwise.
create function record_product_events(ids uuid[], traceparent text) returns bigint language plpgsql
  security definer
  set search_path from current
  -- A plan that was made while a table was small must not read the whole table later.
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
as $$
declare
  recorded bigint;
  -- After a restore no version may be one that was published in the lost time.
  incarnation constant bigint := coalesce((select max(number) from database_incarnations), 0);
begin
  with change as materialized (
    select snapshot.product_id, snapshot.product, newest.product as previous, coalesce(newest.version, 0) as version
    from product_snapshots(ids) as snapshot
    left join lateral (
      -- The newest event of a product is never that of its price alone: see the order below.
      select event.version, case json_typeof(event.data -> 'product') when 'object' then event.data -> 'product' end as product
      from product_events as event
      where event.product_id = snapshot.product_id and event.stream = 'product'
      order by event.version desc
      limit 1
    ) as newest on true
    where newest.product is null
      or (newest.product::text <> snapshot.product::text and product_state(newest.product) <> product_state(snapshot.product))
  ), repriced as materialized (
    select *
    from change
    where previous is not null
      and (previous -> 'price', previous -> 'compare_at_price')::text
        <> (product -> 'price', product -> 'compare_at_price')::text
  )
  insert into product_events (product_id, stream, version, type, occurred_at, traceparent, data)
  select change.product_id, 'product', greatest(change.version, incarnation) + case when repriced.product_id is null then 1 else 2 end,
    case
      when change.version = 0 then 'product.created'
      when change.previous ->> 'archived_at' is null and change.product ->> 'archived_at' is not null then 'product.archived'
      when change.previous ->> 'archived_at' is not null and change.product ->> 'archived_at' is null then 'product.restored'
      else 'product.updated'
    end,
    clock_timestamp(), record_product_events.traceparent, json_build_object('product', change.product)
  from change
  left join repriced using (product_id)
  union all
  select product_id, 'product', greatest(version, incarnation) + 1, 'price.changed', clock_timestamp(), record_product_events.traceparent,
    json_build_object(
      'product_id', product_id,
      'sku', product -> 'sku',
      'price', product -> 'price',
      'previous_price', previous -> 'price',
      'compare_at_price', product -> 'compare_at_price',
      'previous_compare_at_price', previous -> 'compare_at_price'
    )
  from repriced
  -- The price before the product that has it: the stream publishes rows in the order of their insertion.
  order by 1, 3;
  get diagnostics recorded = row_count;
  return recorded;
end
$$;

create function inventory_record_event() returns trigger language plpgsql
  security definer
  set search_path from current
as $$
begin
  -- The setting has become 0 since stock was set.
  if (old.available is not distinct from 0) = (new.available is not distinct from 0)
    and exists (select from stock_event_settings where percent = 0)
  then
    new.event_level := null;
    new.event_step := null;
    return new;
  end if;
  -- With the number of the incarnation: after a restore no version may be one that was published in the lost time.
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
  -- Only when somebody has set a version back by hand: no sale fails for its event, and verify compares the newest with the row.
  on conflict do nothing;
  if new.event_step is not null then
    new.event_level := new.available;
  end if;
  return new;
end
$$;

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

-- Records up to `most` products that were there before their events, as they are now, and those of them that are out of stock. Returns
-- whether there may be more.
create function backfill_product_events(most integer) returns boolean language plpgsql
  security definer
  set search_path from current
  set enable_seqscan = off
as $$
declare
  previous_id uuid;
  ids uuid[];
begin
  -- Of several processes each takes its turn, so that one continues when another dies.
  select last_id into previous_id from product_event_backfill for update;
  if not found then
    return false;
  end if;
  select array_agg(id order by id) into ids
  from (select id from products where id > previous_id order by id limit most) as next;
  if ids is null then
    delete from product_event_backfill;
    return false;
  end if;
  -- Stock before products, as everywhere, so that nobody waits in a circle. Of stock only what becomes an event: orders need these rows.
  perform from inventory where product_id = any(ids) and available = 0 order by product_id for update;
  perform from products where id = any(ids) order by id for no key update;
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

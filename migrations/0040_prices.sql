-- The prices of a product in other currencies than that of its own price: {"USD": {"amount": 1999, "compare_at": 2499}}, minor units.
-- Adding the column rewrites nothing. See docs/decisions/0284-prices-per-currency.md.
alter table products add column prices jsonb not null default '{}';
alter table products add constraint products_prices_object check (jsonb_typeof(prices) = 'object') not valid;

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

create function products_index_prices() returns trigger
  language plpgsql
  -- A plan that was made while the table was small must not read the whole table later.
  set enable_seqscan = off
as $$
begin
  if tg_op = 'UPDATE' then
    if not exists (select from changed where prices <> '{}') and not exists (select from before where prices <> '{}') then
      return null;
    end if;
    delete from product_prices
    using before
    join changed using (id)
    where product_prices.product_id = changed.id
      and (before.prices, before.price_currency, before.archived_at is null)
        is distinct from (changed.prices, changed.price_currency, changed.archived_at is null);
    insert into product_prices (product_id, currency, amount)
    select changed.id, price.currency, (price.value ->> 'amount')::bigint
    from changed
    join before using (id)
    cross join jsonb_each(changed.prices) as price (currency, value)
    where changed.archived_at is null
      -- The release before may have given the own price this currency. The own price counts.
      and price.currency <> changed.price_currency
      and (before.prices, before.price_currency, before.archived_at is null)
        is distinct from (changed.prices, changed.price_currency, changed.archived_at is null);
  elsif exists (select from changed where prices <> '{}') then
    insert into product_prices (product_id, currency, amount)
    select changed.id, price.currency, (price.value ->> 'amount')::bigint
    from changed
    cross join jsonb_each(changed.prices) as price (currency, value)
    where changed.archived_at is null and price.currency <> changed.price_currency;
  end if;
  return null;
end
$$;
create trigger products_insert_prices after insert on products
  referencing new table as changed
  for each statement execute function products_index_prices();
create trigger products_update_prices after update on products
  referencing old table as before new table as changed
  for each statement execute function products_index_prices();

-- As in 0039, with the prices in other currencies.
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
      -- Without the categories above them: a move of one changes no product.
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
        -- image_url is the first image, also where the release before has changed it since.
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
      'created_at', to_char(product.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'archived_at', to_char(product.archived_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    )
  from unnest(ids) as wanted (id)
  join products as product on product.id = wanted.id
  left join product_slugs on product_slugs.product_id = product.id and product_slugs.retired_at is null
  left join product_pages as page on page.product_id = product.id
$$;

-- The prices of a product in all currencies, from the columns of its row. The own price counts where another one has its currency.
create function all_prices(own_currency text, own_amount bigint, own_compare_at bigint, others jsonb)
returns table (currency text, amount bigint, compare_at bigint) language sql immutable parallel safe as $$
  select own_currency, own_amount, own_compare_at
  union all
  select other.key, (other.value ->> 'amount')::bigint, (other.value ->> 'compare_at')::bigint
  from jsonb_each(others) as other
  where other.key <> own_currency
$$;

-- As all_prices, from a product in an event, with amounts as events of prices have them; compare_at is null without a reduction.
create function event_prices(product json) returns table (currency text, price jsonb, compare_at jsonb)
language sql immutable parallel safe as $$
  select product -> 'price' ->> 'currency', (product -> 'price')::jsonb, nullif((product -> 'compare_at_price')::jsonb, 'null')
  union all
  select
    other ->> 'currency',
    jsonb_build_object('amount', other -> 'amount', 'currency', other -> 'currency'),
    case when other ->> 'compare_at' is not null then jsonb_build_object('amount', other -> 'compare_at', 'currency', other -> 'currency') end
  from json_array_elements(case json_typeof(product -> 'prices') when 'array' then product -> 'prices' else '[]' end) as other
$$;

-- The currency of an event of a price: that price or the one before may be missing.
create function event_currency(data json) returns text language sql immutable parallel safe as $$
  select coalesce(data -> 'price' ->> 'currency', data -> 'previous_price' ->> 'currency')
$$;

-- As in 0035, with an event for each currency whose price is another one, new or gone, before that of the product.
create or replace function record_product_events(ids uuid[], traceparent text) returns bigint language plpgsql
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
  recorded_at constant timestamptz := clock_timestamp();
begin
  with change as materialized (
    select snapshot.product_id, snapshot.product, newest.product as previous, coalesce(newest.version, 0) as version,
      -- One time for all events of a change, and none before the last one, also when the clock has gone back.
      greatest(recorded_at, newest.occurred_at) as occurred_at
    from product_snapshots(ids) as snapshot
    left join lateral (
      -- The newest event of a product is never that of its price alone: see the order below.
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
      -- The other currencies, and the own ones where they differ.
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
  -- The prices before the product that has them: the stream publishes rows in the order of their insertion.
  order by 1, 3;
  get diagnostics recorded = row_count;
  return recorded;
end
$$;

-- Examines up to `most` events after a key, in the order of their keys, and removes those of before a time with their messages and dead letters:
-- not the newest of a product, of its stock and of its price in each currency, not the creation of a product until each of its prices has a later
-- event, and none that a subscriber has yet to read. Returns the number of removed ones and the last key; its nulls mean the end. Nobody can remove
-- what is younger than CATALOGUE_EVENT_DAYS may be, and nothing is removed while a refill reads the table.
create function remove_old_product_events(
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
      and not exists (select from slot_refills)
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
        -- Otherwise it is still to be published, unless the messages are in a broker or there will be none.
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

-- The lake as tables in DuckDB, from its plain files: run it in each session of DuckDB, after
--   set variable lake = 'data/lake';
-- It needs DuckDB 1.2 or newer; 1.2, 1.3, 1.4 and 1.5 have been tried. It takes the files of that moment. Files that
-- were merged stay for a while, so it reads each event once by its id. A query may fail because a file is gone: run it
-- again.
set TimeZone = 'UTC';
create schema if not exists storefront;

set variable order_files = (select list(file) from glob(getvariable('lake') || '/orders/*/*.parquet'));
set variable catalogue_files = (select list(file) from glob(getvariable('lake') || '/catalogue/*/*.parquet'));

-- For rows of the first releases, and for prices in other currencies than that of the product.
create or replace macro storefront.exponent_of(currency) as case
  when currency in ('BIF', 'CLP', 'DJF', 'GNF', 'ISK', 'JPY', 'KMF', 'KRW', 'PYG', 'RWF', 'UGX', 'VND', 'VUV', 'XAF', 'XOF', 'XPF') then 0
  when currency in ('BHD', 'IQD', 'JOD', 'KWD', 'LYD', 'OMR', 'TND') then 3
  else 2
end;

-- The first part has the columns, also of a lake without files or whose files lack some: read_parquet takes no empty
-- list.
create or replace view storefront.order_events as
select * replace (coalesce(currency_exponent, storefront.exponent_of(currency)) as currency_exponent)
from (
  select
    null::bigint as sequence, null::varchar as event_id, null::varchar as event_type, null::timestamptz as event_time,
    null::varchar as order_id, null::varchar as order_number, null::integer as version,
    null::varchar as status, null::varchar as previous_status, null::varchar as user_id,
    null::varchar as currency, null::integer as currency_exponent, null::bigint as total_amount, null::bigint as original_amount,
    null::varchar as client_reference, null::varchar as shipping_country, null::varchar as actor_type, null::varchar as reason,
    null::varchar as change_type, null::integer as item_count,
    null::struct(
      product_id varchar, sku varchar, name varchar, unit_price_amount bigint, quantity bigint, total_amount bigint, category varchar,
      shipped bigint, cancelled bigint, returned bigint
    )[] as items,
    null::timestamptz as created_at, null::timestamptz as updated_at, null::varchar as attributes,
    null::bigint as shipping_amount, null::bigint as discount_amount, null::bigint as tax_amount, null::bigint as fee_amount,
    null::varchar as payment_provider, null::varchar as payment_state, null::timestamptz as ingested_at,
    null::varchar as adjustments, null::varchar as payments, null::varchar as parcels, null::varchar as billing_country,
    null::boolean as imported,
    null::date as ingest_date
  where false
  union all by name
  from query(case
    when getvariable('order_files') is null then 'select null::bigint as sequence where false'
    else 'from read_parquet(getvariable(''order_files''), union_by_name = true, hive_partitioning = true)
      qualify row_number() over (partition by event_id) = 1'
  end)
);

create or replace view storefront.orders as
select
  order_id, order_number, version, status, user_id, currency, currency_exponent, total_amount, original_amount, client_reference, shipping_country,
  -- Of the event that cancelled it: payments may follow.
  case when status = 'cancelled' then arg_min_null(actor_type, version) filter (where status = 'cancelled') over of_order end as cancelled_by,
  case when status = 'cancelled' then arg_min_null(reason, version) filter (where status = 'cancelled') over of_order end as cancel_reason,
  item_count, items, created_at, updated_at, attributes,
  shipping_amount, discount_amount, tax_amount, fee_amount, payment_provider, payment_state, adjustments, payments, parcels,
  billing_country
from storefront.order_events
window of_order as (partition by order_id)
qualify row_number() over (partition by order_id order by version desc) = 1;

create or replace view storefront.order_lines as
select
  order_id, order_number, status, user_id, currency, currency_exponent, created_at, line,
  item.product_id, item.sku, item.name, item.unit_price_amount, item.quantity, item.category,
  item.shipped, item.cancelled, item.returned, item.total_amount as line_total_amount
from (
  select * exclude (items), generate_subscripts(items, 1) as line, unnest(items) as item
  from storefront.orders
);

create or replace view storefront.adjustments as
select
  order_id, order_number, currency, currency_exponent, created_at,
  made.version as version, made.kind as kind, made.label as label, made.amount as amount, made.made_at::timestamptz as made_at,
  made.reference as reference
from (
  select
    *,
    unnest(from_json(adjustments, '[{ "version": "INTEGER", "kind": "VARCHAR", "label": "VARCHAR", "amount": "BIGINT", "made_at": "VARCHAR", "reference": "VARCHAR" }]'))
      as made
  from storefront.orders
);

create or replace view storefront.payments as
    select
      order_id, any_value(order_number) as order_number, any_value(currency) as currency, any_value(currency_exponent) as currency_exponent,
      any_value(created_at) as created_at, any_value(total_amount) as total_amount,
      payment_provider, payment_reference, arg_max(payment_state, version) as payment_state,
      min(reported_at) as reported_at, max(reported_at) as changed_at
    from (
select
  order_id, order_number, currency, currency_exponent, created_at, total_amount,
  report.version as version, report.provider as payment_provider, report.reference as payment_reference, report.state as payment_state,
  report.at::timestamptz as reported_at, report.amount as amount, report.refund_reference as reference,
  to_json(report.lines)::varchar as lines
from (
  select
    *,
    unnest(from_json(payments, '[{ "version": "INTEGER", "provider": "VARCHAR", "reference": "VARCHAR", "state": "VARCHAR", "at": "VARCHAR", "amount": "BIGINT", "refund_reference": "VARCHAR", "lines": [{ "product_id": "VARCHAR", "quantity": "BIGINT", "amount": "BIGINT" }] }]'))
      as report
  from storefront.orders
))
    group by order_id, payment_provider, payment_reference;

-- The amount is null where only the provider has reported a part, and of the rest.
create or replace view storefront.refunds as
    select
      order_id, order_number, currency, currency_exponent, created_at, version, payment_provider, payment_reference, payment_state,
      amount, reported_at as refunded_at, reference, lines
    from (
select
  order_id, order_number, currency, currency_exponent, created_at, total_amount,
  report.version as version, report.provider as payment_provider, report.reference as payment_reference, report.state as payment_state,
  report.at::timestamptz as reported_at, report.amount as amount, report.refund_reference as reference,
  to_json(report.lines)::varchar as lines
from (
  select
    *,
    unnest(from_json(payments, '[{ "version": "INTEGER", "provider": "VARCHAR", "reference": "VARCHAR", "state": "VARCHAR", "at": "VARCHAR", "amount": "BIGINT", "refund_reference": "VARCHAR", "lines": [{ "product_id": "VARCHAR", "quantity": "BIGINT", "amount": "BIGINT" }] }]'))
      as report
  from storefront.orders
))
    where payment_state in ('partially_refunded', 'refunded') and amount is distinct from 0;

create or replace view storefront.parcels as
select
  order_id, order_number, created_at, shipping_country, parcel.version as version, parcel.shipped_at::timestamptz as shipped_at,
  parcel.reference as reference, parcel.tracking.carrier as carrier, parcel.tracking.number as tracking_number,
  parcel.tracking.url as tracking_url, list_sum(list_transform(parcel.lines, lambda line: line.quantity))::bigint as units,
  to_json(parcel.lines)::varchar as lines
from (
  select
    *,
    unnest(from_json(parcels, '[{ "version": "INTEGER", "shipped_at": "VARCHAR", "reference": "VARCHAR", "tracking": { "carrier": "VARCHAR", "number": "VARCHAR", "url": "VARCHAR" }, "lines": [{ "product_id": "VARCHAR", "quantity": "BIGINT" }] }]'))
      as parcel
  from storefront.orders
);

create or replace view storefront.customers as
select
  user_id, min(created_at) as first_order_at, max(created_at) as last_order_at,
  arg_min(shipping_country, created_at) as first_country, arg_max(shipping_country, created_at) as shipping_country,
  count(*) as order_count, count_if(status = 'cancelled')::bigint as cancelled_count
from storefront.orders
group by user_id;

create or replace view storefront.catalogue_events as
select
  null::bigint as sequence, null::varchar as event_id, null::varchar as event_type, null::timestamptz as event_time,
  null::varchar as product_id, null::bigint as version, null::varchar as sku, null::varchar as slug, null::varchar as name,
  null::varchar as description, null::varchar as category, null::varchar as brand, null::varchar as variant_group,
  null::varchar as options, null::varchar as attributes,
  null::varchar as currency, null::integer as currency_exponent, null::bigint as price_amount, null::bigint as compare_at_amount,
  null::bigint as previous_price_amount, null::bigint as previous_compare_at_amount,
  null::varchar as image_url, null::timestamptz as created_at, null::timestamptz as archived_at,
  null::bigint as available, null::bigint as previous_available, null::varchar as product, null::timestamptz as ingested_at,
  null::date as ingest_date
where false
union all by name
from query(case
  when getvariable('catalogue_files') is null then 'select null::bigint as sequence where false'
  else 'from read_parquet(getvariable(''catalogue_files''), union_by_name = true, hive_partitioning = true)
    qualify row_number() over (partition by event_id) = 1'
end);

create or replace view storefront.products as
select
  product_id, version, event_time as valid_from, lead(event_time) over later as valid_to, lead(version) over later is null as is_current,
  sku, name, slug, description, category, brand, variant_group, options, attributes,
  currency, currency_exponent, price_amount, compare_at_amount, image_url, created_at, archived_at, product
from storefront.catalogue_events
where starts_with(event_type, 'storefront.product.')
window later as (partition by product_id order by version);

-- A row is a run of states that follow each other with the same price in one currency, the own one or one of
-- product.prices.
create or replace view storefront.prices as
with states as (
  select *, row_number() over (partition by product_id order by version) as number
  from storefront.products
), offers as (
  select product_id, sku, version, number, valid_from, valid_to, is_current, currency, currency_exponent, price_amount, compare_at_amount
  from states
  union all
  select
    product_id, sku, version, number, valid_from, valid_to, is_current,
    other.currency, storefront.exponent_of(other.currency), other.amount, other.compare_at
  from (
    select *, unnest(from_json(product -> '$.prices', '[{ "amount": "BIGINT", "currency": "VARCHAR", "compare_at": "BIGINT" }]')) as other
    from states
  ) as states
  where other.currency <> states.currency
), compared as (
  select
    *,
    number - 1 is distinct from lag(number) over earlier
      or price_amount is distinct from lag(price_amount) over earlier
      or compare_at_amount is distinct from lag(compare_at_amount) over earlier as is_new
  from offers
  where price_amount is not null
  window earlier as (partition by product_id, currency order by version)
), numbered as (
  select *, count_if(is_new) over (partition by product_id, currency order by version) as price_number
  from compared
)
select
  product_id, arg_min(sku, version) as sku, min(version) as version, arg_min(valid_from, version) as valid_from,
  arg_max_null(valid_to, version) as valid_to, bool_or(is_current) as is_current,
  currency, any_value(currency_exponent) as currency_exponent, price_amount, compare_at_amount
from numbered
group by product_id, currency, price_number, price_amount, compare_at_amount;

create or replace view storefront.stock_events as
select sequence, event_id, event_type, event_time, product_id, sku, version, available, previous_available
from storefront.catalogue_events
where starts_with(event_type, 'storefront.stock.');

import { currenciesWithDigits } from '../../client/src/currency.ts'
import { commaList, type Sql, sql } from '../db/sql.ts'
import { CATALOGUE_COLUMNS } from './catalogue-row.ts'
import type { TableView } from './lake-columns.ts'

const { product_id, version, sku, name, slug, description, category, brand, variant_group, options, attributes } = CATALOGUE_COLUMNS
const { currency, currency_exponent, price_amount, compare_at_amount, image_url, created_at, archived_at, product } = CATALOGUE_COLUMNS
const { sequence, event_id, event_type, event_time, available, previous_available } = CATALOGUE_COLUMNS

/** `valid_from` is inclusive and `valid_to` exclusive. It is null on the current row. */
const VALIDITY = { valid_from: sql`TIMESTAMPTZ`, valid_to: sql`TIMESTAMPTZ`, is_current: sql`BOOLEAN` }
const TEXTS = { sku, name, slug, description, category, brand, variant_group, options, attributes }
const PRICE = { currency, currency_exponent, price_amount, compare_at_amount }
const STOCK = { sequence, event_id, event_type, event_time, product_id, sku, version, available, previous_available }

interface CatalogueView extends TableView {
  name: 'products' | 'prices' | 'stock_events'
  changes: Sql
}

const OF_PRODUCTS = { id: 'product_id', key: 'product_id', changes: sql`starts_with(event_type, 'storefront.product.')` }

export const CATALOGUE_VIEWS: readonly CatalogueView[] = [
  {
    name: 'products',
    description: 'Each state of each product, with the time in which it was valid (a dimension of type 2).',
    columns: { product_id, version, ...VALIDITY, ...TEXTS, ...PRICE, image_url, created_at, archived_at, product },
    ...OF_PRODUCTS,
    order: sql`product_id, version`,
    select: sql`
      select
        product_id, version, event_time as valid_from, lead(event_time) over later as valid_to, lead(version) over later is null as is_current,
        sku, name, slug, description, category, brand, variant_group, options, attributes,
        currency, currency_exponent, price_amount, compare_at_amount, image_url, created_at, archived_at, product
      from catalogue_events
      where starts_with(event_type, 'storefront.product.')
      window later as (partition by product_id order by version)`,
  },
  {
    name: 'prices',
    description: 'Each price of each product in each of its currencies, with the time in which it was valid.',
    columns: { product_id, sku, version, ...VALIDITY, ...PRICE },
    ...OF_PRODUCTS,
    order: sql`product_id, currency, version`,
    // A price is valid while consecutive states have it, so it can end and return.
    select: sql`
      with states as (
        select *, row_number() over (partition by product_id order by version) as number
        from products
      ), offers as (
        select product_id, sku, version, number, valid_from, valid_to, is_current, currency, currency_exponent, price_amount, compare_at_amount
        from states
        union all
        select
          product_id, sku, version, number, valid_from, valid_to, is_current,
          other.currency, ${exponentOf(sql`other.currency`)}, other.amount, other.compare_at
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
      group by product_id, currency, price_number, price_amount, compare_at_amount`,
  },
  {
    name: 'stock_events',
    description: 'A row for each time that stock left or reached zero, or a level of `STOCK_EVENT_PERCENT`.',
    columns: STOCK,
    ...{ id: 'event_id', key: 'event_time', monthOf: 'event_time', changes: sql`starts_with(event_type, 'storefront.stock.')` },
    order: sql`sequence`,
    select: sql`
      select sequence, event_id, event_type, event_time, product_id, sku, version, available, previous_available
      from catalogue_events
      where starts_with(event_type, 'storefront.stock.')`,
  },
]

export function exponentOf(currency: Sql): Sql {
  return sql`case
    when ${currency} in (${commaList(currenciesWithDigits(0))}) then 0 when ${currency} in (${commaList(currenciesWithDigits(3))}) then 3 else 2 end`
}

// A large catalogue in a minute, for benchmarks and for tests of statement costs. Its values have the skew and the
// extremes of a shop.
import type { Pool, Transaction } from '../../src/db/pool.ts'
import { identifier, sql } from '../../src/db/sql.ts'
import { generateProducts } from '../generate-products.ts'

/** The number of products with texts of their own. The others are copies of them. */
const ORIGINALS = 4_000
const MONTHS = 36
const FEW = 5

/** Values that filters find in nearly all products, or in `FEW` of them. */
export const EXTREMES = {
  word: { nearlyAll: 'everywhere', few: 'nowhere' },
  category: { nearlyAll: 'Everything', few: 'Nearly nothing' },
  brand: { nearlyAll: 'Brand 0', few: 'Brand 299' },
  currency: { nearlyAll: 'EUR', half: 'GBP', few: 'SEK', none: 'CHF' },
  attribute: { nearlyAll: 'vegan=true', few: 'rare=yes' },
  /** A group of variants with 1 % of all products. */
  group: 'GROUP-LARGE',
} as const

const TABLES = ['products', 'product_slugs', 'product_categories', 'product_prices', 'inventory', 'search_words']

/**
 * Adds `count` products to an empty catalogue, as a superuser. Triggers and foreign keys are off, and indexes are
 * created afterwards, because only the result is used. There are no product events, as if they were older than their
 * retention.
 */
export async function fillCatalogue(pool: Pool, count: number): Promise<void> {
  const { rows: indexes } = await pool.query<{ name: string; definition: string }>(
    `select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition from pg_index
    where indrelid = any($1::regclass[]) and not exists (select from pg_constraint where conindid = indexrelid)`,
    [TABLES],
  )
  const client = await pool.connect()
  try {
    await client.query('begin')
    await client.query('set local session_replication_role = replica')
    for (const { name } of indexes) await client.query(sql`drop index ${identifier(name)}`)
    await insertOriginals(client, Math.min(count, ORIGINALS))
    await insertProducts(client, count)
    await insertDependents(client)
    for (const { definition } of indexes) await client.query(definition)
    await client.query('delete from product_event_backfill')
    await client.query('commit')
  } finally {
    client.release()
  }
  await pool.query(`vacuum (analyze) categories, ${TABLES.join(', ')}`)
}

async function insertOriginals(tx: Transaction, count: number): Promise<void> {
  await tx.query(
    sql`create temporary table filled_originals on commit drop as
    select place - 1 as n, name, description, category, product_words(name, category, '{}', null, '', description) as search
    from (
      select place, name, description || ' ' || ${EXTREMES.word.nearlyAll} as description, category
      from rows from (jsonb_to_recordset(${JSON.stringify([...generateProducts(count)])}) as (name text, description text, category text))
        with ordinality as generated (name, description, category, place)
    ) as generated`,
  )
  await tx.query('create unique index on filled_originals (n)')
  await tx.query(
    sql`insert into categories (id, slug, name)
    select gen_random_uuid(), replace(lower(name), ' ', '-'), name
    from (
      select distinct category from filled_originals
      union values (${EXTREMES.category.nearlyAll}), (${EXTREMES.category.few})
    ) as category (name)`,
  )
}

async function insertProducts(tx: Transaction, count: number): Promise<void> {
  const { word, brand, currency, group } = EXTREMES
  await tx.query(
    sql`insert into products
      (id, sku, name, description, category, image_url, price_amount, price_currency, in_stock, variant_group, options, created_at, archived_at,
        search, attributes, brand, prices)
    select md5('SKU-' || series.n)::uuid, sku, name, description, original.category, 'https://images.example/' || series.n || '.jpg',
      100 + (100000 * power(b, 3))::bigint,
      case when series.n >= ${FEW} and series.n < 2 * ${FEW} then ${currency.few} else ${currency.nearlyAll} end,
      series.n % 10 <> 3,
      case when series.n % 80 < 8 then 'GROUP-' || series.n / 80 when series.n % 100 = 50 then ${group} end,
      case when series.n % 80 < 8 or series.n % 100 = 50
        then jsonb_build_object('size', (array['S', 'M', 'L', 'XL'])[1 + series.n % 4], 'colour', (array['red', 'green', 'blue'])[1 + series.n % 3])
        else '{}'
      end,
      date_trunc('milliseconds', now() - make_interval(months => ${MONTHS}) * a),
      case when series.n % 20 = 19 then now() end,
      search || setweight(to_tsvector('simple', 'sku ' || digits || case when series.n < ${FEW} then ' ' || ${word.few} else '' end), 'C'),
      case when series.n % 50 = 49 then '{}' else jsonb_build_object(
        'material', (array['wood', 'steel', 'glass', 'linen', 'wool'])[1 + (4 * power(b, 2))::integer],
        'vegan', series.n % 100 <> 0, 'width_cm', series.n % 300, 'tags', jsonb_build_array('tag' || series.n % 40, 'tag' || series.n % 7)
      ) || case when series.n < ${FEW} then '{"rare": "yes"}' else '{}'::jsonb end end,
      case
        when series.n < ${FEW} then ${brand.few}
        when series.n % 7 = 0 then null
        when series.n % 3 = 0 then ${brand.nearlyAll}
        else 'Brand ' || (298 * power(b, 2))::integer
      end,
      case when series.n % 2 = 0 then jsonb_build_object(${currency.half}::text, jsonb_build_object('amount', 100 + series.n % 99991)) else '{}' end
        || case when series.n < ${FEW} then jsonb_build_object(${currency.few}::text, jsonb_build_object('amount', 100 + series.n)) else '{}' end
    from generate_series(0, ${count - 1}::integer) as series (n)
    join filled_originals as original on original.n = series.n % ${ORIGINALS}::integer
    cross join lateral (
        select lpad(series.n::text, 8, '0') as digits, 'SKU-' || lpad(series.n::text, 8, '0') as sku,
          abs(hashint4(series.n)) / 2147483648.0 as a, abs(hashint4(series.n + 7)) / 2147483648.0 as b
      ) as derived`,
  )
}

/** Inserts the rows that triggers would write. */
async function insertDependents(tx: Transaction): Promise<void> {
  const { category } = EXTREMES
  await tx.query(`insert into product_slugs (slug, product_id) select 'product-' || lower(sku), id from products`)
  await tx.query('insert into inventory (product_id, available) select id, case when in_stock then 1000000 else 0 end from products')
  await tx.query(
    sql`insert into product_categories (product_id, category_id, position, is_listed, price_amount, created_at, name)
    select product.id, categories.id, wanted.position, archived_at is null, price_amount, product.created_at, product.name
    from products as product
    cross join lateral (
      values
        (product.category, 0),
        (case when right(sku, 2) < '97' then ${category.nearlyAll}::text end, 1),
        (case when substr(sku, 5)::integer < ${FEW} then ${category.few}::text end, 2)
    ) as wanted (name, position)
    join categories on categories.name = wanted.name`,
  )
  await tx.query(
    `insert into product_prices (product_id, currency, amount)
    select id, key, (value ->> 'amount')::bigint
    from products
    cross join jsonb_each(prices)
    where archived_at is null and key <> price_currency`,
  )
  await tx.query(
    `insert into search_words (word)
    select distinct entry.lexeme
    from filled_originals
    cross join unnest(ts_filter(search, '{a,b,d}')) as entry
    where length(entry.lexeme) between 3 and 40 and entry.lexeme !~ '[0-9]'`,
  )
}

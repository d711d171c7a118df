import type { Transaction } from '../db/pool.ts'
import { commaList, identifier, type Sql, sql } from '../db/sql.ts'
import { type ResolvedCategories, saveCategories } from './categories/product-categories.ts'
import { renameBeforeChange } from './categories/rename-products.ts'
import { REGULAR_AMOUNT, REGULAR_COMPARE_AT, REGULAR_PRICES, toStoredPrices } from './offered-prices.ts'
import { storedImages } from './product-details.ts'
import type { ProductInput } from './product-input.ts'
import { CURRENT_SLUG, changeSlugs } from './slugs.ts'

export interface ProductToStore {
  id: string
  isNew: boolean
  /** A complete product, except for the values that stay: see `mergeProduct`. */
  product: ProductInput
  category: ResolvedCategories
  /** It is null to keep the stored slug; a new product then gets one from its name. */
  slug: string | null
  /** Whether stock is untracked or not 0. */
  isInStock: boolean
}

const TYPES = { text: sql`text`, bigint: sql`bigint`, jsonb: sql`jsonb`, timestamptz: sql`timestamptz(3)` }
const NO_TIME = 'infinity'
/**
 * The product columns that a change writes, each with its type and its value for `storeProducts`. If a column is in
 * `KEPT`, null keeps the stored value.
 */
const ROW_COLUMNS = {
  sku: column('text', ({ product }) => product.sku),
  name: column('text', ({ product }) => product.name),
  description: column('text', ({ product }) => product.description),
  category: column('text', ({ category }) => category.name || null),
  brand: column('text', ({ product }) => product.brand),
  image_url: column('text', ({ product }) => product.image_url),
  variant_group: column('text', ({ product }) => product.group),
  options: column('jsonb', ({ product }) => product.options),
  attributes: column('jsonb', ({ product }) => product.attributes),
  price_amount: column('bigint', ({ product }) => product.price.amount),
  price_currency: column('text', ({ product }) => product.price.currency),
  compare_at_amount: column('bigint', ({ product }) => product.compare_at_price?.amount ?? null),
  translations: column('jsonb', ({ product }) => product.translations ?? null),
  prices: column('jsonb', ({ product }) => (product.prices === undefined ? null : toStoredPrices(product.prices))),
  sale_prices: column('jsonb', ({ product }) => product.sale_prices ?? null),
  status: column('text', ({ product }) => product.status ?? null),
  published_at: column('timestamptz', ({ product }) => orNoTime(product.published_at)),
  unpublished_at: column('timestamptz', ({ product }) => orNoTime(product.unpublished_at)),
}
/** The page's columns, in a separate row, which is absent if all are null. */
const PAGE_COLUMNS = {
  images: column('jsonb', ({ product }) => storedImages(product.images)),
  seo_title: column('text', ({ product }) => product.seo.title),
  seo_description: column('text', ({ product }) => product.seo.description),
  availability_text: column('text', ({ product }) => product.availability_text),
}

/** Encodes a time for `KEPT`: null keeps the stored time, and NO_TIME removes it. */
function orNoTime(time: string | null | undefined): string | null {
  return time === undefined ? null : (time ?? NO_TIME)
}

function column(type: keyof typeof TYPES, read: (row: ProductToStore) => unknown) {
  return { type, read }
}

const COLUMNS = Object.entries({ ...ROW_COLUMNS, ...PAGE_COLUMNS })
const PRODUCT_NAMES = Object.keys(ROW_COLUMNS).map(identifier)
const PAGE_NAMES = Object.keys(PAGE_COLUMNS).map(identifier)
const list = (names: readonly Sql[], render: (name: Sql) => Sql = (name) => name) => commaList(names.map(render))

const KEPT: Readonly<Record<string, Sql>> = {
  category: sql`coalesce(given.category, product.category)`,
  translations: sql`coalesce(given.translations, product.translations, '{}')`,
  // Removes the currency of the product's own price, which may have changed.
  prices: sql`coalesce(given.prices, ${REGULAR_PRICES}, '{}') - given.price_currency`,
  sale_prices: sql`coalesce(given.sale_prices, product.sale_prices, '[]')`,
  status: sql`coalesce(given.status, product.status, 'active')`,
  published_at: sql`nullif(coalesce(given.published_at, product.published_at), ${NO_TIME})`,
  // An archived product is sold again, so an end in the past is removed.
  unpublished_at: sql`nullif(
    coalesce(
      given.unpublished_at,
      case when product.archived_at is null or product.is_withheld or product.unpublished_at > now() then product.unpublished_at end
    ),
    ${NO_TIME}
  )`,
  images: sql`coalesce(given.images, '[]')`,
}
/** What is compared with given columns instead of the stored column. */
const REGULAR: Readonly<Record<string, Sql>> = {
  price_amount: REGULAR_AMOUNT,
  compare_at_amount: REGULAR_COMPARE_AT,
  prices: REGULAR_PRICES,
}
const STORED = commaList(Object.keys(ROW_COLUMNS).map((name) => REGULAR[name] ?? sql`product.${identifier(name)}`))
const GIVEN = commaList(COLUMNS.map(([name]) => sql`${KEPT[name] ?? sql`given.${identifier(name)}`} as ${identifier(name)}`))
const DEFINITIONS = commaList(COLUMNS.map(([name, { type }]) => sql`${identifier(name)} ${TYPES[type]}`))
const pageOf = (row: Sql) => commaList(Object.keys(PAGE_COLUMNS).map((name) => sql`nullif(to_jsonb(${row}.${identifier(name)}), '[]')`))
const INPUT_PAGE = pageOf(sql`input`)
const HAS_PAGE = sql`num_nonnulls(${INPUT_PAGE}) > 0`

/**
 * Creates products and replaces existing ones, which must be locked. Archived products are sold again. Products that
 * equal the stored ones are not written. Returns the ids of those that differ. Throws constraint violations.
 */
export async function storeProducts(tx: Transaction, rows: readonly ProductToStore[]): Promise<string[]> {
  if (rows.length === 0) return []
  const existing = rows.filter(({ isNew }) => !isNew)
  const renamed = await renameBeforeChange(
    tx,
    existing.filter(({ category }) => category.name !== '').map(({ id }) => id),
  )
  // Categories come first, because a product's change copies its keys to them.
  const moved = [...renamed, ...(await saveCategories(tx, existing))]
  const cells = rows.map((row) => {
    const values: Record<string, unknown> = { id: row.id, slug: row.slug, in_stock: row.isInStock }
    for (const [name, { read }] of COLUMNS) values[name] = read(row)
    return values
  })
  // Skips unchanged rows. Ordered by sku, so two imports that create the same products cannot deadlock. It must be one
  // statement, because its end gives new products without a slug one.
  const { rows: written } = await tx.query<{ id: string; slug: string | null }>(
    sql`with input as materialized (
       select given.id, given.slug, given.in_stock, product.id is null as is_new, ${GIVEN}
       from json_to_recordset(${JSON.stringify(cells)}::json) as given (id uuid, slug text, in_stock boolean, ${DEFINITIONS})
       left join products as product on product.id = given.id
     ), created as (
       insert into products (id, in_stock, ${list(PRODUCT_NAMES)})
       select id, in_stock, ${list(PRODUCT_NAMES)} from input where is_new order by sku
       returning id
     ), changed as (
       update products as product
       set in_stock = input.in_stock, ${list(PRODUCT_NAMES, (name) => sql`${name} = input.${name}`)}, archived_at = null,
         is_withheld = false, changes_at = null, regular_prices = null,
         -- Two changes in one millisecond need different entity tags.
         updated_at = greatest(clock_timestamp(), product.updated_at + interval '1 millisecond')
       from input
       left join product_pages as page on page.product_id = input.id
       where product.id = input.id
         and ((product.archived_at is not null and not product.is_withheld)
           or product.id = any(${moved}::uuid[])
           or product.in_stock <> input.in_stock
           or (${STORED}) is distinct from (${list(PRODUCT_NAMES, (name) => sql`input.${name}`)})
           or (${pageOf(sql`page`)}) is distinct from (${INPUT_PAGE})
           or case when input.slug is null then false else input.slug is distinct from ${CURRENT_SLUG} end)
       returning product.id
     ), written as (
       select id, true as is_new from created union all select id, false from changed
     ), named as (
       insert into product_slugs (slug, product_id)
       select input.slug, created.id from created join input on input.id = created.id where input.slug is not null order by input.slug
     ), emptied as (
       delete from product_pages using changed, input
       where product_pages.product_id = changed.id and input.id = changed.id and not ${HAS_PAGE}
     ), paged as (
       insert into product_pages (product_id, ${list(PAGE_NAMES)})
       select written.id, ${list(PAGE_NAMES, (name) => sql`input.${name}`)}
       from written
       join input on input.id = written.id
       where ${HAS_PAGE}
       on conflict (product_id) do update set ${list(PAGE_NAMES, (name) => sql`${name} = excluded.${name}`)}
     )
     select product.id, case when not product.is_new and input.slug is distinct from ${CURRENT_SLUG} then input.slug end as slug
     from written as product
     join input on input.id = product.id`,
  )
  await changeSlugs(
    tx,
    written.flatMap(({ id, slug }) => (slug === null ? [] : { productId: id, slug })),
  )
  await saveCategories(
    tx,
    rows.filter(({ isNew }) => isNew),
  )
  return written.map(({ id }) => id)
}

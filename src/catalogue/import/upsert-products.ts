import { randomUUIDv7 } from 'node:crypto'
import type { Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { CATEGORY_IDS } from '../categories/category.ts'
import { type ResolvedCategories, replaceCategories, resolveCategories } from '../categories/product-categories.ts'
import { renameBeforeChange } from '../categories/rename-products.ts'
import { recordProductEvents, recordProductsWithoutEvents, stockEventColumns } from '../product-events.ts'
import { CURRENT_SLUG } from '../slugs.ts'
import type { StockActor, StockLevel } from '../stock-adjustments.ts'
import { decideSlugs, type SlugDecision, writePages } from './imported-pages.ts'
import type { ImportedProduct } from './imported-product.ts'
import { decideStock } from './imported-stock.ts'
import { keepUnnamed } from './keep-unnamed.ts'
import { type LockedStock, lockProducts, lockStockOf, SkuTakenConcurrently } from './lock-products.ts'
import { type StagedProduct, stageProducts } from './stage-products.ts'

/** The outcome for a product. It is unchanged when neither it nor its stock differs from the database. */
export type Outcome = 'created' | 'updated' | 'unchanged'
/** The reason why nothing of a product was stored. */
export interface Refusal {
  refusal: string
}

/**
 * Creates or updates products of different skus, and their stock where they name it; an archived product is sold again. Returns the outcomes
 * in the same order. An unchanged row is not written, so `updated_at` changes with real changes only. Throws SkuTakenConcurrently.
 */
export async function upsertProducts(
  tx: Transaction,
  products: readonly ImportedProduct[],
  by: StockActor,
  traceparent: string | null = null,
): Promise<(Outcome | Refusal)[]> {
  const categories = await resolveCategories(tx, products)
  const present = await lockStockOf(tx, products)
  await lockProducts(tx, present)
  const presentIds = [...present.values()].map((row) => row.product_id)
  await recordProductsWithoutEvents(tx, presentIds)
  await renameBeforeChange(tx, presentIds)
  const booked = await findBooked(tx, products, present)
  const slugs = await decideSlugs(tx, products)
  const kept = await keepUnnamed(tx, products)
  const rows = products.map((product, index) =>
    toRow(
      { product: kept[index] ?? product, category: categories[index], slug: slugs.get(product) },
      present.get(product.sku),
      booked.get(product),
    ),
  )
  const accepted = rows.filter((row): row is StagedProduct => !('refusal' in row))
  await stageProducts(tx, accepted)
  const written = await writeProducts(tx)
  await writeStock(tx, accepted, by)
  const changed = new Set(written.map(({ sku }) => sku))
  const created = new Set(written.filter(({ isNew }) => isNew).map(({ sku }) => sku))
  await writePages(tx, [...changed])
  if (accepted.some(({ categoryIds }) => categoryIds !== null)) await replaceCategories(tx, STAGED_CATEGORIES)
  await recordProductEvents(
    tx,
    written.map(({ id }) => id),
    traceparent,
  )
  return rows.map((row) => {
    if ('refusal' in row) return row
    return created.has(row.sku) ? 'created' : changed.has(row.sku) || changesStock(row) ? 'updated' : 'unchanged'
  })
}

interface Decided {
  product: ImportedProduct | Refusal
  category: ResolvedCategories | { fault: string; at: string } | undefined
  slug: SlugDecision | undefined
}

function toRow(
  { product, category = { fault: '', at: '' }, slug = { slug: null } }: Decided,
  present: StockLevel | undefined,
  booked: number | undefined,
): StagedProduct | Refusal {
  if ('refusal' in product) return product
  const stock = decideStock(product, present, booked)
  if ('fault' in category) return { refusal: `${category.at.replace('/', ' ')}: ${category.fault}` }
  if ('refusal' in slug) return slug
  if ('refusal' in stock) return stock
  return {
    ...product,
    id: randomUUIDv7(),
    category: category.name,
    categoryIds: category.ids,
    stockVersion: present?.version ?? 0,
    ...slug,
    ...stock,
  }
}

const STAGED_CATEGORIES = sql`select product.id as product_id, listed.id as category_id, listed.place - 1 as position
  from import_rows
  join products as product on product.sku = import_rows.sku
  cross join unnest(import_rows.category_ids) with ordinality as listed (id, place)`

function changesStock({ stockVersion, before, after }: StagedProduct): boolean {
  return stockVersion === 0 || before !== after
}

/**
 * Finds earlier changes under these references. A separate statement sees what was committed during the wait for locks.
 */
async function findBooked(
  tx: Transaction,
  products: readonly ImportedProduct[],
  present: ReadonlyMap<string, LockedStock>,
): Promise<Map<ImportedProduct, number>> {
  const named = products.filter(({ sku, reference }) => reference !== undefined && present.has(sku))
  if (named.length === 0) return new Map()
  const { rows } = await tx.query<{ at: number; delta: number }>(
    `select line.at, kept.delta
     from unnest($1::uuid[], $2::text[]) with ordinality as line (product_id, reference, at)
     join stock_adjustments as kept on kept.product_id = line.product_id and kept.reference = line.reference and kept.kind <> 'count'`,
    [named.map(({ sku }) => present.get(sku)?.product_id), named.map(({ reference }) => reference)],
  )
  return new Map(rows.map(({ at, delta }) => [named[at - 1] as ImportedProduct, delta]))
}

/** When the file has no prices, the stored ones stay, except the one in the currency of the product's own price, which may have changed. */
const OFFERED_PRICES = sql`coalesce(input.prices, product.prices, '{}') - input.price_currency`

interface WrittenProduct {
  id: string
  sku: string
  isNew: boolean
}

/** Returns the products that were created or changed. */
async function writeProducts(tx: Transaction): Promise<WrittenProduct[]> {
  // The join leaves out unchanged products, which `on conflict` would lock and so write. Ordered by sku, so that two imports that create
  // the same products cannot deadlock. The end of the statement gives a slug to new products without one.
  const { rows } = await tx.query<WrittenProduct>(
    sql`with written as (
       insert into products as stored
         (id, sku, name, description, category, brand, image_url, variant_group, options, attributes, price_amount, price_currency,
          compare_at_amount, translations, prices, in_stock)
       select input.id, input.sku, input.name, input.description, input.category, input.brand, input.image_url, input.variant_group,
         input.options, input.attributes, input.price_amount, input.price_currency, input.compare_at_amount,
         coalesce(input.translations, product.translations, '{}'), ${OFFERED_PRICES}, input.stock is null or input.stock > 0
       from import_rows as input
       left join products as product on product.sku = input.sku
       left join product_pages as page on page.product_id = product.id
       where product.id is null
         or product.archived_at is not null
         or (product.name, product.description, product.category, product.brand, product.image_url, product.variant_group,
           product.options, product.attributes, product.price_amount, product.price_currency, product.compare_at_amount, product.translations, product.prices, product.in_stock)
         is distinct from (input.name, input.description, input.category, input.brand, input.image_url, input.variant_group,
           input.options, input.attributes, input.price_amount, input.price_currency, input.compare_at_amount,
           coalesce(input.translations, product.translations), ${OFFERED_PRICES},
           input.stock is null or input.stock > 0)
         or (coalesce(page.images, '[]'), page.seo_title, page.seo_description, page.availability_text)
         is distinct from (coalesce(input.images, '[]'), input.seo_title, input.seo_description, input.availability_text)
         or case when input.category_ids is null then false else input.category_ids <> ${CATEGORY_IDS} end
         or case when input.slug is null then false else input.slug <> ${CURRENT_SLUG} end
       order by input.sku
       on conflict (sku) do update set
         name = excluded.name,
         description = excluded.description,
         category = excluded.category,
         brand = excluded.brand,
         image_url = excluded.image_url,
         variant_group = excluded.variant_group,
         options = excluded.options,
         attributes = excluded.attributes,
         price_amount = excluded.price_amount,
         price_currency = excluded.price_currency,
         compare_at_amount = excluded.compare_at_amount,
         translations = excluded.translations,
         prices = excluded.prices,
         in_stock = excluded.in_stock,
         archived_at = null,
         updated_at = now()
       returning stored.id, stored.sku
     ), given as (
       insert into product_slugs (slug, product_id)
       select input.slug, written.id
       from written
       join import_rows as input on input.id = written.id
       where input.slug is not null
       order by input.slug
     )
     select written.id, written.sku, input.id is not null as "isNew"
     from written
     left join import_rows as input on input.id = written.id`,
  )
  return rows
}

/** Writes the changed stock, and records the author. */
async function writeStock(tx: Transaction, rows: readonly StagedProduct[], by: StockActor): Promise<void> {
  if (!rows.some(changesStock)) return
  const [added, changed] = [stockEventColumns(sql`stock`), stockEventColumns(sql`change.stock`, sql`inventory.event_level`)]
  const { rows: counts } = await tx.query<{ added: number }>(
    sql`with change as (
       select products.id as product_id, input.stock_version, input.stock_before, input.stock, input.reference
       from import_rows as input
       join products on products.sku = input.sku
       where input.stock_version = 0 or input.stock is distinct from input.stock_before
     ), added as (
       insert into inventory (product_id, available, event_level, event_step)
       select product_id, stock, ${added.level}, ${added.step}
       from change
       where stock_version = 0
       order by product_id
       on conflict (product_id) do nothing
       returning product_id
     ), changed as (
       update inventory
       set available = change.stock, version = change.stock_version + 1, event_level = ${changed.level}, event_step = ${changed.step}
       from change
       where change.stock_version > 0 and inventory.product_id = change.product_id
       returning inventory.product_id
     ), kept as (
       insert into stock_adjustments
         (product_id, version, kind, available_before, available_after, reference, actor_type, actor_id)
       select change.product_id, change.stock_version + 1, 'import', change.stock_before, change.stock, change.reference, ${by.type}, ${by.id}
       from change
       join (select product_id from added union all select product_id from changed) as written on written.product_id = change.product_id
       where change.stock is distinct from change.stock_before
     )
     select count(*) as added from added`,
  )
  const expected = rows.filter(({ stockVersion }) => stockVersion === 0).length
  if (counts[0]?.added !== expected) throw new SkuTakenConcurrently()
}

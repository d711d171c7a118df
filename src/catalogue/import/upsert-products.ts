import { randomUUIDv7 } from 'node:crypto'
import type { Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { CURRENT_SLUG } from '../slugs.ts'
import type { StockActor, StockLevel } from '../stock-adjustments.ts'
import { decideSlugs, type SlugDecision, writePages } from './imported-pages.ts'
import type { ImportedProduct } from './imported-product.ts'
import { decideStock } from './imported-stock.ts'
import { type StagedProduct, stageProducts } from './stage-products.ts'

/** The outcome for a product. It is unchanged when neither it nor its stock differs from the database. */
export type Outcome = 'created' | 'updated' | 'unchanged'
/** The reason why nothing of a product was stored. */
export interface Refusal {
  refusal: string
}

/** Another import has created one of the products since their stock was locked. The transaction must be rolled back and retried. */
export class ProductCreatedConcurrently extends Error {
  override readonly name = 'ProductCreatedConcurrently'
}

/**
 * Creates or updates products of different skus, and their stock where they name it; an archived product is sold again. Returns the outcomes
 * in the same order. An unchanged row is not written, so `updated_at` changes with real changes only. Throws ProductCreatedConcurrently.
 */
export async function upsertProducts(
  tx: Transaction,
  products: readonly ImportedProduct[],
  by: StockActor,
): Promise<(Outcome | Refusal)[]> {
  const present = await lockStockOf(tx, products)
  const booked = await findBooked(tx, products, present)
  const slugs = await decideSlugs(tx, products)
  const rows = products.map((product) => toRow(product, slugs.get(product), present.get(product.sku), booked.get(product)))
  const accepted = rows.filter((row): row is StagedProduct => !('refusal' in row))
  await stageProducts(tx, accepted)
  const written = await writeProducts(tx)
  await writeStock(tx, accepted, by)
  const changed = new Set(written)
  const created = new Set(written.filter((sku) => sku.startsWith(CREATED)).map((sku) => sku.slice(CREATED.length)))
  await writePages(tx, [...changed.difference(created), ...created])
  return rows.map((row) => {
    if ('refusal' in row) return row
    return created.has(row.sku) ? 'created' : changed.has(row.sku) || changesStock(row) ? 'updated' : 'unchanged'
  })
}

function toRow(
  product: ImportedProduct,
  slug: SlugDecision = { slug: null },
  present: StockLevel | undefined,
  booked: number | undefined,
): StagedProduct | Refusal {
  const stock = decideStock(product, present, booked)
  if ('refusal' in slug) return slug
  return 'refusal' in stock ? stock : { ...product, id: randomUUIDv7(), stockVersion: present?.version ?? 0, ...slug, ...stock }
}

function changesStock({ stockVersion, before, after }: StagedProduct): boolean {
  return stockVersion === 0 || before !== after
}

interface LockedStock extends StockLevel {
  product_id: string
}

/** The stock of the existing products, by sku. Locked in product order and before the products, as orders do, so that they cannot deadlock. */
async function lockStockOf(tx: Transaction, products: readonly ImportedProduct[]): Promise<Map<string, LockedStock>> {
  const { rows } = await tx.query<LockedStock & { sku: string }>(
    `select products.sku, inventory.product_id, inventory.available, inventory.version
     from products
     join inventory on inventory.product_id = products.id
     where products.sku = any($1)
     order by inventory.product_id
     for update of inventory`,
    [products.map(({ sku }) => sku)],
  )
  return new Map(rows.map((row) => [row.sku, row]))
}

/** Earlier changes under the references of these products. A separate statement, which sees what was committed while the locks waited. */
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

// A sku has no control character.
const CREATED = '\t'

/** Returns the skus of changed products and, with the prefix CREATED, of created ones. */
async function writeProducts(tx: Transaction): Promise<string[]> {
  // The join leaves out unchanged products, which `on conflict` would lock and so write. Ordered by sku, so that two imports that create
  // the same products cannot deadlock. The end of the statement gives a slug to new products without one.
  const { rows } = await tx.query<{ sku: string }>(
    sql`with written as (
       insert into products as stored
         (id, sku, name, description, category, brand, image_url, variant_group, options, attributes, price_amount, price_currency,
          compare_at_amount, in_stock)
       select input.id, input.sku, input.name, input.description, input.category, input.brand, input.image_url, input.variant_group,
         input.options, input.attributes, input.price_amount, input.price_currency, input.compare_at_amount,
         input.stock is null or input.stock > 0
       from import_rows as input
       left join products as product on product.sku = input.sku
       left join product_pages as page on page.product_id = product.id
       where product.id is null
         or product.archived_at is not null
         or (product.name, product.description, product.category, product.brand, product.image_url, product.variant_group,
           product.options, product.attributes, product.price_amount, product.price_currency, product.compare_at_amount, product.in_stock)
         is distinct from (input.name, input.description, input.category, input.brand, input.image_url, input.variant_group,
           input.options, input.attributes, input.price_amount, input.price_currency, input.compare_at_amount,
           input.stock is null or input.stock > 0)
         or (coalesce(page.images, '[]'), page.seo_title, page.seo_description, page.availability_text)
         is distinct from (coalesce(input.images, '[]'), input.seo_title, input.seo_description, input.availability_text)
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
     select case when input.id is null then '' else ${CREATED} end || written.sku as sku
     from written
     left join import_rows as input on input.id = written.id`,
  )
  return rows.map(({ sku }) => sku)
}

/** Writes the stock that changes, and records who changed it. */
async function writeStock(tx: Transaction, rows: readonly StagedProduct[], by: StockActor): Promise<void> {
  if (!rows.some(changesStock)) return
  const { rows: counts } = await tx.query<{ added: number }>(
    `with change as (
       select products.id as product_id, input.stock_version, input.stock_before, input.stock, input.reference
       from import_rows as input
       join products on products.sku = input.sku
       where input.stock_version = 0 or input.stock is distinct from input.stock_before
     ), added as (
       insert into inventory (product_id, available)
       select product_id, stock
       from change
       where stock_version = 0
       order by product_id
       on conflict (product_id) do nothing
       returning product_id
     ), changed as (
       update inventory set available = change.stock, version = change.stock_version + 1
       from change
       where change.stock_version > 0 and inventory.product_id = change.product_id
       returning inventory.product_id
     ), kept as (
       insert into stock_adjustments
         (product_id, version, kind, available_before, available_after, reference, actor_type, actor_id)
       select change.product_id, change.stock_version + 1, 'import', change.stock_before, change.stock, change.reference, $1, $2
       from change
       join (select product_id from added union all select product_id from changed) as written on written.product_id = change.product_id
       where change.stock is distinct from change.stock_before
     )
     select count(*) as added from added`,
    [by.type, by.id],
  )
  const expected = rows.filter(({ stockVersion }) => stockVersion === 0).length
  if (counts[0]?.added !== expected) throw new ProductCreatedConcurrently()
}

import { randomUUIDv7 } from 'node:crypto'
import type { AuditContext } from '../../activity/record-activity.ts'
import type { Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { AppError } from '../../errors.ts'
import { applyDueChanges } from '../apply-due-changes.ts'
import { resolveCategories } from '../categories/product-categories.ts'
import { changeCatalogue } from '../change-catalogue.ts'
import { readGroups } from '../fill-from-groups.ts'
import { mergeProduct } from '../merge-product.ts'
import { findContradiction } from '../normalize-product.ts'
import { findDetails, type StoredProduct } from '../product-details.ts'
import { SLUG_RULE } from '../slugs.ts'
import { type StockWrite, SYSTEM, writeStock } from '../stock-adjustments.ts'
import { type ProductToStore, storeProducts } from '../store-products.ts'
import type { ImportedProduct } from './imported-product.ts'
import { decideStock, type PresentStock } from './imported-stock.ts'

/** A product's outcome. It is unchanged if neither it nor its stock differs from the database. */
export type Outcome = 'created' | 'updated' | 'unchanged'
/** Why nothing of a product was stored. */
export interface Refusal {
  refusal: string
}

type Accepted = ProductToStore & StockWrite

/**
 * Creates or updates products of different skus, and their stock if they name it; archived products are sold again.
 * Returns the outcomes in the same order, and records their numbers. Throws `sku_taken`, or the violation of
 * `products_sku_unique`, if another transaction has just given or taken a sku.
 */
export async function upsertProducts(
  tx: Transaction,
  products: readonly ImportedProduct[],
  auditContext: AuditContext | null,
): Promise<(Outcome | Refusal)[]> {
  const categories = await resolveCategories(tx, products)
  const ids = await findIds(tx, products)
  return changeCatalogue(tx, { ids: [...ids.values()], withStock: true, auditContext }, async (locked) => {
    if (locked.filter(({ id, sku }) => ids.get(sku) === id).length < ids.size) {
      throw new AppError('sku_taken', 'Another product got the sku at the same time.')
    }
    await applyDueChanges(
      tx,
      locked.map(({ id }) => id),
    )
    const levels = await findLevels(tx, products, ids)
    const slugs = await decideSlugs(tx, products)
    const partial = products.filter(({ sku, columns }) => columns !== undefined && ids.has(sku))
    const isTranslated = partial.some(({ translations }) => translations !== undefined)
    const skus = partial.map(({ sku }) => sku)
    const stored = skus.length === 0 ? new Map<string, StoredProduct>() : await findDetails(tx, skus, isTranslated)
    const fill = await readGroups(
      tx,
      [...products, ...stored.values()].map(({ group }) => group),
    )
    const rows = products.map((given, index): Accepted | Refusal => {
      const { sku } = given
      const merged = mergeNamed(stored.get(sku), given)
      const own = 'refusal' in merged || ids.has(sku) ? merged : { translations: {}, ...merged }
      const filled = 'refusal' in own ? own : fill(own)
      const product = filled === own || 'refusal' in filled ? filled : refuseFault(filled, false)
      if ('refusal' in product) return product
      const category = categories[index] ?? { fault: '', at: '' }
      if ('fault' in category) return { refusal: `${category.at.replace('/', ' ')}: ${category.fault}` }
      const slug = slugs.get(given) ?? { slug: null }
      if ('refusal' in slug) return slug
      const level = levels.get(sku)
      const stock = decideStock(given, level)
      if ('refusal' in stock) return stock
      const id = ids.get(sku) ?? randomUUIDv7()
      return {
        id,
        productId: id,
        isNew: !ids.has(sku),
        isFirst: level === undefined,
        product,
        category,
        ...slug,
        ...stock,
        isInStock: stock.after !== 0,
      }
    })
    const accepted = rows.filter((row): row is Accepted => !('refusal' in row))
    const written = await storeProducts(tx, accepted)
    await writeStock(tx, accepted, { kind: 'import', reason: null, by: auditContext?.actor ?? SYSTEM })
    const changed = new Set(written)
    const outcomes = rows.map((row) => {
      if ('refusal' in row) return row
      return row.isNew ? 'created' : changed.has(row.id) || row.before !== row.after ? 'updated' : 'unchanged'
    })
    const count = (wanted: Outcome) => outcomes.filter((outcome) => outcome === wanted).length
    const after = { created: count('created'), updated: count('updated') }
    // Each batch has its own activity, so an aborted import leaves a record of what it stored.
    return { result: outcomes, written, activity: after.created + after.updated === 0 ? null : { subjectId: null, before: null, after } }
  })
}

async function findIds(tx: Transaction, products: readonly ImportedProduct[]): Promise<Map<string, string>> {
  const { rows } = await tx.query<{ id: string; sku: string }>(
    sql`select id, sku from products where sku = any(${products.map(({ sku }) => sku)})`,
  )
  return new Map(rows.map(({ id, sku }) => [sku, id]))
}

/** The locked stock of existing products by sku, with earlier changes under the lines' references. */
async function findLevels(
  tx: Transaction,
  products: readonly ImportedProduct[],
  ids: ReadonlyMap<string, string>,
): Promise<Map<string, PresentStock>> {
  const existing = products.filter(({ sku }) => ids.has(sku))
  if (existing.length === 0) return new Map()
  const { rows } = await tx.query<PresentStock & { sku: string }>(
    sql`select line.sku, inventory.available, earlier.delta as booked
     from unnest(
       ${existing.map(({ sku }) => sku)}::text[], ${existing.map(({ sku }) => ids.get(sku))}::uuid[],
       ${existing.map(({ reference = null }) => reference)}::text[]
     ) as line (sku, product_id, reference)
     join inventory on inventory.product_id = line.product_id
     left join stock_adjustments as earlier
       on earlier.product_id = line.product_id and earlier.reference = line.reference and earlier.kind <> 'count'`,
  )
  return new Map(rows.map((row) => [row.sku, row]))
}

/** A line's slug (null for none), or the reason for the line's refusal. */
type SlugDecision = { slug: string | null } | Refusal

/** Decides the slugs of the lines. A slug is refused if it is or was another product's, or that of an earlier line. */
async function decideSlugs(tx: Transaction, products: readonly ImportedProduct[]): Promise<Map<ImportedProduct, SlugDecision>> {
  const named = products.filter(({ slug }) => slug !== undefined)
  if (named.length === 0) return new Map()
  const { rows } = await tx.query<{ at: number; slug: string | null; owner: string | null }>(
    sql`select line.at, wanted.slug, product.sku as owner
     from unnest(${named.map(({ slug }) => slug)}::text[]) with ordinality as line (text, at)
     cross join slug_of(line.text) as wanted (slug)
     left join product_slugs as taken on taken.slug = wanted.slug
     left join products as product on product.id = taken.product_id
     order by line.at`,
  )
  const owners = new Map<string, string>()
  return new Map(
    rows.map(({ at, slug, owner }): [ImportedProduct, SlugDecision] => {
      const product = named[at - 1] as ImportedProduct
      if (slug === null) return [product, { refusal: SLUG_RULE }]
      const other = owner ?? owners.get(slug) ?? product.sku
      owners.set(slug, other)
      return [product, other === product.sku ? { slug } : { refusal: `slug ${slug} is or was that of the product with the sku ${other}` }]
    }),
  )
}

/** A line's product, completed from the stored one if the file lacks a column. */
function mergeNamed(stored: StoredProduct | undefined, given: ImportedProduct): ImportedProduct | Refusal {
  const { columns, price } = given
  if (stored === undefined || columns === undefined) return given
  if (!columns.has('currency') && price.currency !== stored.price.currency) {
    return { refusal: `currency is missing: the price of this product is in ${stored.price.currency}` }
  }
  return refuseFault(mergeProduct(stored, given, (column) => columns.has(column)))
}

function refuseFault(product: ImportedProduct, hasAllPrices = true): ImportedProduct | Refusal {
  const contradiction = findContradiction(product, hasAllPrices)
  return contradiction === null ? product : { refusal: contradiction.detail }
}

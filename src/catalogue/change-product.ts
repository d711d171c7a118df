import { randomUUIDv7 } from 'node:crypto'
import type { Static } from 'typebox'
import { type AuditContext, cutTexts, difference } from '../activity/record-activity.ts'
import { translateConstraint } from '../db/constraints.ts'
import type { Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { AppError } from '../errors.ts'
import type { IfMatch } from '../http/if-match.ts'
import { applyDueChanges } from './apply-due-changes.ts'
import { shareTree } from './categories/category.ts'
import { assertResolved, resolveCategories } from './categories/product-categories.ts'
import { type ChangedCatalogue, changeCatalogue, inCatalogue } from './change-catalogue.ts'
import { readGroups } from './fill-from-groups.ts'
import { mergeProduct } from './merge-product.ts'
import { assertNoContradiction, normalizeNamed, normalizeProduct } from './normalize-product.ts'
import { editable, getEditedProduct, getProductInAnyState, isNamedBy, productETag, type StoredProduct } from './product-details.ts'
import type { ProductInput, ProductPatchBody } from './product-input.ts'
import { readSlug } from './slugs.ts'
import { writeStock } from './stock-adjustments.ts'
import { type ProductToStore, storeProducts } from './store-products.ts'

/**
 * Adds a product with its stock. Stock is not tracked if `stock` is absent. Throws `sku_taken`, `slug_taken` or
 * `invalid_body`.
 */
export async function createProduct(catalogue: ChangedCatalogue, given: ProductInput, auditContext: AuditContext): Promise<StoredProduct> {
  assertNoContradiction(given)
  const id = randomUUIDv7()
  const { stock = null } = given
  return inCatalogue(catalogue, async (tx) => {
    const category = assertResolved((await resolveCategories(tx, [given]))[0])
    return changeCatalogue(tx, { ids: [], auditContext }, async () => {
      const fill = await readGroups(tx, [given.group])
      const product = fill({ translations: {}, ...given })
      assertNoContradiction(product)
      const slug = product.slug === undefined ? null : await readSlug(tx, product.slug)
      const written = await storeOne(tx, { id, isNew: true, product, category, slug, isInStock: stock !== 0 })
      const change = { productId: id, isFirst: true, before: null, after: stock, reference: null }
      await writeStock(tx, [change], { kind: 'created', reason: null, by: auditContext.actor })
      const result = await getEditedProduct(tx, id)
      const { id: _, archived_at: _archived, ...state } = editable(result)
      const after = cutTexts({ ...state, in_stock: result.in_stock, stock })
      return { result, written, activity: { subjectId: id, before: null, after } }
    })
  })
}

/**
 * Replaces the properties in `patch`, each as a whole, if `ifMatch` names the product's state (RFC 9110 §13.1.1).
 * It does not change stock. Throws `not_found`, `precondition_failed`, `sku_taken`, `slug_taken` or `invalid_body`.
 */
export async function changeProduct(
  catalogue: ChangedCatalogue,
  id: string,
  ifMatch: IfMatch,
  patch: Static<typeof ProductPatchBody>,
  auditContext: AuditContext,
): Promise<StoredProduct> {
  return inCatalogue(catalogue, async (tx) => {
    const [resolved] = await resolveCategories(tx, [normalizeNamed(patch)])
    return changeCatalogue(tx, { ids: [id], auditContext }, async () => {
      // Due changes get their own activity.
      await applyDueChanges(tx, [id])
      const current = await getMatching(tx, id, ifMatch)
      const { translations } = current
      const merged = { translations, ...patchProduct(current, patch) }
      const fill = await readGroups(tx, [merged.group])
      const product = fill(merged)
      assertNoContradiction(product)
      const category = assertResolved(resolved)
      const slug = product.slug === undefined ? null : await readSlug(tx, product.slug)
      const written = await storeOne(tx, { id, isNew: false, product, category, slug, isInStock: current.in_stock })
      const result = await getEditedProduct(tx, id)
      const differing = difference(editable(current), editable(result))
      return { result, written, activity: differing && { subjectId: result.id, ...differing } }
    })
  })
}

/** The product with the properties of a patch in the place of its own. */
export function patchProduct(current: StoredProduct, patch: Static<typeof ProductPatchBody>): ProductInput {
  const { sku, name, price, prices, published_at, unpublished_at } = current
  const given = normalizeProduct({ ...{ sku, name, price, prices, published_at, unpublished_at }, ...patch })
  return mergeProduct(current, given, (column) => isNamedIn(patch, column))
}

/** Whether a patch names a column, for `mergeProduct`. A patch replaces translations, prices and `seo` as a whole. */
function isNamedIn(patch: object, column: string): boolean {
  return column.includes(':') || Object.hasOwn(patch, column.startsWith('seo_') ? 'seo' : column)
}

async function storeOne(tx: Transaction, row: ProductToStore): Promise<string[]> {
  try {
    return await storeProducts(tx, [row])
  } catch (error) {
    throw translateConstraint(error)
  }
}

/**
 * Removes a product from all lists and from sale. Orders keep their copy of it. Throws `not_found` or
 * `precondition_failed`.
 */
export async function archiveProduct(catalogue: ChangedCatalogue, id: string, ifMatch: IfMatch, auditContext: AuditContext): Promise<void> {
  await inCatalogue(catalogue, (tx) =>
    changeCatalogue(tx, { ids: [id], auditContext }, async () => {
      const product = await getMatching(tx, id, ifMatch)
      await tx.query(
        sql`update products set archived_at = clock_timestamp(), is_withheld = false, updated_at = clock_timestamp() where id = ${id}`,
      )
      const states = { before: { is_archived: false }, after: { is_archived: true } }
      return { result: undefined, written: [id], activity: { subjectId: product.id, ...states } }
    }),
  )
}

/**
 * Returns an archived product to its previous place: the shop, or the drafts, planned and ended products. Removes an
 * `unpublished_at` that passed while the product was archived. A product that is not archived stays unchanged. Throws
 * `not_found` or `precondition_failed`.
 */
export async function restoreProduct(
  catalogue: ChangedCatalogue,
  id: string,
  ifMatch: IfMatch,
  auditContext: AuditContext,
): Promise<StoredProduct> {
  return inCatalogue(catalogue, async (tx) => {
    // Restoring may recreate the product's category.
    await shareTree(tx)
    return changeCatalogue(tx, { ids: [id], auditContext }, async () => {
      const archived = await getProductInAnyState(tx, id)
      assertMatching(archived, ifMatch)
      const { rows } = await tx.query<{ id: string }>(
        sql`update products
        set archived_at = null, updated_at = greatest(clock_timestamp(), updated_at + interval '1 millisecond'),
          unpublished_at = case
            when unpublished_at > archived_at and unpublished_at <= clock_timestamp() then null
            else unpublished_at
          end,
          -- The category may have another name since.
          category = coalesce(
            (
              select category.name
              from product_categories as member
              join categories as category on category.id = member.category_id
              where member.product_id = products.id and member.position = 0
            ),
            category
          )
        where id = ${id} and archived_at is not null and not is_withheld
        returning id`,
      )
      const written = rows.map((row) => row.id)
      const result = await getEditedProduct(tx, id)
      const states = difference(
        { is_archived: true, unpublished_at: archived.unpublished_at },
        { is_archived: false, unpublished_at: result.unpublished_at },
      )
      return { result, written, activity: written.length === 0 ? null : states && { subjectId: result.id, ...states } }
    })
  })
}

async function getMatching(tx: Transaction, id: string, ifMatch: IfMatch): Promise<StoredProduct> {
  const product = await getEditedProduct(tx, id)
  assertMatching(product, ifMatch)
  return product
}

function assertMatching(product: StoredProduct, ifMatch: IfMatch): void {
  if (isNamedBy(product, ifMatch)) return
  const headers = { etag: `"${productETag(product)}"` }
  throw new AppError('precondition_failed', 'The product has changed since the version in If-Match.', { headers })
}

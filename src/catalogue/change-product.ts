import type { Static } from 'typebox'
import { type AuditContext, difference, recordActivity } from '../activity/record-activity.ts'
import { translateConstraint } from '../db/constraints.ts'
import type { Pool, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { AppError } from '../errors.ts'
import type { IfMatch } from '../http/if-match.ts'
import { assertResolved, resolveCategories, saveCategories } from './categories/product-categories.ts'
import { renameBeforeChange } from './categories/rename-products.ts'
import { assertNoContradiction, isReduced, normalizeNamed, normalizeProduct } from './normalize-product.ts'
import { toStoredPrices } from './offered-prices.ts'
import {
  editable,
  getProduct,
  getProductForUpdate,
  imagesOf,
  isNamedBy,
  productETag,
  type StoredProduct,
  savePage,
} from './product-details.ts'
import { recordProductEvents, recordProductsWithoutEvents } from './product-events.ts'
import type { ProductPatchBody } from './product-input.ts'
import { changeSlugs, readSlug } from './slugs.ts'

type ProductPatch = Static<typeof ProductPatchBody>

/**
 * Replaces the properties of `patch`, each as a whole, if `ifMatch` names the product's state (RFC 9110 §13.1.1). Stock is changed by
 * `setStock`. Throws `not_found`, `precondition_failed`, `sku_taken`, `slug_taken` or `invalid_body`.
 */
export async function changeProduct(
  pool: Pool,
  id: string,
  ifMatch: IfMatch,
  patch: ProductPatch,
  auditContext: AuditContext,
): Promise<StoredProduct> {
  return inTransaction(pool, async (tx) => {
    // Categories come before the product, as in an import: this may lock the tree.
    const [resolved = { name: '', ids: null }] = await resolveCategories(tx, [normalizeNamed(patch)])
    const current = await getMatchingForUpdate(tx, id, ifMatch)
    const next = normalizeProduct(merge(current, patch))
    assertNoContradiction(next)
    const category = assertResolved(resolved)
    await recordProductsWithoutEvents(tx, [id])
    if (patch.category !== undefined) await renameBeforeChange(tx, [id])
    // Categories come before the product, whose change gives its keys to them.
    if (category.ids !== null) await saveCategories(tx, id, category.ids)
    const slug = await readSlug(tx, next.slug ?? current.slug)
    try {
      await tx.query(
        sql`update products
         set sku = ${next.sku}, name = ${next.name}, description = ${next.description}, category = ${category.ids === null ? next.category : category.name}, brand = ${next.brand},
           image_url = ${next.image_url}, variant_group = ${next.group}, options = ${next.options},
           attributes = ${next.attributes}, translations = ${next.translations ?? {}},
           prices = ${toStoredPrices(next.prices ?? [])},
           price_amount = ${next.price.amount}, price_currency = ${next.price.currency},
           compare_at_amount = ${next.compare_at_price?.amount ?? null},
           -- Two changes within a millisecond still get different entity tags.
           updated_at = greatest(clock_timestamp(), updated_at + interval '1 millisecond')
         where id = ${id}`,
      )
      if (slug !== current.slug) await changeSlugs(tx, [{ productId: id, slug }])
    } catch (error) {
      throw translateConstraint(error)
    }
    await savePage(tx, id, next)
    const changed = await getProduct(tx, id)
    await recordProductEvents(tx, [id], auditContext.traceparent ?? null)
    const differing = difference(editable(current), editable(changed))
    if (differing !== null) await recordActivity(tx, auditContext, { subjectType: 'product', subjectId: changed.id, ...differing })
    return changed
  })
}

/**
 * `category` alone replaces the first category; `categories` bring their own. `image_url` alone replaces the first
 * image, and null removes all; `images` bring their own. A price alone that is not below `compare_at_price` removes it,
 * so that a program that only sends prices is not refused.
 */
function merge(current: StoredProduct, patch: ProductPatch) {
  const { category, categories: _categories, ...stored } = current
  const {
    id: _,
    lowest_price_30_days: _lowest,
    lowestPriorAmounts: _amounts,
    in_stock: _stock,
    created_at: _created,
    updated_at: _updated,
    ...known
  } = stored
  const merged = { ...known, ...(patch.categories === undefined ? { category } : {}), ...patch }
  const { compare_at_price: before } = current
  if (patch.compare_at_price === undefined && before !== null && !isReduced(merged.price, before)) merged.compare_at_price = null
  if (patch.images === undefined) return { ...merged, images: imagesOf(merged.image_url, current.images) }
  const { image_url: _former, ...others } = merged
  return patch.image_url === undefined ? others : merged
}

/** Removes a product from every list and from sale; orders keep their copy. Throws `not_found` or `precondition_failed`. */
export async function archiveProduct(pool: Pool, id: string, ifMatch: IfMatch, auditContext: AuditContext): Promise<void> {
  await inTransaction(pool, async (tx) => {
    const product = await getMatchingForUpdate(tx, id, ifMatch)
    await recordProductsWithoutEvents(tx, [id])
    await tx.query('update products set archived_at = clock_timestamp(), updated_at = clock_timestamp() where id = $1', [id])
    await recordProductEvents(tx, [id], auditContext.traceparent ?? null)
    const states = { before: { is_archived: false }, after: { is_archived: true } }
    await recordActivity(tx, auditContext, { subjectType: 'product', subjectId: product.id, ...states })
  })
}

async function getMatchingForUpdate(tx: Transaction, id: string, ifMatch: IfMatch): Promise<StoredProduct> {
  const product = await getProductForUpdate(tx, id)
  if (isNamedBy(product, ifMatch)) return product
  const headers = { etag: `"${productETag(product)}"` }
  throw new AppError('precondition_failed', 'The product is not in a state that If-Match names.', { headers })
}

import type { Static } from 'typebox'
import { type Doing, difference, recordActivity } from '../activity/record-activity.ts'
import { translateConstraint } from '../db/constraints.ts'
import type { Pool, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { AppError } from '../errors.ts'
import type { IfMatch } from '../http/if-match.ts'
import { getProduct, getProductForUpdate, imagesOf, type ProductDetails, productETag, savePage } from './product-details.ts'
import { assertNoContradiction, isReduced, normalizeProduct, type ProductPatchBody } from './product-input.ts'
import { changeSlugs, readSlug } from './slugs.ts'

type ProductPatch = Static<typeof ProductPatchBody>

/**
 * Replaces the properties of `patch`, each as a whole, if `ifMatch` names the product's state (RFC 9110 §13.1.1). Stock is changed by
 * `setStock`. Throws `not_found`, `precondition_failed`, `sku_taken`, `slug_taken` or `invalid_body`.
 */
export async function changeProduct(pool: Pool, id: string, ifMatch: IfMatch, patch: ProductPatch, doing: Doing): Promise<ProductDetails> {
  return inTransaction(pool, async (tx) => {
    const current = await getMatchingForUpdate(tx, id, ifMatch)
    const next = normalizeProduct(merge(current, patch))
    assertNoContradiction(next)
    const slug = await readSlug(tx, next.slug ?? current.slug)
    try {
      await tx.query(
        sql`update products
         set sku = ${next.sku}, name = ${next.name}, description = ${next.description}, category = ${next.category}, brand = ${next.brand},
           image_url = ${next.image_url}, variant_group = ${next.group}, options = ${next.options},
           attributes = ${next.attributes},
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
    const differing = difference(comparable(current), comparable(changed))
    if (differing !== null) await recordActivity(tx, doing, { subjectType: 'product', subjectId: changed.id, ...differing })
    return changed
  })
}

/**
 * `image_url` alone replaces the first image, and null removes all; `images` bring their own first one. A new price alone ends a reduction
 * that it is not below: a program that sends prices is not refused for what it does not know.
 */
function merge(current: ProductDetails, patch: ProductPatch) {
  const { id: _, in_stock: _stock, created_at: _created, updated_at: _updated, ...known } = current
  const merged = { ...known, ...patch }
  const { compare_at_price: before } = current
  if (patch.compare_at_price === undefined && before !== null && !isReduced(merged.price, before)) merged.compare_at_price = null
  if (patch.images === undefined) return { ...merged, images: imagesOf(merged.image_url, current.images) }
  const { image_url: _former, ...others } = merged
  return patch.image_url === undefined ? others : merged
}

/** What an operator can change. */
function comparable({ created_at: _created, updated_at: _updated, in_stock: _stock, ...product }: ProductDetails): object {
  return product
}

/** Removes a product from every list and from sale; orders keep their copy. Throws `not_found` or `precondition_failed`. */
export async function archiveProduct(pool: Pool, id: string, ifMatch: IfMatch, doing: Doing): Promise<void> {
  await inTransaction(pool, async (tx) => {
    const product = await getMatchingForUpdate(tx, id, ifMatch)
    await tx.query('update products set archived_at = clock_timestamp(), updated_at = clock_timestamp() where id = $1', [id])
    const states = { before: { is_archived: false }, after: { is_archived: true } }
    await recordActivity(tx, doing, { subjectType: 'product', subjectId: product.id, ...states })
  })
}

async function getMatchingForUpdate(tx: Transaction, id: string, ifMatch: IfMatch): Promise<ProductDetails> {
  const product = await getProductForUpdate(tx, id)
  const etag = productETag(product)
  if (ifMatch === null || ifMatch.has(etag)) return product
  throw new AppError('precondition_failed', 'The product is not in a state that If-Match names.', { headers: { etag: `"${etag}"` } })
}

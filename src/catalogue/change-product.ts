import { type Doing, difference, recordActivity } from '../activity/record-activity.ts'
import { translateConstraint } from '../db/constraints.ts'
import type { Pool, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { AppError, notFound } from '../errors.ts'
import type { IfMatch } from '../http/if-match.ts'
import { normalizeProduct, type ProductInput } from './product-input.ts'
import { PRODUCT_COLUMNS, type Product, type ProductRow, productETag, toProduct } from './products.ts'

export type ProductPatch = Partial<Omit<ProductInput, 'stock'>>

/**
 * Replaces the properties of `patch`, each as a whole, if `ifMatch` names the product's state (RFC 9110 §13.1.1). Stock is changed by
 * `setStock`. Throws `not_found`, `precondition_failed` or `sku_taken`.
 */
export async function changeProduct(pool: Pool, id: string, ifMatch: IfMatch, patch: ProductPatch, doing: Doing): Promise<Product> {
  return inTransaction(pool, async (tx) => {
    const current = await getProductForUpdate(tx, id, ifMatch)
    const { sku, name, description, category, image_url, group, options, attributes, price } = { ...current, ...patch }
    const next = normalizeProduct({ sku, name, description, category, image_url, group, options, attributes, price })
    try {
      const { rows } = await tx.query<ProductRow>(
        sql`update products as product
         set sku = ${next.sku}, name = ${next.name}, description = ${next.description}, category = ${next.category},
           image_url = ${next.image_url}, variant_group = ${next.group}, options = ${next.options},
           attributes = ${next.attributes},
           price_amount = ${next.price.amount}, price_currency = ${next.price.currency},
           -- Two changes within a millisecond still get different entity tags.
           updated_at = greatest(clock_timestamp(), updated_at + interval '1 millisecond')
         where id = ${id}
         returning ${PRODUCT_COLUMNS}`,
      )
      const changed = toProduct(rows[0] as ProductRow)
      const differing = difference(comparable(current), comparable(changed))
      if (differing !== null) await recordActivity(tx, doing, { subjectType: 'product', subjectId: changed.id, ...differing })
      return changed
    } catch (error) {
      throw translateConstraint(error)
    }
  })
}

/** What an operator can change. */
function comparable({ created_at: _created, updated_at: _updated, in_stock: _stock, ...product }: Product): object {
  return product
}

/** Removes a product from every list and from sale; orders keep their copy. Throws `not_found` or `precondition_failed`. */
export async function archiveProduct(pool: Pool, id: string, ifMatch: IfMatch, doing: Doing): Promise<void> {
  await inTransaction(pool, async (tx) => {
    const product = await getProductForUpdate(tx, id, ifMatch)
    await tx.query('update products set archived_at = clock_timestamp(), updated_at = clock_timestamp() where id = $1', [id])
    const states = { before: { is_archived: false }, after: { is_archived: true } }
    await recordActivity(tx, doing, { subjectType: 'product', subjectId: product.id, ...states })
  })
}

async function getProductForUpdate(tx: Transaction, id: string, ifMatch: IfMatch): Promise<Product> {
  const { rows } = await tx.query<ProductRow>(
    sql`select ${PRODUCT_COLUMNS}
    from products as product
    where id = ${id} and archived_at is null
    for update`,
  )
  if (rows[0] === undefined) throw notFound('product')
  const product = toProduct(rows[0])
  const etag = productETag(product)
  if (ifMatch === null || ifMatch.has(etag)) return product
  throw new AppError('precondition_failed', 'The product is not in a state that If-Match names.', { headers: { etag: `"${etag}"` } })
}

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
export async function changeProduct(pool: Pool, id: string, ifMatch: IfMatch, patch: ProductPatch): Promise<Product> {
  return inTransaction(pool, async (tx) => {
    const current = await getProductForUpdate(tx, id, ifMatch)
    const { sku, name, description, category, image_url, group, options, price } = { ...current, ...patch }
    const next = normalizeProduct({ sku, name, description, category, image_url, group, options, price })
    try {
      const { rows } = await tx.query<ProductRow>(
        sql`update products as product
         set sku = ${next.sku}, name = ${next.name}, description = ${next.description}, category = ${next.category},
           image_url = ${next.image_url}, variant_group = ${next.group}, options = ${next.options},
           price_amount = ${next.price.amount}, price_currency = ${next.price.currency},
           -- Two changes within a millisecond still get different entity tags.
           updated_at = greatest(clock_timestamp(), updated_at + interval '1 millisecond')
         where id = ${id}
         returning ${PRODUCT_COLUMNS}`,
      )
      return toProduct(rows[0] as ProductRow)
    } catch (error) {
      throw translateConstraint(error)
    }
  })
}

/** Removes a product from every list and from sale; orders keep their copy. Throws `not_found` or `precondition_failed`. */
export async function archiveProduct(pool: Pool, id: string, ifMatch: IfMatch): Promise<void> {
  await inTransaction(pool, async (tx) => {
    await getProductForUpdate(tx, id, ifMatch)
    await tx.query('update products set archived_at = clock_timestamp(), updated_at = clock_timestamp() where id = $1', [id])
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

import { translateConstraint } from '../db/constraints.ts'
import type { Pool, Transaction } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import { AppError, notFound } from '../errors.ts'
import type { ImportedProduct } from './imported-product.ts'
import { readProductBody } from './product-input.ts'
import { type Product, type ProductRow, productColumns, productETag, toProduct } from './products.ts'

export type ProductPatch = Partial<Omit<ImportedProduct, 'stock'>>

/**
 * Changes what `patch` names (RFC 7396), if the product is as `ifMatch` says (RFC 9110 §13.1.1). Stock is not touched: see `setStock`.
 * Throws `not_found`, `product_changed`, `invalid_body` or `sku_taken`.
 */
export async function changeProduct(pool: Pool, id: string, ifMatch: string, patch: ProductPatch): Promise<Product> {
  return inTransaction(pool, async (tx) => {
    const current = await getProductForUpdate(tx, id, ifMatch)
    const { sku, name, description, category, image_url, group, options, price } = { ...current, ...patch }
    const next = readProductBody({ sku, name, description, category, image_url, group, options, price })
    try {
      const { rows } = await tx.query<ProductRow>(
        `update products
         set sku = $2, name = $3, description = $4, category = $5, image_url = $6, variant_group = $7, options = $8,
           price_amount = $9, price_currency = $10,
           -- Two changes within a millisecond are still two states.
           updated_at = greatest(clock_timestamp(), updated_at + interval '1 millisecond')
         where id = $1
         returning ${productColumns('products')}`,
        [
          ...[id, next.sku, next.name, next.description, next.category, next.image_url, next.group, next.options],
          ...[next.price.amount, next.price.currency],
        ],
      )
      return toProduct(rows[0] as ProductRow)
    } catch (error) {
      throw translateConstraint(error)
    }
  })
}

/** Takes a product out of every list and out of sale; orders keep their copy of it. Throws `not_found` or `product_changed`. */
export async function archiveProduct(pool: Pool, id: string, ifMatch: string): Promise<void> {
  await inTransaction(pool, async (tx) => {
    await getProductForUpdate(tx, id, ifMatch)
    await tx.query('update products set archived_at = clock_timestamp(), updated_at = clock_timestamp() where id = $1', [id])
  })
}

async function getProductForUpdate(tx: Transaction, id: string, ifMatch: string): Promise<Product> {
  const { rows } = await tx.query<ProductRow>(
    `select ${productColumns('products')}
    from products
    where id = $1 and archived_at is null
    for update`,
    [id],
  )
  if (rows[0] === undefined) throw notFound('product')
  const product = toProduct(rows[0])
  const etag = productETag(product)
  // The tag of any encoding of the product means the product.
  const wanted = ifMatch.split(',').map((tag) => tag.trim().replace(/-(gzip|gz|br)"$/, '"'))
  if (wanted.includes('*') || wanted.includes(`"${etag}"`)) return product
  throw new AppError('product_changed', 'The product is no longer as If-Match says.', { headers: { etag: `"${etag}"` } })
}

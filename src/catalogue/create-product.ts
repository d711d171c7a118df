import { randomUUIDv7 } from 'node:crypto'
import { translateConstraint } from '../db/constraints.ts'
import type { Pool } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import type { ImportedProduct } from './imported-product.ts'
import { type Product, type ProductRow, productColumns, toProduct } from './products.ts'

/** Adds a product and its stock. Throws `sku_taken`. */
export async function createProduct(pool: Pool, product: ImportedProduct): Promise<Product> {
  const { sku, name, description, category, image_url, group, options, price, stock } = product
  return inTransaction(pool, async (tx) => {
    try {
      const { rows } = await tx.query<ProductRow>(
        `insert into products
           (id, sku, name, description, category, image_url, variant_group, options, price_amount, price_currency, in_stock)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
         returning ${productColumns('products')}`,
        [randomUUIDv7(), sku, name, description, category, image_url, group, options, price.amount, price.currency, stock !== 0],
      )
      const created = toProduct(rows[0] as ProductRow)
      await tx.query('insert into inventory (product_id, available) values ($1, $2)', [created.id, stock])
      return created
    } catch (error) {
      throw translateConstraint(error)
    }
  })
}

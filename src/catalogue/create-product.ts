import { randomUUIDv7 } from 'node:crypto'
import { cutTexts, type Doing, recordActivity } from '../activity/record-activity.ts'
import { translateConstraint } from '../db/constraints.ts'
import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import type { ProductInput } from './product-input.ts'
import { PRODUCT_COLUMNS, type Product, type ProductRow, toProduct } from './products.ts'
import { insertAdjustment } from './stock-adjustments.ts'

/** Adds a product with its stock, which is not tracked without `stock`. Throws `sku_taken`. */
export async function createProduct(pool: Pool, product: ProductInput, doing: Doing): Promise<Product> {
  const { sku, name, description, category, image_url, group, options, attributes, price, stock = null } = product
  return inTransaction(pool, async (tx) => {
    try {
      const { rows } = await tx.query<ProductRow>(
        sql`insert into products as product
           (id, sku, name, description, category, image_url, variant_group, options, attributes, price_amount, price_currency, in_stock)
         values (${randomUUIDv7()}, ${sku}, ${name}, ${description}, ${category}, ${image_url}, ${group}, ${options},
           ${attributes}, ${price.amount}, ${price.currency}, ${stock !== 0})
         returning ${PRODUCT_COLUMNS}`,
      )
      const created = toProduct(rows[0] as ProductRow)
      await tx.query('insert into inventory (product_id, available) values ($1, $2)', [created.id, stock])
      if (stock !== null) {
        const change = { kind: 'created', after: stock, reference: null, reason: null, by: doing.actor } as const
        await insertAdjustment(tx, created.id, { available: null, version: 0 }, change)
      }
      const { id, created_at: _created, updated_at: _updated, ...state } = created
      const after = cutTexts({ ...state, stock })
      await recordActivity(tx, doing, { subjectType: 'product', subjectId: id, before: null, after })
      return created
    } catch (error) {
      throw translateConstraint(error)
    }
  })
}

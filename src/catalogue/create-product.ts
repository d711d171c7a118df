import { randomUUIDv7 } from 'node:crypto'
import { cutTexts, type Doing, recordActivity } from '../activity/record-activity.ts'
import { translateConstraint } from '../db/constraints.ts'
import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { getProduct, type ProductDetails, savePage } from './product-details.ts'
import { assertNoContradiction, type ProductInput } from './product-input.ts'
import { readSlug } from './slugs.ts'
import { insertAdjustment } from './stock-adjustments.ts'

/** Adds a product with its stock, which is not tracked without `stock`. Throws `sku_taken`, `slug_taken` or `invalid_body`. */
export async function createProduct(pool: Pool, product: ProductInput, doing: Doing): Promise<ProductDetails> {
  const { sku, name, description, category, brand, image_url, group, options, attributes, price, compare_at_price, stock = null } = product
  assertNoContradiction(product)
  const id = randomUUIDv7()
  return inTransaction(pool, async (tx) => {
    const slug = product.slug === undefined ? null : await readSlug(tx, product.slug)
    try {
      // One statement: its end gives a slug to products without one.
      await tx.query(
        sql`with created as (
           insert into products
             (id, sku, name, description, category, brand, image_url, variant_group, options, attributes, price_amount, price_currency,
              compare_at_amount, in_stock)
           values (${id}, ${sku}, ${name}, ${description}, ${category}, ${brand}, ${image_url}, ${group}, ${options},
             ${attributes}, ${price.amount}, ${price.currency}, ${compare_at_price?.amount ?? null}, ${stock !== 0})
           returning id
         )
         insert into product_slugs (slug, product_id) select ${slug}, id from created where ${slug}::text is not null`,
      )
    } catch (error) {
      throw translateConstraint(error)
    }
    await savePage(tx, id, product)
    await tx.query('insert into inventory (product_id, available) values ($1, $2)', [id, stock])
    if (stock !== null) {
      const change = { kind: 'created', after: stock, reference: null, reason: null, by: doing.actor } as const
      await insertAdjustment(tx, id, { available: null, version: 0 }, change)
    }
    const created = await getProduct(tx, id)
    const { id: _, created_at: _created, updated_at: _updated, ...state } = created
    const after = cutTexts({ ...state, stock })
    await recordActivity(tx, doing, { subjectType: 'product', subjectId: id, before: null, after })
    return created
  })
}

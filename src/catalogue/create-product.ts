import { randomUUIDv7 } from 'node:crypto'
import { type AuditContext, cutTexts, recordActivity } from '../activity/record-activity.ts'
import { translateConstraint } from '../db/constraints.ts'
import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { resolveProductCategories, saveCategories } from './categories/product-categories.ts'
import { assertNoContradiction } from './normalize-product.ts'
import { toStoredPrices } from './offered-prices.ts'
import { getProduct, type StoredProduct, savePage } from './product-details.ts'
import { recordProductEvents, stockEventColumns } from './product-events.ts'
import type { ProductInput } from './product-input.ts'
import { readSlug } from './slugs.ts'
import { insertAdjustment } from './stock-adjustments.ts'

/** Adds a product with its stock, which is not tracked without `stock`. Throws `sku_taken`, `slug_taken` or `invalid_body`. */
export async function createProduct(pool: Pool, product: ProductInput, auditContext: AuditContext): Promise<StoredProduct> {
  const {
    sku,
    name,
    description,
    brand,
    image_url,
    group,
    options,
    attributes,
    price,
    compare_at_price,
    translations = {},
    prices = [],
    stock = null,
  } = product
  assertNoContradiction(product)
  const id = randomUUIDv7()
  return inTransaction(pool, async (tx) => {
    const category = await resolveProductCategories(tx, product)
    const slug = product.slug === undefined ? null : await readSlug(tx, product.slug)
    try {
      // It must be one statement: its end gives a slug to products without one.
      await tx.query(
        sql`with created as (
           insert into products
             (id, sku, name, description, category, brand, image_url, variant_group, options, attributes, price_amount, price_currency,
              compare_at_amount, translations, prices, in_stock)
           values (${id}, ${sku}, ${name}, ${description}, ${category.name}, ${brand}, ${image_url}, ${group}, ${options},
             ${attributes}, ${price.amount}, ${price.currency}, ${compare_at_price?.amount ?? null},
             ${translations}, ${toStoredPrices(prices)}, ${stock !== 0})
           returning id
         )
         insert into product_slugs (slug, product_id) select ${slug}, id from created where ${slug}::text is not null`,
      )
    } catch (error) {
      throw translateConstraint(error)
    }
    await savePage(tx, id, product)
    if (category.ids !== null) await saveCategories(tx, id, category.ids)
    const event = stockEventColumns(sql`${stock}::bigint`)
    await tx.query(
      sql`insert into inventory (product_id, available, event_level, event_step) values (${id}, ${stock}, ${event.level}, ${event.step})`,
    )
    if (stock !== null) {
      const change = { kind: 'created', after: stock, reference: null, reason: null, by: auditContext.actor } as const
      await insertAdjustment(tx, id, { available: null }, change)
    }
    const created = await getProduct(tx, id)
    const {
      id: _,
      lowest_price_30_days: _lowest,
      lowestPriorAmounts: _amounts,
      created_at: _created,
      updated_at: _updated,
      ...state
    } = created
    const after = cutTexts({ ...state, stock })
    await recordActivity(tx, auditContext, { subjectType: 'product', subjectId: id, before: null, after })
    await recordProductEvents(tx, [id], auditContext.traceparent ?? null)
    return created
  })
}

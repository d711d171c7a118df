import { type Static, Type } from 'typebox'
import type { Queryable } from '../db/pool.ts'
import { commaList, literal, noSql, sql } from '../db/sql.ts'
import { isSoldIn } from './offered-prices.ts'
import { MAX_VARIANTS } from './product-rules.ts'
import { PRODUCT, type ProductRow, ProductSchema, type ProductView, priceColumns, pricesOf } from './products.ts'
import { CURRENT_SLUG } from './slugs.ts'

const { id, slug, sku, name, image_url, options, price, compare_at_price, lowest_price_30_days, in_stock } = ProductSchema.properties
export const PageVariantsSchema = Type.Array(
  Type.Object(
    { ...{ id, slug, sku, name, image_url, options, price, compare_at_price, lowest_price_30_days, in_stock } },
    { title: 'PageVariant' },
  ),
  {
    description: `The variants of the group that are in the shop, with the product itself, oldest first, at most ${MAX_VARIANTS}. Present only with \`include=variants\`, and only if the product has a group.`,
  },
)
export type PageVariants = Static<typeof PageVariantsSchema>

type VariantRow = Pick<
  ProductRow,
  | ('id' | 'slug' | 'sku' | 'name' | 'image_url' | 'options' | 'in_stock')
  | ('price_amount' | 'price_currency' | 'compare_at_amount' | 'lowest_prior_amount')
>

/** The variants of a group for the selector of a page: those that are sold in the view's currency. */
export async function listPageVariants(db: Queryable, group: string, view: ProductView): Promise<PageVariants> {
  const { languages, currency } = view
  const names = languages.map((language) => sql`product.translations -> ${language}::text ->> 'name'`)
  const { rows } = await db.query<VariantRow>(
    sql`select product.id, ${CURRENT_SLUG} as slug, product.sku, coalesce(${commaList([...names, sql`product.name`])}) as name,
      product.image_url, product.options, product.in_stock, ${priceColumns(currency)}
    from products as product
    where product.variant_group = ${group} and product.archived_at is null
      ${currency === null ? noSql : sql`and ${isSoldIn(PRODUCT, currency)}`}
    order by product.id
    limit ${literal(MAX_VARIANTS)}`,
  )
  return rows.map((row) => {
    const { id, slug, sku, name, image_url, options, in_stock } = row
    return { ...{ id, slug, sku, name, image_url, options }, ...pricesOf(row), in_stock }
  })
}

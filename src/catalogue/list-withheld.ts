import { type Static, Type } from 'typebox'
import type { Queryable } from '../db/pool.ts'
import { noSql, sql } from '../db/sql.ts'
import { type IdPosition, type Page, PageOf, type Paging } from '../http/pagination.ts'
import { EXAMPLE_WITHHELD_PRODUCT } from './examples.ts'
import { PublicationSchema } from './product-details.ts'
import { ProductSchema } from './products.ts'

const { id, sku, name, category, updated_at } = ProductSchema.properties
const WithheldProductSchema = Type.Object(
  { id, sku, name, category, ...PublicationSchema.properties, updated_at },
  { title: 'WithheldProduct', examples: [EXAMPLE_WITHHELD_PRODUCT] },
)
type WithheldProduct = Static<typeof WithheldProductSchema>
export const WithheldProductPageSchema = PageOf(WithheldProductSchema)

interface WithheldRow extends Omit<WithheldProduct, 'published_at' | 'unpublished_at' | 'updated_at'> {
  published_at: Date | null
  unpublished_at: Date | null
  updated_at: Date
}

/** A page of the drafts and the products outside of their time, by id, the newest first. */
export async function listWithheld(
  db: Queryable,
  { limit, after, page }: Paging<Static<typeof IdPosition>>,
): Promise<Page<WithheldProduct>> {
  const before = after === undefined ? noSql : sql`and id < ${after[0]}::uuid`
  const { rows } = await db.query<WithheldRow>(
    sql`select id, sku, name, category, status, published_at, unpublished_at, updated_at
    from products
    where is_withheld ${before}
    order by id desc
    limit ${limit + 1}`,
  )
  return page(rows, toWithheld, (row) => [row.id])
}

function toWithheld({ published_at, unpublished_at, updated_at, ...row }: WithheldRow): WithheldProduct {
  return {
    ...row,
    published_at: published_at?.toISOString() ?? null,
    unpublished_at: unpublished_at?.toISOString() ?? null,
    updated_at: updated_at.toISOString(),
  }
}

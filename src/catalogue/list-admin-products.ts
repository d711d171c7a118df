import { type Static, Type } from 'typebox'
import type { Queryable } from '../db/pool.ts'
import { allOf, sql } from '../db/sql.ts'
import { type IdPosition, type Page, PageOf, type Paging } from '../http/pagination.ts'
import { EXAMPLE_ADMIN_PRODUCT } from './examples.ts'
import { PublicationSchema } from './product-details.ts'
import { ProductIds } from './product-query.ts'
import { ProductSchema } from './products.ts'

const { id, sku, name, category, image_url, group, options, price, updated_at } = ProductSchema.properties
const States = Type.Enum(['active', 'withheld', 'archived'])
const AdminProductSchema = Type.Object(
  {
    ...{ id, sku, name, category, image_url, group, options, price },
    state: { ...States, description: '`active`: in the shop. `withheld`: a draft, or outside its time. `archived`: by an operator.' },
    ...PublicationSchema.properties,
    archived_at: Type.Union([Type.String({ format: 'date-time' }), Type.Null()], {
      description: 'When the product was archived. Null if it is not archived.',
    }),
    updated_at,
  },
  { title: 'AdminProduct', examples: [EXAMPLE_ADMIN_PRODUCT] },
)
type AdminProduct = Static<typeof AdminProductSchema>
export const AdminProductPageSchema = PageOf(AdminProductSchema)

export const AdminProductFilters = Type.Object({
  state: Type.Optional(
    Type.Enum(['withheld', 'archived'], {
      description: 'By default `withheld`, or every state if `group`, `sku` or `ids` is given. `GET /products` lists the active products.',
    }),
  ),
  group: Type.Optional(Type.String({ minLength: 1, maxLength: 64, description: 'Only products of this group of variants.' })),
  sku: Type.Optional(Type.String({ minLength: 1, maxLength: 64, description: 'The product with this sku.' })),
  ids: Type.Optional(ProductIds),
})

interface AdminProductRow extends Omit<AdminProduct, 'group' | 'price' | 'published_at' | 'unpublished_at' | 'archived_at' | 'updated_at'> {
  variant_group: string | null
  price_amount: number
  price_currency: string
  published_at: Date | null
  unpublished_at: Date | null
  archived_at: Date | null
  updated_at: Date
}

const CONDITIONS = { withheld: sql`is_withheld`, archived: sql`archived_at is not null and not is_withheld` }

/** A page of products in the shop or not, by id, the newest first. */
export async function listAdminProducts(
  db: Queryable,
  { state, group, sku, ids }: Static<typeof AdminProductFilters>,
  { limit, after, page }: Paging<Static<typeof IdPosition>>,
): Promise<Page<AdminProduct>> {
  const narrowed = [
    ...(group === undefined ? [] : [sql`variant_group = ${group}`]),
    ...(sku === undefined ? [] : [sql`sku = ${sku.trim().normalize()}`]),
    ...(ids === undefined ? [] : [sql`id = any(${ids.split(',')}::uuid[])`]),
  ]
  const wanted = state ?? (narrowed.length === 0 ? 'withheld' : null)
  const conditions = [
    ...narrowed,
    ...(wanted === null ? [] : [CONDITIONS[wanted]]),
    ...(after === undefined ? [] : [sql`id < ${after[0]}::uuid`]),
  ]
  const { rows } = await db.query<AdminProductRow>(
    sql`select id, sku, name, category, image_url, variant_group, options, price_amount, price_currency,
      case when archived_at is null then 'active' when is_withheld then 'withheld' else 'archived' end as state,
      status, published_at, unpublished_at, case when not is_withheld then archived_at end as archived_at, updated_at
    from products
    where ${allOf(conditions)}
    order by id desc
    limit ${limit + 1}`,
  )
  return page(rows, toAdminProduct, (row) => [row.id])
}

function toAdminProduct(row: AdminProductRow): AdminProduct {
  const { variant_group: group, price_amount: amount, price_currency: currency, ...rest } = row
  return {
    ...rest,
    group,
    price: { amount, currency },
    published_at: row.published_at?.toISOString() ?? null,
    unpublished_at: row.unpublished_at?.toISOString() ?? null,
    archived_at: row.archived_at?.toISOString() ?? null,
    updated_at: row.updated_at.toISOString(),
  }
}

import { type Static, Type } from 'typebox'
import { type AuditContext, difference, recordActivity } from '../../activity/record-activity.ts'
import type { Queryable } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { AppError, notFound } from '../../errors.ts'
import { entityTag } from '../../http/cacheable.ts'
import type { IfMatch } from '../../http/if-match.ts'
import { type ChangedCatalogue, inCatalogue } from '../change-catalogue.ts'
import { EXAMPLE_PLACED_PRODUCTS, EXAMPLE_PLACED_PRODUCTS_CHANGE } from '../examples.ts'
import { MAX_RANKED } from '../product-rules.ts'
import { IS_EDITED } from '../products.ts'
import { replaceRankings } from '../rankings.ts'

const Id = Type.String({ format: 'uuid' })

export const PlacedProductsSchema = Type.Object(
  {
    data: Type.Array(
      Type.Object({
        id: Id,
        sku: Type.String(),
        name: Type.String(),
        image_url: Type.Union([Type.String(), Type.Null()]),
        group: Type.Union([Type.String(), Type.Null()], {
          description: 'The group of variants, which share the place. Null if the product is in no group.',
        }),
        is_listed: Type.Boolean({ description: 'Whether the product is in the shop now. If not, it keeps its place until it is.' }),
      }),
      { description: 'In the order of `sort=position`. All other products of the category follow, newest first.' },
    ),
  },
  { title: 'PlacedProducts', examples: [EXAMPLE_PLACED_PRODUCTS] },
)
type PlacedProduct = Static<typeof PlacedProductsSchema>['data'][number]

export const PlacedProductsBody = Type.Object(
  {
    product_ids: Type.Array(Id, {
      maxItems: MAX_RANKED,
      uniqueItems: true,
      description:
        'Products of this category or of those below it, in the wanted order, at most one of each group. An empty list removes the order.',
    }),
  },
  { title: 'PlacedProductsChange', additionalProperties: false, examples: [EXAMPLE_PLACED_PRODUCTS_CHANGE] },
)

export interface PlacedProducts {
  products: PlacedProduct[]
  etag: string
}

/** The products that operators have placed in a category. Throws `not_found`. */
export async function listPlacedProducts(db: Queryable, categoryId: string): Promise<PlacedProducts> {
  const { products, etag } = await readOrder(db, categoryId)
  return { products, etag }
}

interface StoredOrder extends PlacedProducts {
  /** `products`, and those that are archived or in another category now. */
  ids: string[]
}

async function readOrder(db: Queryable, categoryId: string): Promise<StoredOrder> {
  const { rows } = await db.query<{ ids: string[] }>(
    sql`select coalesce(
      (select product_ids from product_rankings where category_id = category.id and sort = 'position' and replaced_at is null), '{}'
    ) as ids
    from categories as category
    where id = ${categoryId}`,
  )
  const [stored] = rows
  if (stored === undefined) throw notFound('category')
  return { ids: stored.ids, products: await findPlaceable(db, categoryId, stored.ids), etag: entityTag(stored.ids.join()) }
}

/**
 * Places products in a category if `ifMatch` names the present order. Products that are hidden now keep their places
 * for their return, unless the new order is empty. Throws `not_found`, `precondition_failed` or `invalid_body`.
 */
export async function placeProducts(
  catalogue: ChangedCatalogue,
  categoryId: string,
  ifMatch: IfMatch,
  productIds: readonly string[],
  auditContext: AuditContext,
): Promise<PlacedProducts> {
  const ids = productIds.map((id) => id.toLowerCase())
  return inCatalogue(catalogue, async (tx) => {
    // Two changes of the same order wait for each other. Neither of them waits for product changes.
    await tx.query(sql`select from categories where id = ${categoryId} for no key update`)
    const current = await readOrder(tx, categoryId)
    if (ifMatch !== null && !ifMatch.has(current.etag)) {
      throw new AppError('precondition_failed', 'The order of the products has changed since the version in If-Match.', {
        headers: { etag: `"${current.etag}"` },
      })
    }
    const products = await findPlaceable(tx, categoryId, ids)
    assertPlaceable(ids, products, current)
    const order = withHidden(ids, current)
    const next = { products, etag: entityTag(order.join()) }
    if (next.etag === current.etag) return next
    await replaceRankings(tx, 'position', [{ categoryId, productIds: order }])
    const skus = (placed: readonly PlacedProduct[]) => ({ products: placed.map(({ sku }) => sku) })
    const differing = difference(skus(current.products), skus(products))
    if (differing !== null) await recordActivity(tx, auditContext, { subjectType: 'category', subjectId: categoryId, ...differing })
    return next
  })
}

/** A product may have been hidden since the caller read the order. */
function assertPlaceable(ids: readonly string[], products: readonly PlacedProduct[], stored: StoredOrder): void {
  const found = new Map<string, { group: string | null }>(stored.ids.map((id) => [id, { group: null }]))
  for (const product of products) found.set(product.id, product)
  const placed = new Set<string>()
  const errors: { pointer: string; detail: string }[] = []
  for (const [index, id] of ids.entries()) {
    const refuse = (detail: string) => errors.push({ pointer: `#/product_ids/${index}`, detail })
    const product = found.get(id)
    const entry = product?.group == null ? id : `group ${product.group}`
    if (product === undefined) refuse('is not a product of the category')
    else if (placed.has(entry)) refuse('is placed already, itself or by a variant of its group')
    placed.add(entry)
  }
  if (errors.length > 0) throw new AppError('invalid_body', 'The body is not acceptable.', { errors })
}

/** The new order with the stored products that are hidden now, each at its place, as far as there is room. */
function withHidden(ids: readonly string[], { ids: stored, products }: StoredOrder): string[] {
  if (ids.length === 0) return []
  const shown = new Set([...products.map(({ id }) => id), ...ids])
  const order = [...ids]
  const hidden = [...stored.entries()].filter(([, id]) => !shown.has(id)).slice(0, MAX_RANKED - ids.length)
  for (const [place, id] of hidden) order.splice(place, 0, id)
  return order
}

/** The products among `ids`, in this order, that are in the category or below it and are not archived. */
async function findPlaceable(db: Queryable, categoryId: string, ids: readonly string[]): Promise<PlacedProduct[]> {
  if (ids.length === 0) return []
  const { rows } = await db.query<PlacedProduct>(
    sql`with recursive branch as (
      select ${categoryId}::uuid as id
      union
      select category.id from branch join categories as category on category.parent_id = branch.id
    )
    select product.id, product.sku, product.name, product.image_url, product.variant_group as "group",
      product.archived_at is null as is_listed
    from unnest(${ids}::uuid[]) with ordinality as placed (id, place)
    join products as product on product.id = placed.id
    where ${IS_EDITED} and exists (
      select from product_categories as member where member.product_id = product.id and member.category_id in (select id from branch)
    )
    order by placed.place`,
  )
  return rows
}

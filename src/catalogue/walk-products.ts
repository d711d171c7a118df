import type { Queryable } from '../db/pool.ts'
import { allOf, limitTo, prepared, sql } from '../db/sql.ts'
import type { Filters, KeySort } from './product-query.ts'
import { PRODUCT_COLUMNS, type ProductRow } from './products.ts'
import { filterConditions, type TextQuery } from './search/filter-sql.ts'

// Followed by the id, each key is a total order with an index.
const SORT_KEYS = {
  name: { column: sql`name collate "C"`, type: 'text', cast: sql`::text`, of: (row: ProductRow) => row.name },
  price: { column: sql`price_amount`, type: 'bigint', cast: sql`::bigint`, of: (row: ProductRow) => row.price_amount },
  created_at: {
    column: sql`created_at`,
    type: 'timestamptz',
    cast: sql`::timestamptz`,
    of: (row: ProductRow) => row.created_at.toISOString(),
  },
} as const

const BELOW = sql`<`
const ABOVE = sql`>`

export function sortKey(sort: KeySort) {
  return SORT_KEYS[sort.replace('-', '') as keyof typeof SORT_KEYS]
}

/** A place in a sort: immediately after the product with this key and id, or before it when reading backwards. */
export interface Position {
  value: string | number
  id: string
}

export interface Walk {
  filters: Filters & { isCollapsed: boolean }
  textQuery: TextQuery
  sort: KeySort
  isBackward: boolean
  from: Position | null
  /** Products at this place and before it are left out, in both directions. */
  floor?: Position | null
  count: number
}

/** The next `count` products of a sort, in the direction of reading. The cost does not depend on the place. */
export async function walkProducts(db: Queryable, walk: Walk): Promise<ProductRow[]> {
  const { filters, textQuery, sort, isBackward, from, floor = null, count } = walk
  const { column, cast } = sortKey(sort)
  const isDescending = sort.startsWith('-')
  const place = ({ value, id }: Position) => sql`(${value}${cast}, ${id}::uuid)`
  const conditions = filterConditions('product', filters, textQuery)
  if (from !== null) conditions.push(sql`(product.${column}, product.id) ${isDescending !== isBackward ? BELOW : ABOVE} ${place(from)}`)
  if (floor !== null) conditions.push(sql`(product.${column}, product.id) ${isDescending ? BELOW : ABOVE} ${place(floor)}`)
  if (filters.isCollapsed) {
    // A group is listed at the place of its first matching variant.
    const others = filterConditions('other', filters, textQuery)
    conditions.push(sql`not exists (
      select from products as other
      where other.variant_group = product.variant_group
        and ${allOf(others)}
        and (other.${column}, other.id) ${isDescending ? ABOVE : BELOW} (product.${column}, product.id)
    )`)
  }
  const direction = isDescending !== isBackward ? sql`desc` : sql`asc`
  const statement = sql`select ${PRODUCT_COLUMNS}
    from products as product
    where ${allOf(conditions)}
    order by product.${column} ${direction}, product.id ${direction}
    ${limitTo(count)}`
  const name = planName(walk)
  const { rows } = await (name === null ? db.query<ProductRow>(statement) : db.query<ProductRow>(prepared(statement, name)))
  return rows
}

/** The name of the prepared statement of an unfiltered walk, whose plan suits all values; null for a filtered one, which is planned each time. */
function planName({ filters, textQuery, sort, isBackward, from, floor, count }: Walk): string | null {
  const { category, minPrice, maxPrice, inStock, ids, group, attributes, isCollapsed } = filters
  const isFiltered = [textQuery, category, minPrice, maxPrice, inStock, ids, group, attributes, floor ?? null].some(
    (value) => value !== null,
  )
  if (isFiltered || isCollapsed) return null
  return `walk ${sort} ${isBackward ? 'back' : 'on'} ${from === null ? 'start' : 'from'} ${count}`
}

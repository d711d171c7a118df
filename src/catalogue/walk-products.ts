import type { Queryable } from '../db/pool.ts'
import { allOf, literal, prepared, sql } from '../db/sql.ts'
import type { Filters, KeySort } from './product-query.ts'
import { COLUMNS_OF_PRODUCT, type ProductRow } from './products.ts'
import { filterConditions, type TextQuery } from './search/filter-sql.ts'

// Each key is a column with a type; with the id behind it the order is total and has an index.
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

/** A page, and one product more to learn whether there is a next one. */
const MAX_COUNT = 101
/**
 * The number of rows has to stand in the text: with a parameter there the one plan that is kept would be made for a tenth of the table.
 * So it chooses among constants, and nothing else can come in.
 */
const LIMITS = Array.from({ length: MAX_COUNT + 1 }, (_, count) => sql`limit ${literal(count)}`)

const BELOW = sql`<`
const ABOVE = sql`>`

export function sortKey(sort: KeySort) {
  return SORT_KEYS[sort.replace('-', '') as keyof typeof SORT_KEYS]
}

/** A place in a sort: between products, right behind (or, read backwards, right before) the one with this key and id. */
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
  /** Products at this place and before it are not met, also not backwards. */
  floor?: Position | null
  count: number
}

/** The next `count` products of a sort, in the order in which they are met. Any place costs what the first one costs. */
export async function walkProducts(db: Queryable, walk: Walk): Promise<ProductRow[]> {
  const { filters, textQuery, sort, isBackward, from, floor = null, count } = walk
  const { column, cast } = sortKey(sort)
  const limit = LIMITS[count]
  if (limit === undefined) throw new RangeError(`no page has ${count} products`)
  const isDescending = sort.startsWith('-')
  const place = ({ value, id }: Position) => sql`(${value}${cast}, ${id}::uuid)`
  const conditions = filterConditions('product', filters, textQuery)
  if (from !== null) conditions.push(sql`(product.${column}, product.id) ${isDescending !== isBackward ? BELOW : ABOVE} ${place(from)}`)
  if (floor !== null) conditions.push(sql`(product.${column}, product.id) ${isDescending ? BELOW : ABOVE} ${place(floor)}`)
  if (filters.isCollapsed) {
    // A group stands where the first of its matching variants stands.
    const others = filterConditions('other', filters, textQuery)
    conditions.push(sql`not exists (
      select from products as other
      where other.variant_group = product.variant_group
        and ${allOf(others)}
        and (other.${column}, other.id) ${isDescending ? ABOVE : BELOW} (product.${column}, product.id)
    )`)
  }
  const direction = isDescending !== isBackward ? sql`desc` : sql`asc`
  const statement = sql`select ${COLUMNS_OF_PRODUCT}
    from products as product
    where ${allOf(conditions)}
    order by product.${column} ${direction}, product.id ${direction}
    ${limit}`
  const name = planName(walk)
  const { rows } = await (name === null ? db.query<ProductRow>(statement) : db.query<ProductRow>(prepared(statement, name)))
  return rows
}

/** The whole catalogue is walked by one plan for all values, so the plan is kept; what is filtered is planned for its values each time. */
function planName({ filters, textQuery, sort, isBackward, from, floor, count }: Walk): string | null {
  const { category, minPrice, maxPrice, inStock, ids, group, isCollapsed } = filters
  const isFiltered = [textQuery, category, minPrice, maxPrice, inStock, ids, group, floor ?? null].some((value) => value !== null)
  if (isFiltered || isCollapsed) return null
  return `walk ${sort} ${isBackward ? 'back' : 'on'} ${from === null ? 'start' : 'from'} ${count}`
}

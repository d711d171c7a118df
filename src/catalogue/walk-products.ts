import type { Queryable } from '../db/pool.ts'
import { filterConditions, type Parameters, type TextQuery } from './filter-sql.ts'
import type { Filters, KeySort } from './product-query.ts'
import { type ProductRow, productColumns } from './products.ts'

// Each key is a column with a type; with the id behind it the order is total and has an index.
const SORT_KEYS = {
  name: { column: 'name collate "C"', type: 'text', of: (row: ProductRow) => row.name },
  price: { column: 'price_amount', type: 'bigint', of: (row: ProductRow) => row.price_amount },
  created_at: { column: 'created_at', type: 'timestamptz', of: (row: ProductRow) => row.created_at.toISOString() },
} as const

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
export async function walkProducts(db: Queryable, walk: Walk, parameters: Parameters): Promise<ProductRow[]> {
  const { filters, textQuery, sort, isBackward, from, floor = null, count } = walk
  const { column, type } = sortKey(sort)
  const isDescending = sort.startsWith('-')
  const place = ({ value, id }: Position) => `(${parameters.add(value)}::${type}, ${parameters.add(id)}::uuid)`
  const conditions = filterConditions('product', filters, textQuery, parameters)
  if (from !== null) conditions.push(`(product.${column}, product.id) ${isDescending !== isBackward ? '<' : '>'} ${place(from)}`)
  if (floor !== null) conditions.push(`(product.${column}, product.id) ${isDescending ? '<' : '>'} ${place(floor)}`)
  if (filters.isCollapsed) {
    // A group stands where the first of its matching variants stands.
    const others = filterConditions('other', filters, textQuery, parameters)
    conditions.push(`not exists (
      select from products as other
      where other.variant_group = product.variant_group
        and ${others.join(' and ')}
        and (other.${column}, other.id) ${isDescending ? '>' : '<'} (product.${column}, product.id)
    )`)
  }
  const direction = isDescending !== isBackward ? 'desc' : 'asc'
  const text = `select ${productColumns('product')}
    from products as product
    where ${conditions.join(' and ')}
    order by product.${column} ${direction}, product.id ${direction}
    limit ${count}`
  const { rows } = await db.query<ProductRow>({ ...planName(walk), text, values: parameters.values })
  return rows
}

/** The whole catalogue is walked by one plan for all values, so the plan is kept; what is filtered is planned for its values each time. */
function planName({ filters, textQuery, sort, isBackward, from, floor, count }: Walk): { name?: string } {
  const { category, minPrice, maxPrice, inStock, ids, group, isCollapsed } = filters
  const isFiltered = [textQuery, category, minPrice, maxPrice, inStock, ids, group, floor ?? null].some((value) => value !== null)
  return isFiltered || isCollapsed
    ? {}
    : { name: `walk ${sort} ${isBackward ? 'back' : 'on'} ${from === null ? 'start' : 'from'} ${count}` }
}

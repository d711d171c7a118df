import type { Queryable } from '../db/pool.ts'
import { allOf, limitTo, literal, prepared, type Sql, sql } from '../db/sql.ts'
import { listSource } from './categories/list-source.ts'
import { amountIn } from './offered-prices.ts'
import type { Filters, KeySort, LocatedFilters } from './product-query.ts'
import { type ProductRow, type ProductView, productColumns } from './products.ts'
import { filterConditions, type TextQuery } from './search/filter-sql.ts'

// Followed by the id, each key is a total order with an index.
const SORT_KEYS = {
  name: { column: sql`name collate "C"`, memberColumn: sql`name`, type: 'text', cast: sql`::text`, of: (row: ProductRow) => row.name },
  price: {
    column: sql`price_amount`,
    memberColumn: sql`price_amount`,
    type: 'bigint',
    cast: sql`::bigint`,
    of: (row: ProductRow) => row.price_amount,
  },
  created_at: {
    column: sql`created_at`,
    memberColumn: sql`created_at`,
    type: 'timestamptz',
    cast: sql`::timestamptz`,
    of: (row: ProductRow) => row.created_at.toISOString(),
  },
} as const

const OTHER = sql`other`
const PRICED_PRODUCTS = sql`product_prices as price join products as product on product.id = price.product_id`
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
  filters: LocatedFilters<Filters & { isCollapsed: boolean }>
  textQuery: TextQuery
  sort: KeySort
  isBackward: boolean
  from: Position | null
  /** Products at this place and before it are left out, in both directions. */
  floor?: Position | null
  /** A condition about `product`: products that meet it are left out, too. */
  without?: Sql | null
  count: number
  view: ProductView
}

/** The next `count` products of a sort, in the direction of reading. The cost does not depend on the place. */
export function walkProducts(db: Queryable, walk: Walk): Promise<ProductRow[]> {
  return walk.filters.isCollapsed ? walkGroups(db, walk) : walkEach(db, walk)
}

/** Products that are read at once to find the first ones of groups. */
const WINDOW = { first: 50, largest: 1_000 }

/**
 * A group is listed at the place of its first matching variant. The variants of each group are compared once, however many there are: a condition
 * about each variant would compare it with all of them, which took seconds for some hundred.
 */
async function walkGroups(db: Queryable, walk: Walk): Promise<ProductRow[]> {
  const { filters, sort, count, without = null } = walk
  if (filters.group !== null) {
    const ids = [...(await findFirstVariants(db, walk, [filters.group]))]
    return walkEach(db, { ...walk, filters: { ...filters, ids } })
  }
  const listed: ProductRow[] = []
  const seen = new Set<string>()
  let { from } = walk
  for (let window = Math.max(WINDOW.first, 2 * count); ; window = Math.min(2 * window, WINDOW.largest)) {
    const isSeen = sql`product.variant_group = any(${[...seen]}::text[])`
    const left = without === null ? isSeen : sql`(${without} or ${isSeen})`
    const rows = await walkEach(db, { ...walk, from, without: left, count: window })
    const groups = new Set(rows.flatMap(({ variant_group }) => variant_group ?? []))
    const firstIds = groups.size === 0 ? groups : await findFirstVariants(db, walk, [...groups])
    listed.push(...rows.filter(({ id, variant_group }) => variant_group === null || firstIds.has(id)))
    const last = rows.at(-1)
    if (listed.length >= count || rows.length < window || last === undefined) return listed.slice(0, count)
    for (const group of groups) seen.add(group)
    from = { value: sortKey(sort).of(last), id: last.id }
  }
}

/** The ids of the first matching variant of each group, in the order of the sort. */
async function findFirstVariants(db: Queryable, { filters, textQuery, sort }: Walk, groups: readonly string[]): Promise<Set<string>> {
  const direction = sort.startsWith('-') ? sql`desc` : sql`asc`
  const { column } = sortKey(sort)
  const key = filters.currency !== null && sort.endsWith('price') ? amountIn(OTHER, filters.currency) : sql`other.${column}`
  const { rows } = await db.query<{ id: string }>(
    sql`select distinct on (other.variant_group) other.id
    from products as other
    where other.variant_group = any(${groups}::text[]) and ${allOf(filterConditions('other', filters, textQuery))}
    order by other.variant_group, ${key} ${direction}, other.id ${direction}`,
  )
  return new Set(rows.map(({ id }) => id))
}

async function walkEach(db: Queryable, walk: Walk): Promise<ProductRow[]> {
  const { filters, textQuery, sort, isBackward, from, floor = null, without = null, count, view } = walk
  if (filters.currency !== null && sort.endsWith('price')) return walkPricesIn(db, walk, filters.currency)
  const { column, memberColumn, cast } = sortKey(sort)
  const isDescending = sort.startsWith('-')
  const direction = isDescending !== isBackward ? sql`desc` : sql`asc`
  const place = ({ value, id }: Position) => sql`(${value}${cast}, ${id}::uuid)`
  const beyond = (key: Sql) => [
    ...(from === null ? [] : [sql`${key} ${isDescending !== isBackward ? BELOW : ABOVE} ${place(from)}`]),
    ...(floor === null ? [] : [sql`${key} ${isDescending ? BELOW : ABOVE} ${place(floor)}`]),
  ]
  const others: Sql[] = without === null ? [] : [sql`${without} is not true`]
  const name = planName(walk)
  const limit = name === null ? sql`limit ${literal(count)}` : limitTo(count)
  const source = listSource(filters, textQuery, others, { column, memberColumn, direction, beyond, limit })
  const statement = sql`select ${productColumns(view)}
    from ${source.from}
    where ${allOf(source.conditions)}
    order by ${source.order}
    ${limit}`
  const { rows } = await (name === null ? db.query<ProductRow>(statement) : db.query<ProductRow>(prepared(statement, name)))
  return rows
}

/**
 * As `walkProducts`, by the prices in a currency. Two walks, each of an index: of the products with their own price in it, and of the others.
 * Their first rows together are the first rows of both.
 */
async function walkPricesIn(db: Queryable, walk: Walk, currency: string): Promise<ProductRow[]> {
  const { filters, textQuery, sort, isBackward, from, without = null, count, view } = walk
  const isDescending = sort.startsWith('-')
  const direction = isDescending !== isBackward ? sql`desc` : sql`asc`
  const part = (amount: Sql, source: Sql, currencyOf: Sql) => {
    const conditions = [sql`${currencyOf} = ${currency}`, ...filterConditions('product', filters, textQuery, amount)]
    if (from !== null) {
      const beyond = isDescending !== isBackward ? BELOW : ABOVE
      conditions.push(sql`(${amount}, product.id) ${beyond} (${from.value}::bigint, ${from.id}::uuid)`)
    }
    if (without !== null) conditions.push(sql`${without} is not true`)
    return sql`(
      select product.id, ${amount} as amount
      from ${source}
      where ${allOf(conditions)}
      order by ${amount} ${direction}, product.id ${direction}
      limit ${literal(count)}
    )`
  }
  const { rows } = await db.query<ProductRow>(
    sql`select ${productColumns(view)}
    from (
      ${part(sql`product.price_amount`, sql`products as product`, sql`product.price_currency`)}
      union all
      ${part(sql`price.amount`, PRICED_PRODUCTS, sql`price.currency`)}
    ) as place
    join products as product on product.id = place.id
    order by place.amount ${direction}, place.id ${direction}
    limit ${literal(count)}`,
  )
  return rows
}

/**
 * The name of the prepared statement of a walk without filters, or with a category alone, whose plan suits all values; null for one with other
 * filters, which is planned each time.
 */
function planName({ filters, textQuery, sort, isBackward, from, floor, count, view }: Walk): string | null {
  const { categoryIds, brand, currency, minPrice, maxPrice, inStock, ids, group, attributes, isCollapsed } = filters
  const isFiltered = [textQuery, brand, currency, minPrice, maxPrice, inStock, ids, group, attributes, floor ?? null].some(
    (value) => value !== null,
  )
  if (isFiltered || isCollapsed || categoryIds?.length === 0) return null
  const where = categoryIds === null ? 'all' : categoryIds.length === 1 ? 'category' : 'categories'
  return `walk ${where} ${sort} ${isBackward ? 'back' : 'on'} ${from === null ? 'start' : 'from'} ${count} ${view.languages.length}`
}

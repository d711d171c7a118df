import type { Queryable } from '../db/pool.ts'
import { allOf, limitTo, literal, prepared, type Sql, sql } from '../db/sql.ts'
import { listSource, matchSource } from './categories/list-source.ts'
import { amountIn } from './offered-prices.ts'
import type { Filters, KeySort, LocatedFilters } from './product-query.ts'
import { type ProductRow, type ProductView, productColumns } from './products.ts'
import { filterConditions, type TextQuery } from './search/filter-sql.ts'

/** What a product has of its place in every sort. */
type PlacedRow = Pick<ProductRow, 'id' | 'variant_group' | 'name' | 'price_amount' | 'created_at'>

// Followed by the id, each key is a total order with an index.
const SORT_KEYS = {
  name: { column: sql`name collate "C"`, memberColumn: sql`name`, type: 'text', cast: sql`::text`, of: (row: PlacedRow) => row.name },
  price: {
    column: sql`price_amount`,
    memberColumn: sql`price_amount`,
    type: 'bigint',
    cast: sql`::bigint`,
    of: (row: PlacedRow) => row.price_amount,
  },
  created_at: {
    column: sql`created_at`,
    memberColumn: sql`created_at`,
    type: 'timestamptz',
    cast: sql`::timestamptz`,
    of: (row: PlacedRow) => row.created_at.toISOString(),
  },
} as const

const PRODUCT = sql`product`
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

/** Places that are read at once to find the first ones of groups. */
const WINDOW = { first: 50, largest: 500 }

/** A group is listed at the place of its first matching variant. See docs/decisions/0275-lists-and-pages-of-products.md. */
async function walkGroups(db: Queryable, walk: Walk): Promise<ProductRow[]> {
  const { filters, view } = walk
  const isOne = filters.group !== null
  const ids = isOne ? [...(await findFirstVariants(db, walk, [filters.group ?? '']))] : await findEntries(db, walk)
  if (isOne) return walkEach(db, { ...walk, filters: { ...filters, ids } })
  const { rows } = await db.query<ProductRow>(
    sql`select ${productColumns(view)}
    from unnest(${ids}::uuid[]) with ordinality as entry (id, place)
    join products as product on product.id = entry.id
    order by entry.place`,
  )
  return rows
}

/** The ids of the next entries: windows of places, whose groups are compared, and after some where nearly all are later variants, all groups. */
async function findEntries(db: Queryable, walk: Walk): Promise<string[]> {
  const { filters, sort, count } = walk
  const places = sql`product.id, product.variant_group, product.name, ${amountIn(PRODUCT, filters.currency)} as price_amount, product.created_at`
  const listed: string[] = []
  const compared = new Set<string>()
  const firstIds = new Set<string>()
  let { from } = walk
  for (let window = Math.max(WINDOW.first, 2 * count); window <= WINDOW.largest; window *= 2) {
    const rows: PlacedRow[] = await walkEach(db, { ...walk, from, count: window }, places)
    const groups = [...new Set(rows.flatMap(({ variant_group }) => variant_group ?? []))].filter((group) => !compared.has(group))
    for (const id of groups.length === 0 ? [] : await findFirstVariants(db, walk, groups)) firstIds.add(id)
    for (const group of groups) compared.add(group)
    listed.push(...rows.filter(({ id, variant_group }) => variant_group === null || firstIds.has(id)).map(({ id }) => id))
    const last = rows.at(-1)
    if (listed.length >= count || rows.length < window || last === undefined) return listed.slice(0, count)
    from = { value: sortKey(sort).of(last), id: last.id }
  }
  return [...listed, ...(await findAmongAll(db, { ...walk, from, count: count - listed.length }))]
}

/** The ids of the next entries, by one look at the places of all products that match. */
async function findAmongAll(db: Queryable, walk: Walk): Promise<string[]> {
  const { filters, textQuery, sort, isBackward, count } = walk
  const { from, conditions } = matchSource(filters, textQuery)
  const direction = sort.startsWith('-') ? sql`desc` : sql`asc`
  const readDirection = sort.startsWith('-') !== isBackward ? sql`desc` : sql`asc`
  const matching = allOf([...conditions, ...othersOf(walk)])
  const { rows } = await db.query<{ id: string }>(
    sql`with place as materialized (
      select product.variant_group, product.id, ${keyOf(PRODUCT, walk)} as key
      from ${from}
      where ${matching}
    )
    select id
    from (
      select key, id from place where variant_group is null
      union all
      select key, id from (
        select distinct on (variant_group) key, id
        from place
        where variant_group is not null
        order by variant_group, key ${direction}, id ${direction}
      ) as first
    ) as entry
    where ${allOf(beyondPlaces(sql`(key, id)`, walk))}
    order by key ${readDirection}, id ${readDirection}
    limit ${count}`,
  )
  return rows.map(({ id }) => id)
}

/** The sort key of the alias `row`: of prices, that in the currency. */
function keyOf(row: Sql, { filters, sort }: Walk): Sql {
  return filters.currency !== null && sort.endsWith('price') ? amountIn(row, filters.currency) : sql`${row}.${sortKey(sort).column}`
}

/** The conditions for `key`, a sort key and an id, to be among the places that are read. */
function beyondPlaces(key: Sql, { sort, isBackward, from, floor = null }: Walk): Sql[] {
  const isDescending = sort.startsWith('-')
  const place = ({ value, id }: Position) => sql`(${value}${sortKey(sort).cast}, ${id}::uuid)`
  return [
    ...(from === null ? [] : [sql`${key} ${isDescending !== isBackward ? BELOW : ABOVE} ${place(from)}`]),
    ...(floor === null ? [] : [sql`${key} ${isDescending ? BELOW : ABOVE} ${place(floor)}`]),
  ]
}

function othersOf({ without = null }: Walk): Sql[] {
  return without === null ? [] : [sql`${without} is not true`]
}

/** The ids of the first matching variant of each group, in the order of the sort. */
async function findFirstVariants(db: Queryable, walk: Walk, groups: readonly string[]): Promise<Set<string>> {
  const { filters, textQuery, sort } = walk
  const direction = sort.startsWith('-') ? sql`desc` : sql`asc`
  const { rows } = await db.query<{ id: string }>(
    sql`select distinct on (other.variant_group) other.id
    from products as other
    where other.variant_group = any(${groups}::text[]) and ${allOf(filterConditions('other', filters, textQuery))}
    order by other.variant_group, ${keyOf(OTHER, walk)} ${direction}, other.id ${direction}`,
  )
  return new Set(rows.map(({ id }) => id))
}

async function walkEach<Row extends PlacedRow = ProductRow>(
  db: Queryable,
  walk: Walk,
  columns = productColumns(walk.view),
): Promise<Row[]> {
  const { filters, textQuery, sort, isBackward, count } = walk
  if (filters.currency !== null && sort.endsWith('price')) return walkPricesIn(db, walk, filters.currency, columns)
  const { column, memberColumn } = sortKey(sort)
  const direction = sort.startsWith('-') !== isBackward ? sql`desc` : sql`asc`
  const beyond = (key: Sql) => beyondPlaces(key, walk)
  const name = planName(walk)
  const limit = name === null ? sql`limit ${literal(count)}` : limitTo(count)
  const source = listSource(filters, textQuery, othersOf(walk), { column, memberColumn, direction, beyond, limit })
  const statement = sql`select ${columns}
    from ${source.from}
    where ${allOf(source.conditions)}
    order by ${source.order}
    ${limit}`
  const { rows } = await (name === null ? db.query<Row>(statement) : db.query<Row>(prepared(statement, name)))
  return rows
}

/**
 * As `walkProducts`, by the prices in a currency. Two walks, each of an index: of the products with their own price in it, and of the others.
 * Their first rows together are the first rows of both.
 */
async function walkPricesIn<Row extends PlacedRow>(db: Queryable, walk: Walk, currency: string, columns: Sql): Promise<Row[]> {
  const { filters, textQuery, sort, isBackward, count } = walk
  const direction = sort.startsWith('-') !== isBackward ? sql`desc` : sql`asc`
  const part = (amount: Sql, source: Sql, currencyOf: Sql) => {
    const conditions = [
      sql`${currencyOf} = ${currency}`,
      ...filterConditions('product', filters, textQuery, amount),
      ...beyondPlaces(sql`(${amount}, product.id)`, walk),
      ...othersOf(walk),
    ]
    return sql`(
      select product.id, ${amount} as amount
      from ${source}
      where ${allOf(conditions)}
      order by ${amount} ${direction}, product.id ${direction}
      limit ${literal(count)}
    )`
  }
  const { rows } = await db.query<Row>(
    sql`select ${columns}
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

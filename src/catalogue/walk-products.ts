import type { Queryable } from '../db/pool.ts'
import { allOf, limitTo, literal, prepared, type Sql, sql } from '../db/sql.ts'
import { type ListSource, listSource, matchSource } from './categories/list-source.ts'
import { amountIn } from './offered-prices.ts'
import type { Filters, KeySort, LocatedFilters } from './product-query.ts'
import { type ProductRow, type ProductView, productColumns } from './products.ts'
import { estimateProducts } from './search/count-products.ts'
import { filterConditions, matchConditions, type TextQuery } from './search/filter-sql.ts'

/** The columns of a product's place in every sort. */
type PlacedRow = Pick<ProductRow, 'id' | 'variant_group' | 'name' | 'price_amount' | 'created_at'>

// Each key, followed by the id, is a total order with an index.
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

/** A place in a sort: directly after the product with this key and id, or before it when reading backwards. */
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
  /** Products up to this place are omitted, in both directions. */
  floor?: Position | null
  /** A condition on `product`. Products that meet it are omitted too. */
  without?: Sql | null
  count: number
  view: ProductView
}

/** The next `count` products of a sort, in reading direction. The cost does not depend on the place. */
export function walkProducts(db: Queryable, walk: Walk): Promise<ProductRow[]> {
  return walk.filters.isCollapsed ? walkGroups(db, walk) : walkEach(db, walk)
}

/** Places that are read at once to find groups' first ones. */
const WINDOW = { first: 50, largest: 500 }

/** A group is listed at the place of its first matching variant. See docs/decisions/catalogue-lists.md. */
async function walkGroups(db: Queryable, walk: Walk): Promise<ProductRow[]> {
  const { filters, view } = walk
  const isOne = filters.group !== null
  const ids = isOne ? [...(await findFirstVariants(db, walk, [filters.group ?? '']))] : await findEntries(db, walk)
  return isOne ? walkEach(db, { ...walk, filters: { ...filters, ids } }) : readRows(db, ids, productColumns(view))
}

async function readRows<Row extends PlacedRow>(db: Queryable, ids: readonly string[], columns: Sql): Promise<Row[]> {
  const { rows } = await db.query<Row>(
    sql`select ${columns}
    from unnest(${ids}::uuid[]) with ordinality as entry (id, place)
    join products as product on product.id = entry.id
    order by entry.place`,
  )
  return rows
}

/**
 * The ids of the next entries. Reads windows of places and compares their groups. If nearly all places are later
 * variants, it reads all groups instead.
 */
async function findEntries(db: Queryable, walk: Walk): Promise<string[]> {
  const { sort, count } = walk
  const listed: string[] = []
  const compared = new Set<string>()
  const firstIds = new Set<string>()
  let { from } = walk
  for (let window = Math.max(WINDOW.first, 2 * count); window <= WINDOW.largest; window *= 2) {
    const rows: PlacedRow[] = await walkEach(db, { ...walk, from, count: window }, placesOf(walk))
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

/** The ids of the next entries, from the places of all matching products. */
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

function placesOf({ filters }: Walk): Sql {
  return sql`product.id, product.variant_group, product.name, ${amountIn(PRODUCT, filters.currency)} as price_amount, product.created_at`
}

/** The sort key of the alias `row`; for prices, the one in the currency. */
function keyOf(row: Sql, { filters, sort }: Walk): Sql {
  return filters.currency !== null && sort.endsWith('price') ? amountIn(row, filters.currency) : sql`${row}.${sortKey(sort).column}`
}

/** The conditions for `key`, a sort key and an id, to be among the places to read. */
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

/** The ids of each group's first matching variant in the sort's order. */
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
  const { filters, sort, count } = walk
  if (filters.currency !== null && sort.endsWith('price')) return walkPricesIn(db, walk, filters.currency, columns)
  if (mayPassMany(walk)) return readRows(db, await findMatching(db, walk), columns)
  const name = planName(walk)
  const limit = name === null ? sql`limit ${literal(count)}` : limitTo(count)
  const source = sourceOf(walk, limit)
  const statement = sql`select ${columns}
    from ${source.from}
    where ${allOf(source.conditions)}
    order by ${orderOf(source, walk)}
    ${limit}`
  const { rows } = await (name === null ? db.query<Row>(statement) : db.query<Row>(prepared(statement, name)))
  return rows
}

function readDirection({ sort, isBackward }: Walk): Sql {
  return sort.startsWith('-') !== isBackward ? sql`desc` : sql`asc`
}

function sourceOf(walk: Walk, limit: Sql): ListSource {
  const { filters, textQuery, sort } = walk
  const { column, memberColumn } = sortKey(sort)
  const beyond = (key: Sql) => beyondPlaces(key, walk)
  return listSource(filters, textQuery, othersOf(walk), { column, memberColumn, direction: readDirection(walk), beyond, limit })
}

function orderOf({ key, id }: Pick<ListSource, 'key' | 'id'>, walk: Walk): Sql {
  const direction = readDirection(walk)
  return sql`${key} ${direction}, ${id} ${direction}`
}

/**
 * Whether the index of the order has products that do not match. Many matches may all be at its other end, or two
 * conditions that half of the products meet may exclude each other, which the planner does not expect.
 */
function mayPassMany({ filters, textQuery, sort }: Walk): boolean {
  const { soldIds, ids, group, brand, inStock, attributes, currency, minPrice, maxPrice, categoryIds } = filters
  if (textQuery !== null || soldIds !== null || ids !== null || group !== null) return false
  const others = [attributes, currency, ...(sort.endsWith('price') ? [] : [minPrice, maxPrice])].filter((filter) => filter !== null).length
  const indexed = [brand, inStock].filter((filter) => filter !== null).length
  const isIndexed = indexed === 1 && others === 0 && categoryIds === null && sort.endsWith('created_at')
  return indexed + others > 0 && !isIndexed
}

/** Places checked in the list's order before all matches are read. */
const NEAR = { least: 2_000, perProduct: 20 }
/** The most matching products that are read at once. */
const FEW = 2_000

/**
 * The ids of the next products. Reads some thousand places and, if these have too few matches, all matching products.
 */
async function findMatching(db: Queryable, walk: Walk): Promise<string[]> {
  const { filters, sort, count } = walk
  // Checking attributes without their index is slow, and few products of a narrow price range are near.
  const hasRange = !sort.endsWith('price') && (filters.minPrice ?? filters.maxPrice) !== null
  if ((filters.attributes !== null || hasRange) && (await estimateProducts(db, filters, null)).estimate <= FEW) return findFar(db, walk)
  const places = Math.max(NEAR.least, NEAR.perProduct * count)
  const near = await findNear(db, walk, places)
  if (near.length === count) return near
  const last = await findPlace(db, withoutFilters(walk), places)
  if (last === undefined) return near
  const from = { value: sortKey(sort).of(last), id: last.id }
  return [...near, ...(await findFar(db, { ...walk, from, count: count - near.length }))]
}

/** The same list without filters that the index of its order lacks. */
function withoutFilters(walk: Walk): Walk {
  const prices = walk.sort.endsWith('price') ? {} : { minPrice: null, maxPrice: null }
  return { ...walk, filters: { ...walk.filters, brand: null, inStock: null, attributes: null, currency: null, ...prices } }
}

/** The matching products among the next `places`. */
async function findNear(db: Queryable, walk: Walk, places: number): Promise<string[]> {
  const limit = sql`limit ${literal(places)}`
  const source = sourceOf(withoutFilters(walk), limit)
  const { rows } = await db.query<{ id: string }>(
    sql`select id
    from (
      select ${source.id} as id, ${source.key} as key, ${allOf(matchConditions('product', { ...walk.filters, categoryIds: null }, null))} as is_match
      from ${source.from}
      where ${allOf(source.conditions)}
      order by ${orderOf(source, walk)}
      ${limit}
    ) as near
    where is_match
    order by ${orderOf({ key: sql`key`, id: sql`id` }, walk)}
    limit ${literal(walk.count)}`,
  )
  return rows.map(({ id }) => id)
}

/** The product at place `number` of a list; undefined if the list is shorter. */
async function findPlace(db: Queryable, walk: Walk, number: number): Promise<PlacedRow | undefined> {
  const source = sourceOf(walk, sql`limit ${literal(number)}`)
  const { rows } = await db.query<PlacedRow>(
    sql`select ${placesOf(walk)}
    from ${source.from}
    where ${allOf(source.conditions)}
    order by ${orderOf(source, walk)}
    offset ${literal(number - 1)}
    limit 1`,
  )
  return rows[0]
}

/** The next ones of all matching products, which are found by their own indexes and then sorted. */
async function findFar(db: Queryable, walk: Walk): Promise<string[]> {
  const { filters, textQuery, count } = walk
  const { from, conditions } = matchSource(filters, textQuery)
  const { rows } = await db.query<{ id: string }>(
    sql`with place as materialized (
      select product.id, ${keyOf(PRODUCT, walk)} as key
      from ${from}
      where ${allOf([...conditions, ...othersOf(walk)])}
    )
    select id
    from place
    where ${allOf(beyondPlaces(sql`(key, id)`, walk))}
    order by ${orderOf({ key: sql`key`, id: sql`id` }, walk)}
    limit ${literal(count)}`,
  )
  return rows.map(({ id }) => id)
}

/**
 * Like `walkProducts`, sorted by the prices in a currency. It joins two index walks: products whose own price is in it,
 * and the others. The first rows of both together are the first rows of the result.
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
 * The prepared statement's name for a walk without filters, or with categories only, whose plan suits all values. With
 * other filters it is null, so each walk is planned.
 */
function planName({ filters, textQuery, sort, isBackward, from, floor, without, count, view }: Walk): string | null {
  const { categoryIds, brand, currency, minPrice, maxPrice, inStock, ids, group, attributes, isCollapsed } = filters
  const others = [textQuery, brand, currency, minPrice, maxPrice, inStock, ids, group, attributes, floor ?? null, without ?? null]
  const isFiltered = others.some((value) => value !== null)
  if (isFiltered || isCollapsed || categoryIds?.length === 0) return null
  const where = categoryIds === null ? 'all' : categoryIds.length === 1 ? 'category' : 'categories'
  return `walk ${where} ${sort} ${isBackward ? 'back' : 'on'} ${from === null ? 'start' : 'from'} ${count} ${view.languages.length}`
}

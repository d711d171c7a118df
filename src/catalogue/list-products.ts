import { type Static, Type } from 'typebox'
import type { Queryable } from '../db/pool.ts'
import { decodeCursor, encodeCursor, type Page } from '../http/pagination.ts'
import { locateFilters } from './locate-filters.ts'
import { cursorScope, isRankedSort, type KeySort, type Listing, type LocatedFilters } from './product-query.ts'
import { type Product, type ProductRow, toProduct } from './products.ts'
import { findRanking, isRanked, type Ranking, walkRanking } from './rankings.ts'
import { countProducts } from './search/count-products.ts'
import type { TextQuery } from './search/filter-sql.ts'
import { isNamedCandidate, type RankedWindow, walkCandidates } from './search/ranked-products.ts'
import { toNameQuery, toTextQuery } from './search/search-words.ts'
import { findSimilarWords, matchesAny } from './search/similar-words.ts'
import { addVariants } from './variants.ts'
import { type Position, sortKey, walkProducts } from './walk-products.ts'

export interface ProductPage extends Page<Product> {
  count?: { value: number; exact: boolean }
}

const Uuid = Type.String({ format: 'uuid' })
// PostgreSQL can cast every accepted value, so a forged cursor is refused instead of failing in a statement.
const VALUES = {
  text: Type.String({ pattern: '^[^\\x00]*$' }),
  bigint: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
  timestamptz: Type.String({ format: 'date-time', pattern: '^[12]\\d{3}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:[0-5]\\d\\.\\d{3}Z$' }),
  // PostgreSQL refuses numbers that are too small for `real`.
  real: Type.Union([Type.Literal(0), Type.Number({ minimum: 1e-37, maximum: 1_000 })]),
}
// The direction, and whether the search uses similar words.
const mode = [Type.Enum(['next', 'prev']), Type.Boolean()] as const
const KEY_POSITIONS = {
  text: Type.Tuple([...mode, VALUES.text, Uuid]),
  bigint: Type.Tuple([...mode, VALUES.bigint, Uuid]),
  timestamptz: Type.Tuple([...mode, VALUES.timestamptz, Uuid]),
}
const edge = Type.Tuple([VALUES.timestamptz, Uuid])
// The first page's oldest and newest candidate, and the oldest one by its name.
const window = [edge, edge, Type.Union([edge, Type.Null()])] as const
const RelevancePosition = Type.Union([
  Type.Tuple([...mode, Type.Literal('ranked'), VALUES.real, Uuid, ...window]),
  Type.Tuple([...mode, Type.Literal('rest'), VALUES.timestamptz, Uuid, ...window]),
])

const BigInteger = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
// The state of the ranking on the first page, so all pages have the same one.
const RankingPosition = Type.Union([
  Type.Tuple([...mode, Type.Literal('ranked'), BigInteger, Uuid, BigInteger]),
  Type.Tuple([...mode, Type.Literal('rest'), VALUES.timestamptz, Uuid, BigInteger]),
])

/** Where a page starts, and the direction in which it is read. */
interface Start {
  isBackward: boolean
  isSimilar: boolean
  from: Position | null
  /** In lists by relevance or a ranking, the part with `from`. */
  segment?: 'ranked' | 'rest'
  /** In lists by relevance, the edges of the ranked part. */
  window?: RankedWindow
  /** In lists by a ranking, the id of its state. */
  rankingId?: number
}

/** A product in a list, with the cursor of its place. */
interface Entry {
  row: ProductRow
  cursor: (direction: 'next' | 'prev') => string
}

/**
 * A catalogue page and the previous page's cursor. With `allowsSimilar`, a search without matches finds similar words.
 * Throws `invalid_cursor`.
 */
export async function listProducts(
  db: Queryable,
  wanted: Listing,
  { allowsSimilar = true } = {},
): Promise<{ page: ProductPage; previousCursor: string | null; rankingTag: string | null }> {
  const start = readCursor(wanted)
  const { sort, category } = wanted
  const ranking = isRankedSort(sort) ? await findRanking(db, sort, category, start.rankingId) : null
  const listing = { ...(await locateFilters(db, wanted)), ranking }
  const { entries, textQuery, start: reached } = await readEntries(db, listing, start, allowsSimilar)
  const { isBackward } = reached
  const hasMore = entries.length > listing.limit
  const shown = isBackward ? entries.slice(0, listing.limit).reverse() : entries.slice(0, listing.limit)
  const last = shown.at(-1)
  // The page that a backward link comes from may no longer exist.
  const hasNext = isBackward ? last !== undefined && (await isFollowed(db, listing, last, textQuery)) : hasMore
  const hasPrevious = isBackward ? hasMore : reached.from !== null
  const products = shown.map(({ row }) => toProduct(row))
  const page: ProductPage = {
    data: listing.isCollapsed ? await addVariants(db, products, listing.currency) : products,
    has_more: hasNext,
    next_cursor: hasNext ? (last?.cursor('next') ?? null) : null,
  }
  if (listing.hasCount) page.count = await countProducts(db, listing, textQuery)
  return { page, previousCursor: hasPrevious ? (shown[0]?.cursor('prev') ?? null) : null, rankingTag: ranking?.tag ?? null }
}

type LocatedListing = LocatedFilters<Listing> & {
  /** The ranking that the list is sorted by, if any. */
  ranking: Ranking | null
}

/** Reads the page's products and one more, in reading direction. Also returns the start that was used in the end. */
async function readEntries(
  db: Queryable,
  listing: LocatedListing,
  start: Start,
  allowsSimilar = true,
): Promise<{ entries: Entry[]; textQuery: TextQuery; start: Start }> {
  const { search } = listing
  const similar = search !== null && start.isSimilar ? await findSimilarWords(db, search.required) : undefined
  const textQuery = search === null ? null : toTextQuery(search, similar)
  const entries = await walk(db, listing, start, textQuery)
  if (entries.length > 0 || textQuery === '' || !allowsSimilar) return { entries, textQuery, start }
  // All products before the place are gone, so this shows the first page.
  if (start.isBackward) return readEntries(db, listing, { ...start, isBackward: false, from: null, segment: 'ranked' })
  if (start.from !== null || search === null || start.isSimilar || (isNarrowed(listing) && (await matchesAny(db, textQuery)))) {
    return { entries, textQuery, start }
  }
  return readEntries(db, listing, { ...start, isSimilar: true })
}

/** Whether filters other than the search may exclude all products. */
function isNarrowed({ category, brand, currency, minPrice, maxPrice, inStock, ids, group, attributes }: Listing): boolean {
  return [category, brand, currency, minPrice, maxPrice, inStock, ids, group, attributes].some((value) => value !== null)
}

async function isFollowed(db: Queryable, listing: LocatedListing, last: Entry, textQuery: TextQuery): Promise<boolean> {
  const next = readCursor({ ...listing, cursor: last.cursor('next') })
  return (await walk(db, { ...listing, limit: 0 }, next, textQuery)).length > 0
}

function walk(db: Queryable, listing: LocatedListing, start: Start, textQuery: TextQuery): Promise<Entry[]> {
  const { sort, ranking } = listing
  if (isRankedSort(sort)) return ranking === null ? Promise.resolve([]) : walkByRanking(db, listing, ranking, start, textQuery)
  return sort === 'relevance' ? walkByRelevance(db, listing, start, textQuery ?? '') : walkByKey(db, listing, sort, start, textQuery)
}

async function walkByKey(db: Queryable, listing: LocatedListing, sort: KeySort, start: Start, textQuery: TextQuery): Promise<Entry[]> {
  const { isBackward, from, isSimilar } = start
  const rows = await walkProducts(db, {
    filters: listing,
    textQuery,
    sort,
    isBackward,
    from,
    count: listing.limit + 1,
    view: listing,
  })
  const scope = cursorScope(listing)
  const { of } = sortKey(sort)
  return rows.map((row) => ({ row, cursor: (direction) => encodeCursor(scope, [direction, isSimilar, of(row), row.id]) }))
}

/** Ranked candidates, then the other matches, newest first; reversed when reading backwards. */
async function walkByRelevance(db: Queryable, listing: LocatedListing, start: Start, textQuery: string): Promise<Entry[]> {
  const { isBackward, from, isSimilar, segment = 'ranked' } = start
  const scope = cursorScope(listing)
  const count = listing.limit + 1
  const search = { filters: listing, textQuery, nameQuery: toNameQuery(listing.search ?? { required: [] }) }
  let { window } = start
  let hasRest = window !== undefined

  const cursorOf =
    ({ floor, ceiling, named }: RankedWindow, part: 'ranked' | 'rest', value: string | number, id: string) =>
    (direction: 'next' | 'prev') =>
      encodeCursor(scope, [direction, isSimilar, part, value, id, ...[floor, ceiling, named].map((edge) => edge && [edge.value, edge.id])])

  const ranked = async (left: number): Promise<Entry[]> => {
    const position = segment === 'ranked' ? from : null
    const rows = await walkCandidates(db, {
      ...search,
      isBackward,
      from: position,
      window,
      count: left,
      view: listing,
    })
    if (window === undefined && rows[0] !== undefined) ({ window, hasRest } = rows[0])
    return rows.map((row) => ({ row, cursor: cursorOf(row.window, 'ranked', row.rank, row.id) }))
  }
  const rest = async (left: number): Promise<Entry[]> => {
    const known = window
    if (known === undefined || !hasRest) return []
    const position = segment === 'rest' ? from : null
    const { floor, named } = known
    const walked = {
      filters: listing,
      textQuery,
      without: named && isNamedCandidate(search, named),
      sort: '-created_at',
      isBackward,
      from: position,
      floor,
      count: left,
      view: listing,
    } as const
    const rows = await walkProducts(db, walked)
    return rows.map((row) => ({ row, cursor: cursorOf(known, 'rest', row.created_at.toISOString(), row.id) }))
  }

  return readParts(start, count, { ranked, rest })
}

/** The products of the ranking in its order, then the others, newest first; reversed when reading backwards. */
async function walkByRanking(
  db: Queryable,
  listing: LocatedListing,
  ranking: Ranking,
  start: Start,
  textQuery: TextQuery,
): Promise<Entry[]> {
  const { isBackward, from, isSimilar, segment = 'ranked' } = start
  const scope = cursorScope(listing)
  const walked = { filters: listing, textQuery, isBackward, view: listing }
  const cursorOf = (part: 'ranked' | 'rest', value: string | number, id: string) => (direction: 'next' | 'prev') =>
    encodeCursor(scope, [direction, isSimilar, part, value, id, ranking.id])
  const ranked = async (count: number): Promise<Entry[]> => {
    const rows = await walkRanking(db, { ...walked, ranking, from: segment === 'ranked' ? from : null, count })
    return rows.map((row) => ({ row, cursor: cursorOf('ranked', row.place, row.id) }))
  }
  const rest = async (count: number): Promise<Entry[]> => {
    const position = segment === 'rest' ? from : null
    const rows = await walkProducts(db, { ...walked, sort: '-created_at', without: isRanked(ranking), from: position, count })
    return rows.map((row) => ({ row, cursor: cursorOf('rest', row.created_at.toISOString(), row.id) }))
  }
  return readParts(start, listing.limit + 1, { ranked, rest })
}

type ReadPart = (count: number) => Promise<Entry[]>

/** The next entries of a list of two parts, in reading direction. */
async function readParts({ isBackward, segment }: Start, count: number, { ranked, rest }: Record<'ranked' | 'rest', ReadPart>) {
  const parts = isBackward ? (segment === 'rest' ? [rest, ranked] : [ranked]) : segment === 'rest' ? [rest] : [ranked, rest]
  const entries: Entry[] = []
  for (const part of parts) if (entries.length < count) entries.push(...(await part(count - entries.length)))
  return entries
}

function readCursor(listing: Listing): Start {
  const { cursor, sort } = listing
  if (cursor === null) return { isBackward: false, isSimilar: false, from: null }
  const scope = cursorScope(listing)
  if (isRankedSort(sort)) {
    const [direction, isSimilar, segment, value, id, rankingId] = decodeCursor(scope, cursor, RankingPosition)
    return { isBackward: direction === 'prev', isSimilar, segment, from: { value, id }, rankingId }
  }
  if (sort !== 'relevance') {
    const [direction, isSimilar, value, id] = decodeCursor(scope, cursor, KEY_POSITIONS[sortKey(sort).type])
    return { isBackward: direction === 'prev', isSimilar, from: { value, id } }
  }
  const [direction, isSimilar, segment, value, id, floor, ceiling, named] = decodeCursor(scope, cursor, RelevancePosition)
  const toPosition = ([value, id]: Static<typeof edge>) => ({ value, id })
  const window = { floor: toPosition(floor), ceiling: toPosition(ceiling), named: named && toPosition(named) }
  return { isBackward: direction === 'prev', isSimilar, segment, from: { value, id }, window }
}

import { type Static, Type } from 'typebox'
import type { Queryable } from '../../db/pool.ts'
import { allOf, sql } from '../../db/sql.ts'
import { type MatchSource, matchSource } from '../categories/list-source.ts'
import { EXAMPLE_FACETS } from '../examples.ts'
import { locateFilters } from '../locate-filters.ts'
import { amountIn } from '../offered-prices.ts'
import type { Filters, LocatedFilters } from '../product-query.ts'
import { AttributeFacetsSchema, countAttributes } from './attribute-facets.ts'
import { CategoryFacetsSchema, type CategorySet, countCategories } from './category-facets.ts'
import { estimateProducts, estimateRows, MAX_COST } from './count-products.ts'
import { sampleConditions, type TextQuery } from './filter-sql.ts'
import { resolveTextQuery } from './similar-words.ts'

const count = Type.Integer({ minimum: 0 })

export const FacetsSchema = Type.Object(
  {
    categories: CategoryFacetsSchema,
    brands: Type.Array(Type.Object({ brand: Type.String(), count }), { description: 'The 100 brands with the most products.' }),
    price_ranges: Type.Array(
      Type.Object({
        currency: Type.String(),
        min: Type.Integer({ description: 'The lowest price in minor units.' }),
        max: Type.Union([Type.Integer({ description: 'Prices are below this amount in minor units.' }), Type.Null()]),
        count,
      }),
    ),
    attributes: Type.Optional(AttributeFacetsSchema),
    exact: Type.Boolean({ description: 'Whether the counts are exact. If not, they are estimated from a sample.' }),
  },
  { title: 'Facets', examples: [EXAMPLE_FACETS] },
)
export type Facets = Static<typeof FacetsSchema>

interface RangeCount {
  currency: string
  range: number
  count: number
}

/** Lower ends of the price ranges, in minor units. */
const RANGES = [0, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000]
const MAX_BRANDS = 100
const PRODUCT = sql`product`
/** The most matches that are counted. */
const COUNTED = 10_000
/** If there are more matches, about this number of them is counted in a sample of at most `MAX_SAMPLED` table rows. */
const SAMPLED_MATCHES = 5_000
const MAX_SAMPLED = 20_000
/**
 * The most attribute rows that are read; a product has up to 50. If the matches have more, a sample of about this size
 * is read.
 */
const MAX_READ_ATTRIBUTES = 60_000
/** A smaller sample is unreliable. There are then few matches, and all of them are counted. */
const MIN_SAMPLED = 200
/** The highest cost of finding all these matches, in the planner's unit: reading a table of about 200,000 products. */
const MAX_COST_OF_FEW = 50_000
/** Products measured to estimate the number of attributes of one. */
const MEASURED_PRODUCTS = 200

/** The number of matching products by category, brand, price range and, if requested, attribute. */
export async function countFacets(db: Queryable, wanted: Filters, { hasAttributes = false } = {}): Promise<Facets> {
  const filters = await locateFilters(db, wanted)
  const textQuery = filters.search === null ? null : await resolveTextQuery(db, filters.search)
  const { matches, share, counts } = await countShare(db, { filters, textQuery, ...(await estimateProducts(db, filters, textQuery)) })
  const { ranges, brands, sets } = counts
  const scaled = <T extends { count: number }>(counted: readonly T[]) =>
    counted.map((each) => ({ ...each, count: Math.round(each.count / share) }))
  const attributeShare = hasAttributes ? await shareWithAttributes(db, matches, share) : 1
  return {
    categories: scaled(await countCategories(db, sets, filters.categoryIds)),
    brands: scaled(brands),
    price_ranges: scaled(ranges).map(({ currency, range, count }) => ({
      currency,
      min: RANGES[range - 1] ?? 0,
      max: RANGES[range] ?? null,
      count,
    })),
    ...(hasAttributes ? { attributes: await countAttributes(db, sampleSource(matches, attributeShare), attributeShare) } : {}),
    exact: share === 1 && attributeShare === 1,
  }
}

interface Matches {
  filters: LocatedFilters
  textQuery: TextQuery
  /** The planner's estimate, or the exact number. */
  estimate: number
  cost: number
}

interface SharedCounts {
  matches: Matches
  share: number
  counts: MatchCounts
}

/**
 * Counts all matches if they are few. Otherwise counts the matches in a share of the table. The planner's estimate may
 * be too low or too high.
 */
async function countShare(db: Queryable, matches: Matches): Promise<SharedCounts> {
  const { estimate, cost } = matches
  const isSmall = (cost <= MAX_COST && estimate <= COUNTED) || (await matchShare(db, matches, SAMPLED_MATCHES)) === 1
  const all = isSmall ? await countAll(db, matches) : null
  if (all !== null) return all
  const many = isSmall ? { ...matches, estimate: Math.max(estimate, COUNTED + 1) } : matches
  const share = await matchShare(db, many, SAMPLED_MATCHES)
  const counts = await countMatches(db, many, share)
  const isFew = !isSmall && counts.total < MIN_SAMPLED && cost <= MAX_COST_OF_FEW
  return (isFew ? await countAll(db, many) : null) ?? { matches: many, share, counts }
}

/** Counts all matches. Returns null if there are too many to count exactly. */
async function countAll(db: Queryable, matches: Matches): Promise<SharedCounts | null> {
  const counts = await countMatches(db, matches, 1)
  return counts.total <= COUNTED ? { matches: { ...matches, estimate: counts.total }, share: 1, counts } : null
}

/** The source of the matches: the whole table, or a share of it. */
function sampleSource({ filters, textQuery }: Matches, share: number): MatchSource {
  if (share === 1) return matchSource(filters, textQuery)
  return {
    from: sql`products as product tablesample system (${share * 100}) repeatable (1)`,
    conditions: sampleConditions(filters, textQuery),
  }
}

interface MatchCounts {
  /** Products counted: at most `COUNTED` + 1 of all matches, at most `MAX_SAMPLED` of a sample. */
  total: number
  ranges: RangeCount[]
  brands: Facets['brands']
  sets: CategorySet[]
}

/** Counts the matches in a share of the table. In the whole table it stops at `COUNTED` + 1. */
async function countMatches(db: Queryable, matches: Matches, share: number): Promise<MatchCounts> {
  const { currency } = matches.filters
  const source = sampleSource(matches, share)
  const { rows } = await db.query<MatchCounts>(
    sql`with matching as materialized (
       select product.id, product.brand, ${currency === null ? sql`product.price_currency` : sql`${currency}::text`} as currency,
         width_bucket(${amountIn(PRODUCT, currency)}, ${RANGES}::bigint[]) as range
       from ${source.from}
       where ${allOf(source.conditions)}
       limit ${share === 1 ? COUNTED + 1 : MAX_SAMPLED}
     ), ranged as (
       select currency, range, count(*) as count from matching group by currency, range
     ), branded as (
       select brand, count(*) as count
       from matching
       where brand is not null
       group by brand
       order by count desc, brand collate "C"
       limit ${MAX_BRANDS}
     ), placed as (
       select array_agg(member.category_id order by member.category_id) as ids
       from matching
       join product_categories as member on member.product_id = matching.id
       group by matching.id
     ), counted as (
       select ids, count(*) as count from placed group by ids
     )
     select
       (select count(*) from matching) as total,
       (select coalesce(json_agg(ranged order by currency collate "C", range), '[]') from ranged) as ranges,
       (select coalesce(json_agg(branded), '[]') from branded) as brands,
       (select coalesce(json_agg(counted), '[]') from counted) as sets`,
  )
  return rows[0] as MatchCounts
}

/** The share of the table to read for the matches' attributes, at most the share of the other counts. */
async function shareWithAttributes(db: Queryable, matches: Matches, share: number): Promise<number> {
  const { rows } = await db.query<{ each: number }>(
    sql`select coalesce(avg((select count(*) from jsonb_object_keys(attributes))), 0)::float8 as each
      from (
        select attributes from products tablesample system (${100 * (await sampleShare(db, MEASURED_PRODUCTS))}) repeatable (1)
        limit ${MEASURED_PRODUCTS}
      ) as measured`,
  )
  const readable = MAX_READ_ATTRIBUTES / Math.max(1, rows[0]?.each ?? 1)
  return Math.min(share, matches.estimate <= readable ? 1 : await matchShare(db, matches, readable))
}

/** The share of the table with about `wanted` matches, or `MAX_SAMPLED` rows. */
async function matchShare(db: Queryable, { estimate }: Matches, wanted: number): Promise<number> {
  return Math.min(await sampleShare(db, MAX_SAMPLED), wanted / Math.max(1, estimate))
}

/**
 * The share of the table with about `wanted` rows. The planner knows the table's size even if it was never analyzed.
 */
async function sampleShare(db: Queryable, wanted: number): Promise<number> {
  const { estimate } = await estimateRows(db, sql`select from products`)
  return Math.min(1, wanted / Math.max(1, estimate))
}

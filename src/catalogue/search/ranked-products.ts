import type { Queryable } from '../../db/pool.ts'
import { allOf, literal, noSql, type Sql, sql } from '../../db/sql.ts'
import { listSource } from '../categories/list-source.ts'
import type { Filters, LocatedFilters } from '../product-query.ts'
import { type ProductRow, type ProductView, productColumns } from '../products.ts'
import type { Position } from '../walk-products.ts'
import { filterConditions, matchesText, textQueryExpression } from './filter-sql.ts'

/**
 * The number of newest matches that are ranked; the others follow by age. Ranking all would read half of the catalogue
 * for a word in half of its products. See docs/decisions/catalogue-search.md#ranking-and-bounds.
 */
export const CANDIDATES = 100
/** Candidates of later pages. New matches since the first page may be between its candidates. */
const CANDIDATES_LATER = 10 * CANDIDATES
/**
 * Products whose whole name is the search rank first. The newest of them do so even if they are older than the
 * candidates.
 */
export const NAMED = 20
const NAMED_LATER = 10 * NAMED
const ABOVE_ALL_RANKS = 2
/** Weights of matches in the description, the sku, category and options, and the name. */
const WEIGHTS = '{0.1, 0.6, 0.4, 1}'
// Divides the rank by the logarithm of the text's length, so a word counts more in a short text.
const BY_LENGTH = 1

export interface RankedRow extends ProductRow {
  rank: number
  window: RankedWindow
  /** Whether there may be matches that are not candidates. */
  hasRest: boolean
}

/** The first page's oldest and newest candidate, as places among all products by age. */
export interface RankedWindow {
  floor: Position
  ceiling: Position
  /** The oldest candidate by name; null if none is older than `floor`. */
  named: Position | null
}

export interface RankedSearch {
  filters: LocatedFilters<Filters & { isCollapsed: boolean }>
  textQuery: string
  /** Matches the products whose whole name is the search. */
  nameQuery: string
}

export interface RankedWalk extends RankedSearch {
  isBackward: boolean
  /** `value` is a rank. Null starts at the first, or backwards at the last. */
  from: Position | null
  /** The window of the first page, so all pages rank the same products. Undefined on the first page. */
  window: RankedWindow | undefined
  count: number
  view: ProductView
}

interface CandidateRow extends ProductRow {
  rank: number
  candidates: number
  floor_at: Date
  floor_id: string
  ceiling_at: Date
  ceiling_id: string
  named_at: Date | null
  named_id: string | null
}

const PRODUCT = sql`product`
const OTHER = sql`other`
const isFrom = (place: Position) => (key: Sql) => sql`${key} >= (${place.value}::timestamptz, ${place.id}::uuid)`
const isUpTo = (place: Position) => (key: Sql) => sql`${key} <= (${place.value}::timestamptz, ${place.id}::uuid)`

/** The condition that `product` is a candidate by its name or, in a list of groups, by a variant's name. */
export function isNamedCandidate({ filters, textQuery, nameQuery }: RankedSearch, named: Position): Sql {
  const isNamed = (row: Sql) =>
    sql`${matchesText(row, textQueryExpression(nameQuery))} and ${isFrom(named)(sql`(${row}.created_at, ${row}.id)`)}`
  if (!filters.isCollapsed) return sql`(${isNamed(PRODUCT)})`
  // The array is computed once, not for each product.
  return sql`(${isNamed(PRODUCT)} or product.variant_group = any(array(
    select other.variant_group
    from products as other
    where ${allOf(filterConditions('other', filters, textQuery))} and ${isNamed(OTHER)}
  )))`
}

/** The next `count` candidates by rank, in reading direction. */
export async function walkCandidates(db: Queryable, walk: RankedWalk): Promise<RankedRow[]> {
  const { filters, textQuery, nameQuery, isBackward, from, window, count, view } = walk
  const newest = (query: string, limit: number, bounds: readonly ((key: Sql) => Sql)[], others: readonly Sql[] = []) => {
    const source = listSource(filters, query, others, {
      ...{ column: sql`created_at`, memberColumn: sql`created_at`, direction: sql`desc` },
      beyond: (key) => bounds.map((bound) => bound(key)),
      limit: sql`limit ${literal(limit)}`,
    })
    return sql`select product.id, product.created_at
      from ${source.from}
      where ${allOf(source.conditions)}
      order by ${source.key} desc, ${source.id} desc
      limit ${limit}`
  }
  const matching =
    window === undefined
      ? newest(textQuery, CANDIDATES, [])
      : newest(textQuery, CANDIDATES_LATER, [isFrom(window.floor), isUpTo(window.ceiling)])
  const words = sql`coalesce(product.translated_search, product.search)`
  // Looks up the few products with the name by it alone. The function keeps the other query out of the index, which
  // would collect each prefix's matches again.
  const namedQuery = textQuery === '' ? '' : nameQuery
  const hasWords = [sql`ts_match_vq(${words}, ${textQueryExpression(textQuery)})`]
  // Later pages omit products that are newer than the first page, and older products that got the name since.
  const named =
    window === undefined
      ? newest(namedQuery, NAMED, [], hasWords)
      : newest(
          namedQuery,
          NAMED_LATER,
          window.named === null ? [() => sql`false`] : [isFrom(window.named), isUpTo(window.ceiling)],
          hasWords,
        )
  const direction = isBackward ? sql`asc` : sql`desc`
  const beyond = isBackward ? sql`>` : sql`<`
  const { rows } = await db.query<CandidateRow>(
    // The rank is computed after the limit. Otherwise the text of every match would be read and ranked.
    sql`with candidate as materialized (
      ${matching}
    ), named as materialized (
      ${named}
    ), rated as materialized (
      select product.id, product.created_at, product.variant_group,
        ts_rank(${WEIGHTS}::real[], ${words}, ${textQueryExpression(textQuery)}, ${BY_LENGTH}::integer)
          + case when ${words} @@ ${textQueryExpression(nameQuery)} then ${ABOVE_ALL_RANKS}::real else 0 end as rank
      from (select id from candidate union select id from named) as place
      join products as product on product.id = place.id
      where ${matchesText(PRODUCT, textQueryExpression(textQuery))}
    ), ranked as (
      select id, rank, row_number() over (
        -- A group's name may equal the id of a product without a group.
        partition by variant_group, case when variant_group is null then id end
        order by rank desc, id desc
      ) as place_in_group
      from rated
    ), edge as (
      select
        count(*) as candidates,
        (array_agg(created_at order by created_at, id))[1] as floor_at,
        (array_agg(id order by created_at, id))[1] as floor_id,
        (array_agg(created_at order by created_at desc, id desc))[1] as ceiling_at,
        (array_agg(id order by created_at desc, id desc))[1] as ceiling_id
      from candidate
    ), named_edge as (
      select created_at as named_at, id as named_id
      from named
      cross join edge
      where (created_at, id) < (floor_at, floor_id)
      order by created_at, id
      limit 1
    )
    select ${productColumns(view)}, ranked.rank, edge.*, named_edge.*
    from ranked
    join products as product on product.id = ranked.id
    cross join edge
    left join named_edge on true
    where true
      ${filters.isCollapsed ? sql`and ranked.place_in_group = 1` : noSql}
      ${from === null ? noSql : sql`and (ranked.rank, ranked.id) ${beyond} (${from.value}::real, ${from.id}::uuid)`}
    order by ranked.rank ${direction}, ranked.id ${direction}
    limit ${count}`,
  )
  return rows.map(({ candidates, floor_at, floor_id, ceiling_at, ceiling_id, named_at, named_id, ...row }) => ({
    ...row,
    window: window ?? {
      floor: { value: floor_at.toISOString(), id: floor_id },
      ceiling: { value: ceiling_at.toISOString(), id: ceiling_id },
      named: named_at === null || named_id === null ? null : { value: named_at.toISOString(), id: named_id },
    },
    hasRest: window !== undefined || candidates === CANDIDATES,
  }))
}

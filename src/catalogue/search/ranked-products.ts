import type { Queryable } from '../../db/pool.ts'
import { allOf, literal, noSql, type Sql, sql } from '../../db/sql.ts'
import { listSource } from '../categories/list-source.ts'
import type { Filters, LocatedFilters } from '../product-query.ts'
import { type ProductRow, type ProductView, productColumns } from '../products.ts'
import type { Position } from '../walk-products.ts'
import { textQueryExpression } from './filter-sql.ts'

/**
 * The number of newest matches that are ranked; the others follow by age. Ranking all would read half of the catalogue for a word that
 * half of its products have. See docs/decisions/0022-search.md.
 */
export const CANDIDATES = 100
/** On later pages: products that match since the first page may be between its candidates. */
const CANDIDATES_LATER = 10 * CANDIDATES
/** Weights of matches in the description, the sku, category and options, and the name. */
const WEIGHTS = '{0.1, 0.6, 0.4, 1}'
// Divides the rank by the logarithm of the text's length: a word counts more in a short text.
const BY_LENGTH = 1

export interface RankedRow extends ProductRow {
  rank: number
  window: RankedWindow
  /** Whether there may be matches besides the candidates. */
  hasRest: boolean
}

/** The places, among all products by age, of the oldest and the newest candidate of the first page. */
export interface RankedWindow {
  floor: Position
  ceiling: Position
}

export interface RankedWalk {
  filters: LocatedFilters<Filters & { isCollapsed: boolean }>
  textQuery: string
  isBackward: boolean
  /** `value` is a rank. Null: from the first, or backwards from the last. */
  from: Position | null
  /** That of the first page, so that all pages rank the same products; undefined on the first page. */
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
}

/** The next `count` candidates by rank, in the direction of reading. */
export async function walkCandidates(db: Queryable, walk: RankedWalk): Promise<RankedRow[]> {
  const { filters, textQuery, isBackward, from, window, count, view } = walk
  const isBetween =
    ({ floor, ceiling }: RankedWindow) =>
    (key: Sql) => [
      sql`${key} >= (${floor.value}::timestamptz, ${floor.id}::uuid)`,
      sql`${key} <= (${ceiling.value}::timestamptz, ${ceiling.id}::uuid)`,
    ]
  const candidates = listSource(filters, textQuery, [], {
    ...{ column: sql`created_at`, memberColumn: sql`created_at`, direction: sql`desc` },
    beyond: window === undefined ? () => [] : isBetween(window),
    limit: sql`limit ${literal(window === undefined ? CANDIDATES : CANDIDATES_LATER)}`,
  })
  const direction = isBackward ? sql`asc` : sql`desc`
  const beyond = isBackward ? sql`>` : sql`<`
  const { rows } = await db.query<CandidateRow>(
    // Ranked after the limit: otherwise the text of every match would be read and ranked.
    sql`with candidate as materialized (
      select product.id, product.created_at
      from ${candidates.from}
      where ${allOf(candidates.conditions)}
      order by ${candidates.order}
      limit ${window === undefined ? CANDIDATES : CANDIDATES_LATER}
    ), rated as materialized (
      select product.id, product.variant_group, ts_rank(${WEIGHTS}::real[], coalesce(product.translated_search, product.search), ${textQueryExpression(textQuery)}, ${BY_LENGTH}::integer) as rank
      from candidate
      join products as product on product.id = candidate.id
    ), ranked as (
      select id, rank, row_number() over (
        -- The name of a group may equal the id of a product without a group.
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
    )
    select ${productColumns(view)}, ranked.rank, edge.candidates, edge.floor_at, edge.floor_id, edge.ceiling_at, edge.ceiling_id
    from ranked
    join products as product on product.id = ranked.id
    cross join edge
    where true
      ${filters.isCollapsed ? sql`and ranked.place_in_group = 1` : noSql}
      ${from === null ? noSql : sql`and (ranked.rank, ranked.id) ${beyond} (${from.value}::real, ${from.id}::uuid)`}
    order by ranked.rank ${direction}, ranked.id ${direction}
    limit ${count}`,
  )
  return rows.map(({ candidates, floor_at, floor_id, ceiling_at, ceiling_id, ...row }) => ({
    ...row,
    window: window ?? {
      floor: { value: floor_at.toISOString(), id: floor_id },
      ceiling: { value: ceiling_at.toISOString(), id: ceiling_id },
    },
    hasRest: window !== undefined || candidates === CANDIDATES,
  }))
}

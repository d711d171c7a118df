import type { Queryable } from '../db/pool.ts'
import { allOf, noSql, sql } from '../db/sql.ts'
import { filterConditions, textQueryExpression } from './filter-sql.ts'
import type { Filters } from './product-query.ts'
import { COLUMNS_OF_PRODUCT, type ProductRow } from './products.ts'
import type { Position } from './walk-products.ts'

/**
 * How many of the newest matches are ranked. Behind them the others follow, the newest first: a word that half of the catalogue
 * has would otherwise cost a look at half of the catalogue. See docs/decisions/0022-search.md.
 */
export const CANDIDATES = 100
// Products that came since the first page are candidates too, so that none of the first ones drops out.
const CANDIDATES_LATER = 2 * CANDIDATES
/** Of matches in description, sku, category and options, and name. */
const WEIGHTS = '{0.1, 0.6, 0.4, 1}'
// Divides by the logarithm of the text's length: a word says more of a short text.
const BY_LENGTH = 1

export interface RankedRow extends ProductRow {
  rank: number
  /** The last candidate's place among all products by age; null when every match is a candidate. */
  floor: Position | null
}

export interface RankedWalk {
  filters: Filters & { isCollapsed: boolean }
  textQuery: string
  isBackward: boolean
  /** `value` is a rank. Null: from the first, or backwards from the last. */
  from: Position | null
  /** As the first page told it; undefined on the first page. */
  floor: Position | null | undefined
  count: number
}

/** The next `count` candidates by rank, in the order in which they are met. */
export async function walkCandidates(db: Queryable, walk: RankedWalk): Promise<RankedRow[]> {
  const { filters, textQuery, isBackward, from, floor, count } = walk
  const conditions = filterConditions('product', filters, textQuery)
  if (floor) conditions.push(sql`(product.created_at, product.id) >= (${floor.value}::timestamptz, ${floor.id}::uuid)`)
  const direction = isBackward ? sql`asc` : sql`desc`
  const beyond = isBackward ? sql`>` : sql`<`
  const { rows } = await db.query<RankedRow & { floor_at: Date | null; floor_id: string | null }>(
    // The rank comes after the limit: before it, every match's text would be read and ranked.
    sql`with candidate as materialized (
      select product.id, product.created_at
      from products as product
      where ${allOf(conditions)}
      order by product.created_at desc, product.id desc
      limit ${floor === undefined ? CANDIDATES : CANDIDATES_LATER}
    ), rated as materialized (
      select product.id, product.variant_group, ts_rank(${WEIGHTS}::real[], product.search, ${textQueryExpression(textQuery)}, ${BY_LENGTH}::integer) as rank
      from candidate
      join products as product on product.id = candidate.id
    ), ranked as (
      select id, rank, row_number() over (
        -- A group may be called like the id of a product that has none.
        partition by variant_group, case when variant_group is null then id end
        order by rank desc, id desc
      ) as place_in_group
      from rated
    ), last_candidate as (
      select created_at, id
      from candidate
      order by created_at desc, id desc
      offset ${CANDIDATES - 1}
      limit 1
    )
    select ${COLUMNS_OF_PRODUCT}, ranked.rank, last_candidate.created_at as floor_at, last_candidate.id as floor_id
    from ranked
    join products as product on product.id = ranked.id
    left join last_candidate on true
    where true
      ${filters.isCollapsed ? sql`and ranked.place_in_group = 1` : noSql}
      ${from === null ? noSql : sql`and (ranked.rank, ranked.id) ${beyond} (${from.value}::real, ${from.id}::uuid)`}
    order by ranked.rank ${direction}, ranked.id ${direction}
    limit ${count}`,
  )
  return rows.map(({ floor_at, floor_id, ...row }) => ({
    ...row,
    floor: floor !== undefined ? floor : floor_at === null || floor_id === null ? null : { value: floor_at.toISOString(), id: floor_id },
  }))
}

import type { Queryable } from '../db/pool.ts'
import { filterConditions, Parameters, textQueryExpression } from './filter-sql.ts'
import type { Filters } from './product-query.ts'
import { type ProductRow, productColumns } from './products.ts'
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
  const parameters = new Parameters()
  const query = textQueryExpression(textQuery, parameters)
  const conditions = filterConditions('product', filters, textQuery, parameters)
  const place = ({ value, id }: Position, type: string) => `(${parameters.add(value)}::${type}, ${parameters.add(id)}::uuid)`
  if (floor) conditions.push(`(product.created_at, product.id) >= ${place(floor, 'timestamptz')}`)
  const direction = isBackward ? 'asc' : 'desc'
  const { rows } = await db.query<RankedRow & { floor_at: Date | null; floor_id: string | null }>(
    // The rank comes after the limit: before it, every match's text would be read and ranked.
    `with candidate as materialized (
      select product.id, product.created_at
      from products as product
      where ${conditions.join(' and ')}
      order by product.created_at desc, product.id desc
      limit ${floor === undefined ? CANDIDATES : CANDIDATES_LATER}
    ), rated as materialized (
      select product.id, product.variant_group, ts_rank('${WEIGHTS}', product.search, ${query}, ${BY_LENGTH}) as rank
      from candidate
      join products as product on product.id = candidate.id
    ), ranked as (
      select id, rank, row_number() over (partition by coalesce(variant_group, id::text) order by rank desc, id desc) as place_in_group
      from rated
    ), last_candidate as (
      select created_at, id
      from candidate
      order by created_at desc, id desc
      offset ${CANDIDATES - 1}
      limit 1
    )
    select ${productColumns('product')}, ranked.rank, last_candidate.created_at as floor_at, last_candidate.id as floor_id
    from ranked
    join products as product on product.id = ranked.id
    left join last_candidate on true
    where true
      ${filters.isCollapsed ? 'and ranked.place_in_group = 1' : ''}
      ${from === null ? '' : `and (ranked.rank, ranked.id) ${isBackward ? '>' : '<'} ${place(from, 'real')}`}
    order by ranked.rank ${direction}, ranked.id ${direction}
    limit ${parameters.add(count)}`,
    parameters.values,
  )
  return rows.map(({ floor_at, floor_id, ...row }) => ({
    ...row,
    floor: floor !== undefined ? floor : floor_at === null || floor_id === null ? null : { value: floor_at.toISOString(), id: floor_id },
  }))
}

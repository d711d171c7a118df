import { BATCH_ROWS, inBatches } from '../db/in-batches.ts'
import type { Pool, Queryable, Transaction } from '../db/pool.ts'
import { allOf, noSql, type Sql, sql } from '../db/sql.ts'
import { isMeantBy } from './categories/locate-category.ts'
import { rankingTag } from './events.ts'
import type { Filters, LocatedFilters, RankedSort } from './product-query.ts'
import { type ProductRow, type ProductView, productColumns } from './products.ts'
import { filterConditions, type TextQuery } from './search/filter-sql.ts'
import type { Position } from './walk-products.ts'

/** Products that come first in a list, each with the variants of its group. */
export interface Ranking {
  /** Identifies this state of the ranking. 0 if there is none. */
  id: number
  productIds: readonly string[]
  /** The groups of these products. */
  groups: readonly string[]
  /** The cache tag of pages that use this ranking. Null for an unknown category. */
  tag: string | null
}

export interface NewRanking {
  /** The category that the ranking belongs to. Null for the whole shop. */
  categoryId: string | null
  productIds: readonly string[]
}

/** How long pages that follow an earlier state of a ranking find it, at least. */
const KEPT_MINUTES = 60
const NONE = { id: 0, productIds: [], groups: [] }

/**
 * The ranking of the query's category, or of the whole shop. It is the state `id` if that is still kept, otherwise the
 * current one. If several categories have the name, the first one counts, as in `category_of_name`.
 */
export async function findRanking(db: Queryable, sort: RankedSort, category: string | null, id: number | undefined): Promise<Ranking> {
  const list =
    category === null
      ? sql`select null::uuid as category_id`
      : sql`select id as category_id from categories where ${isMeantBy(category)} order by parent_id is not null, created_at, id limit 1`
  const ofList = category === null ? sql`ranking.category_id is null` : sql`ranking.category_id = list.category_id`
  const { rows } = await db.query<{ categoryId: string | null; id: number | null; productIds: string[]; groups: string[] }>(
    sql`select list.category_id as "categoryId", ranking.id, ranking.product_ids as "productIds",
      array(
        select distinct variant_group from products where id = any(ranking.product_ids) and variant_group is not null
      ) as groups
    from (${list}) as list
    left join lateral (
      select id, product_ids
      from product_rankings as ranking
      where ${ofList} and sort = ${sort} and (replaced_at is null or id = ${id ?? 0})
      order by id = ${id ?? 0} desc
      limit 1
    ) as ranking on true`,
  )
  const [found] = rows
  if (found === undefined) return { ...NONE, tag: null }
  const tag = rankingTag(sort, found.categoryId)
  return found.id === null || id === 0 ? { ...NONE, tag } : { id: found.id, productIds: found.productIds, groups: found.groups, tag }
}

/** Replaces rankings. Pages that follow an earlier state find it until `deleteOldRankings`. */
export async function replaceRankings(tx: Transaction, sort: RankedSort, rankings: readonly NewRanking[]): Promise<void> {
  const categoryIds = rankings.map(({ categoryId }) => categoryId)
  await tx.query(
    sql`update product_rankings
    set replaced_at = clock_timestamp()
    where sort = ${sort} and replaced_at is null
      and (category_id = any(${categoryIds}::uuid[]) or (category_id is null and ${categoryIds.includes(null)}))`,
  )
  await tx.query(
    sql`insert into product_rankings (sort, category_id, product_ids)
    select ${sort}, "categoryId", "productIds"
    from json_to_recordset(${JSON.stringify(rankings)}) as ranking ("categoryId" uuid, "productIds" uuid[])`,
  )
}

/** Deletes states that were replaced an hour ago, and returns their number. It waits for no other transaction. */
export function deleteOldRankings(pool: Pool): Promise<number> {
  return inBatches(
    pool,
    sql`delete from product_rankings
    where id in (
      select id from product_rankings where replaced_at < now() - make_interval(mins => ${KEPT_MINUTES})
      limit ${BATCH_ROWS} for update skip locked
    )`,
  )
}

/** The condition that `product` is in the ranking, itself or by its group. Null if the ranking is empty. */
export function isRanked({ productIds, groups }: Ranking): Sql | null {
  if (productIds.length === 0) return null
  return sql`(product.id = any(${productIds}::uuid[]) or product.variant_group = any(${groups}::text[]))`
}

export interface RankingWalk {
  ranking: Ranking
  filters: LocatedFilters<Filters & { isCollapsed: boolean }>
  textQuery: TextQuery
  isBackward: boolean
  /** `value` is a place in the ranking. */
  from: Position | null
  count: number
  view: ProductView
}

export interface PlacedRow extends ProductRow {
  place: number
}

/** The next `count` matching products of a ranking, in reading direction. Variants of a group are ordered by id. */
export async function walkRanking(db: Queryable, walk: RankingWalk): Promise<PlacedRow[]> {
  const { ranking, filters, textQuery, isBackward, from, count, view } = walk
  if (ranking.productIds.length === 0) return []
  const { direction, beyond, fromOn } = isBackward
    ? { direction: sql`desc`, beyond: sql`<`, fromOn: sql`<=` }
    : { direction: sql`asc`, beyond: sql`>`, fromOn: sql`>=` }
  const matching = allOf(filterConditions('product', filters, textQuery))
  const variants = sql`
      select product.id, product.created_at from products as product
      where entry.variant_group is null and product.id = entry.id and ${matching}
      union all
      select product.id, product.created_at from products as product
      where product.variant_group = entry.variant_group and ${matching}`
  // A list of groups shows the variant that was ranked, or else the newest one that matches.
  const shown = filters.isCollapsed
    ? sql`select id from (${variants}) as variant order by variant.id = entry.id desc, variant.created_at desc, variant.id desc limit 1`
    : variants
  // A list of groups continues with the next place, and another list with the other variants of the last one.
  const entries = from === null ? noSql : sql`where place ${filters.isCollapsed ? beyond : fromOn} ${from.value}::bigint`
  const rest =
    from === null || filters.isCollapsed ? noSql : sql`where (entry.place, product.id) ${beyond} (${from.value}::bigint, ${from.id}::uuid)`
  const { rows } = await db.query<PlacedRow>(
    sql`with entry as materialized (
      select min(place) as place, (array_agg(product.id order by place))[1] as id, product.variant_group
      from unnest(${ranking.productIds}::uuid[]) with ordinality as ranked (id, place)
      join products as product on product.id = ranked.id
      group by product.variant_group, case when product.variant_group is null then product.id end
    )
    select ${productColumns(view)}, entry.place
    from (select place, id, variant_group from entry ${entries} order by place ${direction}) as entry
    cross join lateral (${shown}) as variant
    join products as product on product.id = variant.id
    ${rest}
    order by entry.place ${direction}, product.id ${direction}
    limit ${count}`,
  )
  return rows
}

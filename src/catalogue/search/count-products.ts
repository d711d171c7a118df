import type { Queryable } from '../../db/pool.ts'
import { allOf, type Sql, sql } from '../../db/sql.ts'
import { matchSource } from '../categories/list-source.ts'
import type { LocatedFilters } from '../product-query.ts'
import { filterConditions, type TextQuery } from './filter-sql.ts'

/** The most products that are counted. For more, the answer is the planner's estimate. */
const COUNTED = 10_000
/**
 * The highest cost of finding products, in the planner's unit: about the time of reading a page, and more than an index
 * needs for them.
 */
export const MAX_COST = 12_000
/** The most category members that are counted, by their index. */
const MEMBERS_COUNTED = 20_000

/** The number of matching products. With `isCollapsed`, a group counts as one. */
export async function countProducts(
  db: Queryable,
  filters: LocatedFilters & { isCollapsed: boolean },
  textQuery: TextQuery,
): Promise<{ value: number; exact: boolean }> {
  const { categoryIds, isCollapsed } = filters
  const isCategoryAlone =
    categoryIds?.length === 1 && !isCollapsed && filterConditions('product', { ...filters, categoryIds: null }, textQuery).length === 1
  if (isCategoryAlone) return countMembers(db, categoryIds[0] ?? '')
  const { estimate, cost } = await estimateProducts(db, filters, textQuery)
  // Counting would be slow, because PostgreSQL builds a bitmap of all matches before it counts the first one.
  if (estimate > 2 * COUNTED || cost > MAX_COST) return { value: estimate, exact: false }
  const { from, conditions } = matchSource(filters, textQuery)
  const { rows } = await db.query<{ matches: number; entries: number }>(
    sql`select count(*) as matches, count(${isCollapsed ? ENTRY : ANY}) as entries
    from (
      select product.id, product.variant_group
      from ${from}
      where ${allOf(conditions)}
      limit ${COUNTED + 1}
    ) as counted`,
  )
  const { matches = 0, entries = 0 } = rows[0] ?? {}
  if (matches <= COUNTED) return { value: entries, exact: true }
  return { value: Math.max(entries, Math.round((estimate * entries) / matches)), exact: false }
}

/** Counts the products of one category without other filters. It reads only the index. */
async function countMembers(db: Queryable, categoryId: string): Promise<{ value: number; exact: boolean }> {
  const { rows } = await db.query<{ members: number }>(
    sql`select count(*) as members
     from (select from product_categories where category_id = ${categoryId} and is_listed limit ${MEMBERS_COUNTED + 1}) as counted`,
  )
  const { members = 0 } = rows[0] ?? {}
  if (members <= MEMBERS_COUNTED) return { value: members, exact: true }
  const { estimate } = await estimateRows(db, sql`select from product_categories where category_id = ${categoryId} and is_listed`)
  return { value: Math.max(members, estimate), exact: false }
}

// Groups and ids cannot be mixed up, because one of the two is null.
const ENTRY = sql`distinct (variant_group, case when variant_group is null then id end)`
const ANY = sql`*`

/** The planner's estimates for the number of matching products and for the cost of finding them. */
export function estimateProducts(
  db: Queryable,
  filters: LocatedFilters,
  textQuery: TextQuery,
): Promise<{ estimate: number; cost: number }> {
  const { from, conditions } = matchSource(filters, textQuery)
  return estimateRows(db, sql`select from ${from} where ${allOf(conditions)}`)
}

/** The planner's estimate for a statement, which takes a few hundred microseconds. */
export async function estimateRows(db: Queryable, statement: Sql): Promise<{ estimate: number; cost: number }> {
  const { rows } = await db.query<{ 'QUERY PLAN': [{ Plan: { 'Plan Rows': number; 'Total Cost': number } }] }>(
    sql`explain (format json) ${statement}`,
  )
  const { 'Plan Rows': estimate = 0, 'Total Cost': cost = 0 } = rows[0]?.['QUERY PLAN'][0].Plan ?? {}
  return { estimate, cost }
}

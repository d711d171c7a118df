import type { Queryable } from '../../db/pool.ts'
import { allOf, sql } from '../../db/sql.ts'
import type { Filters } from '../product-query.ts'
import { filterConditions, type TextQuery } from './filter-sql.ts'

/** The most products that are counted. Beyond it the answer is the planner's estimate. */
const COUNTED = 10_000

/** The number of products that match the filters; with `isCollapsed` a group counts as one. */
export async function countProducts(
  db: Queryable,
  filters: Filters & { isCollapsed: boolean },
  textQuery: TextQuery,
): Promise<{ value: number; exact: boolean }> {
  const estimate = await estimateProducts(db, filters, textQuery)
  // Too many to be counted exactly, and slow to try: PostgreSQL builds a bitmap of all matches before it counts the first.
  if (estimate > 2 * COUNTED) return { value: estimate, exact: false }
  const { rows } = await db.query<{ matches: number; entries: number }>(
    sql`select count(*) as matches, count(${filters.isCollapsed ? ENTRY : ANY}) as entries
    from (
      select product.id, product.variant_group
      from products as product
      where ${allOf(filterConditions('product', filters, textQuery))}
      limit ${COUNTED + 1}
    ) as counted`,
  )
  const { matches = 0, entries = 0 } = rows[0] ?? {}
  if (matches <= COUNTED) return { value: entries, exact: true }
  return { value: Math.max(entries, Math.round((estimate * entries) / matches)), exact: false }
}

// A group and an id cannot be mixed up: one of the two is null.
const ENTRY = sql`distinct (variant_group, case when variant_group is null then id end)`
const ANY = sql`*`

/** The number of products that PostgreSQL's planner expects from its statistics, in a few hundred microseconds. */
export async function estimateProducts(db: Queryable, filters: Filters, textQuery: TextQuery): Promise<number> {
  const { rows } = await db.query<{ 'QUERY PLAN': [{ Plan: { 'Plan Rows': number } }] }>(
    sql`explain (format json)
    select
    from products as product
    where ${allOf(filterConditions('product', filters, textQuery))}`,
  )
  return rows[0]?.['QUERY PLAN'][0].Plan['Plan Rows'] ?? 0
}

import type { Queryable } from '../../db/pool.ts'
import { allOf, sql } from '../../db/sql.ts'
import type { Filters } from '../product-query.ts'
import { filterConditions, type TextQuery } from './filter-sql.ts'

/** Up to this many products are counted; of more, the planner's estimate is told. */
const COUNTED = 10_000

/** How many products the filters mean, or with `isCollapsed` how many entries a list of them has: a group is one. */
export async function countProducts(
  db: Queryable,
  filters: Filters & { isCollapsed: boolean },
  textQuery: TextQuery,
): Promise<{ value: number; exact: boolean }> {
  const estimate = await estimateProducts(db, filters, textQuery)
  // So far off that counting would be in vain, and slow: a bitmap of all matches is made before the first is counted.
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

// A group and an id never look the same: only one of the two is there.
const ENTRY = sql`distinct (variant_group, case when variant_group is null then id end)`
const ANY = sql`*`

/** How many products PostgreSQL's planner expects, from statistics: a few hundred microseconds whatever the number. */
export async function estimateProducts(db: Queryable, filters: Filters, textQuery: TextQuery): Promise<number> {
  const { rows } = await db.query<{ 'QUERY PLAN': [{ Plan: { 'Plan Rows': number } }] }>(
    sql`explain (format json)
    select
    from products as product
    where ${allOf(filterConditions('product', filters, textQuery))}`,
  )
  return rows[0]?.['QUERY PLAN'][0].Plan['Plan Rows'] ?? 0
}

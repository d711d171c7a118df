import type { Queryable } from '../db/pool.ts'
import { filterConditions, Parameters, type TextQuery } from './filter-sql.ts'
import type { Filters } from './product-query.ts'

/** Up to this many products are counted; of more, the planner's estimate is told. */
const COUNTED = 10_000

/** How many products the filters mean. With `collapse` it counts variants, not groups. */
export async function countProducts(db: Queryable, filters: Filters, textQuery: TextQuery): Promise<{ value: number; exact: boolean }> {
  const estimate = await estimateProducts(db, filters, textQuery)
  // So far off that counting would be in vain, and slow: a bitmap of all matches is made before the first is counted.
  if (estimate > 2 * COUNTED) return { value: estimate, exact: false }
  const parameters = new Parameters()
  const conditions = filterConditions('product', filters, textQuery, parameters)
  const { rows } = await db.query<{ count: number }>(
    `select count(*) as count
    from (
      select
      from products as product
      where ${conditions.join(' and ')}
      limit ${COUNTED + 1}
    ) as counted`,
    parameters.values,
  )
  const value = rows[0]?.count ?? 0
  return value <= COUNTED ? { value, exact: true } : { value: Math.max(value, estimate), exact: false }
}

/** How many products PostgreSQL's planner expects, from statistics: a few hundred microseconds whatever the number. */
export async function estimateProducts(db: Queryable, filters: Filters, textQuery: TextQuery): Promise<number> {
  const parameters = new Parameters()
  const conditions = filterConditions('product', filters, textQuery, parameters)
  const { rows } = await db.query<{ 'QUERY PLAN': [{ Plan: { 'Plan Rows': number } }] }>(
    `explain (format json)
    select
    from products as product
    where ${conditions.join(' and ')}`,
    parameters.values,
  )
  return rows[0]?.['QUERY PLAN'][0].Plan['Plan Rows'] ?? 0
}

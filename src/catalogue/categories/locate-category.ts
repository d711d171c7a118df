import type { Queryable } from '../../db/pool.ts'
import { prepared, sql } from '../../db/sql.ts'
import type { Filters } from '../product-query.ts'

/** `filters` with the ids of the category that they name and of all below it; no ids when there is none. */
export async function locateCategory<T extends Filters>(db: Queryable, filters: T): Promise<T & { categoryIds: string[] | null }> {
  const { category } = filters
  if (category === null) return { ...filters, categoryIds: null }
  const { rows } = await db.query<{ id: string }>(
    prepared(
      sql`with recursive wanted as (
         select id
         from categories
         where slug = ${category} or (name = ${category} and not exists (select from categories where slug = ${category}))
         union
         select below.id from wanted join categories as below on below.parent_id = wanted.id
       )
       select id from wanted`,
      'locate category',
    ),
  )
  return { ...filters, categoryIds: rows.map(({ id }) => id) }
}

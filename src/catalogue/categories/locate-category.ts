import type { Queryable } from '../../db/pool.ts'
import { prepared, type Sql, sql } from '../../db/sql.ts'
import type { Filters } from '../product-query.ts'

/** Adds the ids of the filter's category and its descendants; an empty list if it does not exist. */
export async function locateCategory<T extends Filters>(db: Queryable, filters: T): Promise<T & { categoryIds: string[] | null }> {
  const { category } = filters
  if (category === null) return { ...filters, categoryIds: null }
  const { rows } = await db.query<{ id: string }>(
    prepared(
      sql`with recursive wanted as (
         select id
         from categories
         where ${isMeantBy(category)}
         union
         select below.id from wanted join categories as below on below.parent_id = wanted.id
       )
       select id from wanted`,
      'locate category',
    ),
  )
  return { ...filters, categoryIds: rows.map(({ id }) => id) }
}

/** The condition for `categories` that a query means them: by the slug, or else by the name, which several may have. */
export function isMeantBy(category: string): Sql {
  return sql`(slug = ${category} or (name = ${category} and not exists (select from categories where slug = ${category})))`
}

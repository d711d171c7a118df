import type { Queryable } from '../db/pool.ts'
import { allOf, literal, type Sql, sql } from '../db/sql.ts'
import { locateCategory } from './categories/locate-category.ts'
import type { Filters, LocatedFilters } from './product-query.ts'

/**
 * Up to this number, the products are read and sorted. Finding so few of them by walking the list's order could read
 * the whole catalogue.
 */
const FEW = 2_000

/** Adds the category ids. Also adds the ids of the products that are sold in the currency, if these are few. */
export async function locateFilters<T extends Filters>(db: Queryable, filters: T): Promise<LocatedFilters<T>> {
  return { ...(await locateCategory(db, filters)), soldIds: await findFewSold(db, filters) }
}

/**
 * The products with a price in the currency and range, from the two price indexes. Null if no currency is given, and
 * for more than `FEW`, which a walk finds soon.
 */
async function findFewSold(db: Queryable, { currency, minPrice, maxPrice }: Filters): Promise<string[] | null> {
  if (currency === null) return null
  const most = sql`limit ${literal(FEW + 1)}`
  const inRange = (amount: Sql) => [
    ...(minPrice === null ? [] : [sql`${amount} >= ${minPrice}::bigint`]),
    ...(maxPrice === null ? [] : [sql`${amount} <= ${maxPrice}::bigint`]),
  ]
  const { rows } = await db.query<{ ids: string[] | null }>(
    sql`select case when count(*) <= ${literal(FEW)} then coalesce(array_agg(id), '{}') end as ids
    from (
      (
        select id from products
        where archived_at is null and ${allOf([sql`price_currency = ${currency}`, ...inRange(sql`price_amount`)])}
        order by price_amount, id
        ${most}
      )
      union all
      (
        select product_id from product_prices
        where ${allOf([sql`currency = ${currency}`, ...inRange(sql`amount`)])}
        order by amount, product_id
        ${most}
      )
      ${most}
    ) as sold`,
  )
  return rows[0]?.ids ?? null
}

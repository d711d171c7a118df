import { type Static, Type } from 'typebox'
import type { Queryable } from '../../db/pool.ts'
import { allOf, noSql, sql } from '../../db/sql.ts'
import { EXAMPLE_FACETS } from '../examples.ts'
import type { Filters } from '../product-query.ts'
import { AttributeFacetsSchema, countAttributes } from './attribute-facets.ts'
import { estimateProducts } from './count-products.ts'
import { filterConditions } from './filter-sql.ts'
import { resolveTextQuery } from './similar-words.ts'

const count = Type.Integer({ minimum: 0 })

export const FacetsSchema = Type.Object(
  {
    categories: Type.Array(Type.Object({ category: Type.String(), count }), { description: 'The 100 with most products.' }),
    price_ranges: Type.Array(
      Type.Object({
        currency: Type.String(),
        min: Type.Integer({ description: 'Minor units.' }),
        max: Type.Union([Type.Integer({ description: 'Below this; minor units.' }), Type.Null()]),
        count,
      }),
    ),
    attributes: Type.Optional(AttributeFacetsSchema),
    exact: Type.Boolean({ description: 'Whether the counts are exact; otherwise they come from a sample.' }),
  },
  { title: 'Facets', examples: [EXAMPLE_FACETS] },
)
export type Facets = Static<typeof FacetsSchema>

/** Lower ends of the price ranges, in minor units. */
const RANGES = [0, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000]
const MAX_CATEGORIES = 100
/** Of more matches a sample of about this size is read. */
const MAX_READ = 50_000
/** Those of attributes cost more each. */
const MAX_READ_OF_ATTRIBUTES = 10_000

/** The number of products that match the filters, by category, by price range and, if asked, by attribute. */
export async function countFacets(db: Queryable, filters: Filters, { hasAttributes = false } = {}): Promise<Facets> {
  const textQuery = filters.search === null ? null : await resolveTextQuery(db, filters.search)
  const conditions = filterConditions('product', filters, textQuery)
  const estimate = await estimateProducts(db, filters, textQuery)
  const share = estimate <= MAX_READ ? 1 : await sampleShare(db, MAX_READ)
  const { rows } = await db.query<{ category: string; currency: string; range: number; count: number }>(
    sql`select product.category, product.price_currency as currency,
      width_bucket(product.price_amount, ${RANGES}::bigint[]) as range, count(*) as count
    from products as product ${share < 1 ? sql`tablesample system (${share * 100}) repeatable (1)` : noSql}
    where ${allOf(conditions)}
    group by product.category, product.price_currency, range`,
  )
  const total = (group: typeof rows) => Math.round(group.reduce((sum, row) => sum + row.count, 0) / share)
  const attributeShare = estimate <= MAX_READ_OF_ATTRIBUTES ? 1 : await sampleShare(db, MAX_READ_OF_ATTRIBUTES)
  return {
    categories: [...Map.groupBy(rows, ({ category }) => category)]
      .map(([category, group]) => ({ category, count: total(group) }))
      .sort((a, b) => b.count - a.count || (a.category < b.category ? -1 : 1))
      .slice(0, MAX_CATEGORIES),
    price_ranges: [...Map.groupBy(rows, ({ currency, range }) => `${currency} ${String(range).padStart(2, '0')}`)]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([, group]) => {
        const { currency = '', range = 1 } = group[0] ?? {}
        return { currency, min: RANGES[range - 1] ?? 0, max: RANGES[range] ?? null, count: total(group) }
      }),
    ...(hasAttributes ? { attributes: await countAttributes(db, conditions, attributeShare) } : {}),
    exact: share === 1 && (!hasAttributes || attributeShare === 1),
  }
}

/** The share of the table that has about `wanted` rows. */
async function sampleShare(db: Queryable, wanted: number): Promise<number> {
  const { rows } = await db.query<{ rows: number }>(`select reltuples::bigint as rows from pg_class where oid = 'products'::regclass`)
  return Math.min(1, wanted / Math.max(1, rows[0]?.rows ?? 0))
}

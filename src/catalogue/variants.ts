import { type Static, Type } from 'typebox'
import type { Queryable } from '../db/pool.ts'
import { noSql, sql } from '../db/sql.ts'
import { amountIn, isSoldIn } from './offered-prices.ts'

/** A summary of all sold variants of a group, whether or not they match a query. */
export const VariantsSchema = Type.Object(
  {
    count: Type.Integer(),
    options: Type.Record(Type.String(), Type.Array(Type.String()), { description: 'The values of each option.' }),
    prices: Type.Array(Type.Object({ currency: Type.String(), min: Type.Integer(), max: Type.Integer() }, { description: 'Minor units.' })),
    in_stock: Type.Boolean({ description: 'Whether any variant is in stock.' }),
  },
  { title: 'Variants', description: 'The variants of the group. Present only with `collapse=group`, and only if the product has a group.' },
)
type Variants = Static<typeof VariantsSchema>

const PRODUCTS = sql`products`

/** Adds each group's summary to `products`; of variants sold in `currency` if it is given. */
export async function addVariants<T extends { group: string | null; variants?: Variants }>(
  db: Queryable,
  products: readonly T[],
  currency: string | null,
): Promise<T[]> {
  const groups = new Set(products.map(({ group }) => group).filter((group) => group !== null))
  if (groups.size === 0) return [...products]
  const { rows } = await db.query<{ variant_group: string; variants: Variants }>(
    sql`with member as (
      select variant_group, options, ${amountIn(PRODUCTS, currency)} as price_amount,
        ${currency === null ? sql`price_currency` : sql`${currency}::text`} as price_currency, in_stock
      from products
      where variant_group = any(${[...groups]}) and archived_at is null
        ${currency === null ? noSql : sql`and ${isSoldIn(PRODUCTS, currency)}`}
    ), option_values as (
      select variant_group, name, jsonb_agg(distinct value order by value) as values
      from member
      cross join jsonb_each_text(options) as option (name, value)
      group by variant_group, name
    ), price_ranges as (
      select variant_group, price_currency, min(price_amount) as min, max(price_amount) as max
      from member
      group by variant_group, price_currency
    )
    select variant_group, json_build_object(
      'count', count(*),
      'options', (
        select coalesce(json_object_agg(name, values order by name), '{}')
        from option_values
        where option_values.variant_group = member.variant_group
      ),
      'prices', (
        select json_agg(json_build_object('currency', price_currency, 'min', min, 'max', max) order by price_currency)
        from price_ranges
        where price_ranges.variant_group = member.variant_group
      ),
      'in_stock', bool_or(in_stock)
    ) as variants
    from member
    group by variant_group`,
  )
  const byGroup = new Map(rows.map(({ variant_group, variants }) => [variant_group, variants]))
  return products.map((product) => {
    const variants = product.group === null ? undefined : byGroup.get(product.group)
    return variants === undefined ? product : { ...product, variants }
  })
}

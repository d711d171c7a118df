import { type Static, Type } from 'typebox'
import type { Queryable } from '../db/pool.ts'
import { allOf, sql } from '../db/sql.ts'
import { notFound } from '../errors.ts'
import { DEFAULT_LIMIT, decodeCursor, encodeCursor, PageOf, type PageQuery, toPage } from '../http/pagination.ts'
import { type Money, MoneySchema } from '../money.ts'
import { EXAMPLE_PRICE, EXAMPLE_PRICE_PAGE } from './examples.ts'

const ProductPriceSchema = Type.Object(
  {
    price: Type.Union([MoneySchema, Type.Null()], { description: 'Null if the product was not sold in the currency from `since` on.' }),
    compare_at_price: Type.Union([MoneySchema, Type.Null()], { description: 'The price before the reduction, if it was reduced.' }),
    since: Type.String({
      format: 'date-time',
      description:
        'When it became the price and the previous price ended. For a product that is older than the record of prices: when the record began.',
    }),
  },
  { title: 'ProductPrice', examples: [EXAMPLE_PRICE] },
)
type ProductPrice = Static<typeof ProductPriceSchema>

export const ProductPricePageSchema = Type.Object(
  {
    ...PageOf(ProductPriceSchema).properties,
    currency: Type.String({ description: 'The currency of all these prices (ISO 4217).' }),
    currencies: Type.Array(Type.String(), {
      description: 'The currencies in which prices of the product are recorded, including those in which it is no longer sold.',
    }),
  },
  { title: 'ProductPricePage', examples: [EXAMPLE_PRICE_PAGE] },
)
type ProductPricePage = Static<typeof ProductPricePageSchema>

const Position = Type.Tuple([
  Type.String({ format: 'date-time', pattern: '^[12]\\d{3}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:[0-5]\\d\\.\\d{3}Z$' }),
  Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
])

interface PriceRow {
  version: number
  occurred_at: Date
  price: Money | null
  compare_at_price: Money | null
}

/** A product's initial prices in all currencies, and every later change, addition and removal. */
const RECORDED = sql`product_events as event
    cross join lateral (
      select currency, price, compare_at from event_prices(event.data -> 'product')
      where event.type = 'product.created'
      union all
      select event_currency(event.data), nullif((event.data -> 'price')::jsonb, 'null'), nullif((event.data -> 'compare_at_price')::jsonb, 'null')
      where event.type = 'price.changed'
    ) as recorded`

/**
 * A page of a product's prices in a currency, by default its own, newest first. The product may be archived. Throws
 * `not_found` or `invalid_cursor`.
 */
export async function listPrices(
  db: Queryable,
  productId: string,
  { limit = DEFAULT_LIMIT, cursor, currency: wanted }: PageQuery & { currency: string | null },
): Promise<ProductPricePage> {
  const { own, currencies } = await readCurrencies(db, productId)
  const currency = wanted ?? own
  const scope = ['prices', productId, currency]
  const conditions = [
    sql`event.product_id = ${productId}`,
    sql`event.type in ('product.created', 'price.changed')`,
    sql`recorded.currency = ${currency}`,
  ]
  if (cursor !== undefined) {
    const [time, version] = decodeCursor(scope, cursor, Position)
    conditions.push(sql`(event.occurred_at, event.version) < (${time}::timestamptz, ${version}::bigint)`)
  }
  const { rows } = await db.query<PriceRow>(
    sql`select event.version, event.occurred_at, recorded.price, recorded.compare_at as compare_at_price
    from ${RECORDED}
    where ${allOf(conditions)}
    order by event.occurred_at desc, event.version desc
    limit ${limit + 1}`,
  )
  const page = toPage(rows, limit, toPrice, ({ occurred_at, version }) => encodeCursor(scope, [occurred_at.toISOString(), version]))
  return { ...page, currency, currencies }
}

/** The currency of the product's own price, and all currencies with recorded prices. Throws `not_found`. */
async function readCurrencies(db: Queryable, productId: string): Promise<{ own: string; currencies: string[] }> {
  const { rows } = await db.query<{ own: string; currencies: string[] }>(
    sql`select price_currency as own, array(
      select distinct recorded.currency
      from ${RECORDED}
      where event.product_id = products.id and event.type in ('product.created', 'price.changed')
      order by recorded.currency
    ) as currencies
    from products
    where id = ${productId}`,
  )
  if (rows[0] === undefined) throw notFound('product')
  return rows[0]
}

function toPrice({ price, compare_at_price, occurred_at }: PriceRow): ProductPrice {
  return { price, compare_at_price, since: occurred_at.toISOString() }
}

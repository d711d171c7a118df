import { type Static, Type } from 'typebox'
import { isCurrency } from '../../client/src/currency.ts'
import { type Sql, sql } from '../db/sql.ts'
import { AppError } from '../errors.ts'
import type { Money } from '../money.ts'

const amount = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'Minor units of the currency.' })

export const OfferedPriceSchema = Type.Object(
  {
    amount,
    currency: Type.String({ description: 'ISO 4217. It must differ from the currency of `price`.' }),
    compare_at: Type.Union([amount, Type.Null()], { description: 'The amount before a reduction. It is above `amount`.' }),
  },
  { title: 'OfferedPrice' },
)
export type OfferedPrice = Static<typeof OfferedPriceSchema>

const time = Type.Union([Type.String({ format: 'date-time' }), Type.Null()])
export const SalePriceSchema = Type.Object(
  {
    amount,
    currency: Type.String({ description: 'ISO 4217: that of `price`, or of one of `prices`.' }),
    from: { ...time, description: 'The sale begins at this time. Null if it has begun.' },
    until: { ...time, description: 'The sale ends at this time. Null if it has no end.' },
  },
  { title: 'SalePrice' },
)
export type SalePrice = Static<typeof SalePriceSchema>

/** The products' column `prices`, by currency. */
export type StoredPrices = Readonly<Record<string, { amount: number; compare_at?: number }>>

/** The query's currency, ISO 4217. */
export const Currency = Type.String({
  pattern: '^[A-Z]{3}$',
  examples: ['EUR'],
  description: 'Prices in this currency (ISO 4217): `price`, `min_price`, `max_price` and `sort=price`. Only products that are sold in it.',
})

/** Throws `invalid_query` for a code that is not a currency. */
export function readCurrency(code: string | undefined): string | null {
  if (code === undefined) return null
  if (isCurrency(code)) return code
  const errors = [{ parameter: 'currency', detail: 'must be an ISO 4217 code such as EUR' }]
  throw new AppError('invalid_query', 'A query parameter is not valid.', { errors })
}

export function toStoredPrices(prices: readonly OfferedPrice[]): StoredPrices {
  const entries = prices.map(
    ({ currency, amount, compare_at }) => [currency, { amount, ...(compare_at === null ? {} : { compare_at }) }] as const,
  )
  return Object.fromEntries(entries)
}

/** The stored prices without the `own` currency, which the previous release may have given to the product's price. */
export function fromStoredPrices(stored: StoredPrices, own: string): OfferedPrice[] {
  return Object.keys(stored)
    .filter((currency) => currency !== own)
    .sort()
    .map((currency) => {
      const { amount = 0, compare_at = null } = stored[currency] ?? {}
      return { amount, currency, compare_at }
    })
}

/** The columns of the alias `product` as operators wrote them, ignoring a current sale. */
export const REGULAR_AMOUNT = sql`coalesce((product.regular_prices -> product.price_currency ->> 'amount')::bigint, product.price_amount)`
export const REGULAR_COMPARE_AT = sql`case when product.regular_prices ? product.price_currency
    then (product.regular_prices -> product.price_currency ->> 'compare_at')::bigint
    else product.compare_at_amount end`
export const REGULAR_PRICES = sql`product.prices || (coalesce(product.regular_prices, '{}') - product.price_currency)`

interface Priced {
  price: Money
  prices: StoredPrices
}

/** A product's price in `currency`, by default its own; null if it is not sold in it. */
export function priceIn({ price, prices }: Priced, currency: string | null): Money | null {
  if (currency === null || price.currency === currency) return price
  const offered = prices[currency]
  return offered === undefined ? null : { amount: offered.amount, currency }
}

/** Whether the alias `row` is sold in `currency`. */
export function isSoldIn(row: Sql, currency: string): Sql {
  return sql`(${row}.price_currency = ${currency} or ${row}.prices ? ${currency}::text)`
}

/** The amount of the alias `row`: its own price, or the one in `currency`, in which it must be sold. */
export function amountIn(row: Sql, currency: string | null): Sql {
  if (currency === null) return sql`${row}.price_amount`
  return sql`case when ${row}.price_currency = ${currency} then ${row}.price_amount else (${row}.prices -> ${currency}::text ->> 'amount')::bigint end`
}

export function compareAtIn(row: Sql, currency: string | null): Sql {
  if (currency === null) return sql`${row}.compare_at_amount`
  return sql`case when ${row}.price_currency = ${currency} then ${row}.compare_at_amount else (${row}.prices -> ${currency}::text ->> 'compare_at')::bigint end`
}

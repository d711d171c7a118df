import { type Static, Type } from 'typebox'
import { AppError } from './errors.ts'

/** Minor units (cents for EUR, yen for JPY) of an ISO 4217 currency. */
export const MoneySchema = Type.Object(
  {
    amount: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'Minor units of the currency.' }),
    currency: Type.String({ pattern: '^[A-Z]{3}$', 'x-must': 'be an ISO 4217 code, such as EUR', description: 'ISO 4217.' }),
  },
  { title: 'Money' },
)
export type Money = Static<typeof MoneySchema>

export const SignedMoneySchema = Type.Object(
  {
    ...MoneySchema.properties,
    amount: Type.Integer({
      minimum: Number.MIN_SAFE_INTEGER,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'Minor units of the currency. Negative if it lowers the total.',
    }),
  },
  { title: 'SignedMoney' },
)

/** Throws `total_too_large` past 2^53 − 1, where JSON numbers lose units. */
export function multiply(price: Money, quantity: number): Money {
  return { amount: assertSafe(price.amount * quantity), currency: price.currency }
}

/** Adds one or more amounts. Throws `mixed_currencies` or `total_too_large`. */
export function sum(amounts: readonly Money[]): Money {
  const currencies = new Set(amounts.map((money) => money.currency))
  const [currency] = currencies
  if (currency === undefined) throw new RangeError('a sum needs at least one amount')
  if (currencies.size > 1) {
    throw new AppError(
      'mixed_currencies',
      `One order has one currency; these products are priced in ${[...currencies].sort().join(' and ')}.`,
    )
  }
  return { amount: amounts.reduce((total, money) => assertSafe(total + money.amount), 0), currency }
}

function assertSafe(amount: number): number {
  // Operands are below 2^53, so a larger result cannot round back into the safe range.
  if (!Number.isSafeInteger(amount)) throw new AppError('total_too_large', 'The total of the order is too large.')
  return amount
}

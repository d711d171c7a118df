import { AppError } from '../errors.ts'

/** An amount in minor units of an ISO 4217 currency. Always a safe integer. */
export interface Money {
  amount: number
  currency: string
}

/** `price` × `quantity`. Throws `total_too_large` past 2^53 − 1, where JSON numbers lose units. */
export function multiply(price: Money, quantity: number): Money {
  return { amount: safe(price.amount * quantity), currency: price.currency }
}

/** The sum of amounts of one currency, at least one. Throws `mixed_currencies` or `total_too_large`. */
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
  return { amount: amounts.reduce((total, money) => safe(total + money.amount), 0), currency }
}

function safe(amount: number): number {
  // Safe operands below 2^53 cannot round back into the safe range, so the result tells.
  if (!Number.isSafeInteger(amount)) throw new AppError('total_too_large', 'The total of the order is too large.')
  return amount
}

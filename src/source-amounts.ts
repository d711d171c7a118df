import { formatMajorUnits, readMajorUnits } from '../client/src/currency.ts'

/** The difference between an amount and the other shop's text for it; null if they are equal. */
export function findOtherAmount(name: string, text: string, money: { amount: number; currency: string }): string | null {
  if (readMajorUnits(text, money.currency) === BigInt(money.amount)) return null
  const here = `${formatMajorUnits(money)} ${money.currency}`
  return `${name} is ${money.amount} minor units, which are ${here} here, and the other shop has ${text}: the file was converted with other decimals`
}

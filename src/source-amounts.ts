import { formatMajorUnits, readMajorUnits } from './currency.ts'

/** The refusal of an amount that is another one than the text which the other shop has for it; null for none. */
export function findOtherAmount(name: string, text: string, money: { amount: number; currency: string }): string | null {
  if (readMajorUnits(text, money.currency) === BigInt(money.amount)) return null
  const here = `${formatMajorUnits(money)} ${money.currency}`
  return `${name} is ${money.amount} minor units, which are ${here} here, and the other shop has ${text}: the file was converted with other decimals`
}

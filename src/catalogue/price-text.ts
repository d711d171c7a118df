import { minorDigits } from '../money.ts'

/** A price. `amount` is in minor units of `currency` (ISO 4217). */
export interface Price {
  amount: number
  currency: string
}

/**
 * `text`, a decimal number of major units such as `12.50`, in minor units. Exact: no float is involved.
 * Null when it is not such a number, has more decimals than `currency`, or passes 2^53 − 1 minor units.
 */
export function parseMajorUnits(text: string, currency: string): number | null {
  const match = /^(\d{1,16})(?:\.(\d{1,4}))?$/.exec(text)
  if (match === null) return null
  const [, whole = '', decimals = ''] = match
  const digits = minorDigits(currency)
  if (decimals.length > digits) return null
  const amount = BigInt(whole + decimals.padEnd(digits, '0'))
  return amount <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(amount) : null
}

/** `price` as a decimal number of major units that `parseMajorUnits` reads back. */
export function formatMajorUnits({ amount, currency }: Price): string {
  const digits = minorDigits(currency)
  const text = String(amount).padStart(digits + 1, '0')
  return digits === 0 ? text : `${text.slice(0, -digits)}.${text.slice(-digits)}`
}

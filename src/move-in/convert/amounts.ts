import { minorDigits, parseMajorUnits, readMajorUnits } from '../../../client/src/currency.ts'
import { unmappable } from './conversion.ts'

/** A number of major units, or its decimal text. */
export type Decimal = string | number

const DECIMAL = /^(-?)(\d+)(?:\.(\d*?)0*)?$/

/**
 * Converts major to minor units: `12.5` EUR is 1250. Throws Unmappable for too many decimals, and for a possible
 * thousands separator such as in `1.290`.
 */
export function toMinor(amount: Decimal, currency: string): number {
  if (typeof amount === 'string' && /^\s*-?[1-9]\d{0,2}\.\d\d0\s*$/.test(amount) && minorDigits(currency) < 3)
    unmappable(`${amount} can mean thousands`)
  const [, sign = '', whole = '', decimals = ''] = DECIMAL.exec(String(amount).trim()) ?? unmappable(`${amount} is no amount`)
  const minor = parseMajorUnits(decimals === '' ? whole : `${whole}.${decimals}`, currency)
  if (minor === null) return unmappable(`${amount} ${currency} has more than ${minorDigits(currency)} decimals, or is too large`)
  return sign === '-' ? 0 - minor : minor
}

/** Like `toMinor`, for shop systems that store unrounded amounts. Rounds half a minor unit up. */
export function roundToMinor(amount: Decimal, currency: string): number {
  // JSON writes tiny numbers with an exponent.
  const text = typeof amount === 'number' && /e-/.test(String(amount)) ? amount.toFixed(20) : String(amount).trim()
  return Number(readMajorUnits(text, currency) ?? unmappable(`${amount} is no amount`))
}

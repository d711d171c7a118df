import { formatMajorUnits, minorDigits, parseMajorUnits } from '../../client/src/currency.ts'
import { t } from './language.ts'

/** The text of an amount in a field, such as `1234.50`. */
export const amountText = formatMajorUnits

/**
 * The minor units of a typed amount: `1234.50`, `1.234,50`, `1,234.50` and `1 234,50` are equal. Returns null for text
 * that is no amount or has two readings, such as `1.234` in euros and `1,234` in dinars.
 */
export function parseAmount(text: string, currency: string): number | null {
  const compact = text.trim().replace(/(?<=\d)[\s'’](?=\d{3}(?!\d))/g, '')
  const [first, second] = [...new Set(compact.match(/[.,]/g) ?? [])]
  if (first === undefined) return parseMajorUnits(compact, currency)
  // With both signs, the first one separates thousands and the second one the decimals.
  if (second !== undefined) {
    const [whole = '', decimals = '', ...more] = compact.split(second)
    return more.length > 0 || !isGrouped(whole, first) ? null : parseMajorUnits(`${whole.replaceAll(first, '')}.${decimals}`, currency)
  }
  const parts = compact.split(first)
  const digits = minorDigits(currency)
  if (parts.length > 2 || digits === 0) return isGrouped(compact, first) ? parseMajorUnits(parts.join(''), currency) : null
  // A point is that of `amountText`.
  if (digits === 3 && first === ',' && isGrouped(compact, first)) return null
  return parseMajorUnits(parts.join('.'), currency)
}

/** The minor units of a typed amount. Throws an error that names the field as `label`. */
export function readAmount(text: string, currency: string, label: string): number {
  const amount = parseAmount(text, currency)
  if (amount !== null) return amount
  const digits = minorDigits(currency)
  const decimals = digits === 0 ? t`no decimals` : t`at most ${digits} decimals`
  throw new Error(t`The ${label} must be a number such as ${amountText({ amount: 1_250, currency })}, with ${decimals} for ${currency}.`)
}

function isGrouped(text: string, separator: string): boolean {
  const [first = '', ...groups] = text.split(separator)
  return /^[1-9]\d{0,2}$/.test(first) && groups.every((group) => /^\d{3}$/.test(group))
}

import { formatMajorUnits, parseMajorUnits } from '#currency'
import type { components } from '../../../client/src/schema.ts'

type OfferedPrice = components['schemas']['OfferedPrice']

/** For the operator. */
export const PRICES_HINT =
  'One currency a line, other than that of the price: the code, the price with a point, and the higher price before a reduction, if any. For example: USD 14.90 19.90'

/** One price a line. */
export function formatPrices(prices: readonly OfferedPrice[] = []): string {
  return prices
    .map(({ currency, amount, compare_at: before }) => {
      const amounts = [amount, ...(before === null ? [] : [before])]
      return [currency, ...amounts.map((each) => formatMajorUnits({ amount: each, currency }))].join(' ')
    })
    .join('\n')
}

/** Throws with the line that is none. */
export function readPrices(text: string): OfferedPrice[] {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  return lines.map((line) => {
    const [, currency = '', price = '', before] = /^([A-Z]{3})\s+(\S+)(?:\s+(\S+))?$/.exec(line.trim()) ?? []
    const amount = currency === '' ? null : parseMajorUnits(price, currency)
    const compareAt = before === undefined ? null : parseMajorUnits(before, currency)
    if (amount === null || (before !== undefined && compareAt === null))
      throw new Error(`“${line.trim()}” is no price: write it as USD 14.90.`)
    return { amount, currency, compare_at: compareAt }
  })
}

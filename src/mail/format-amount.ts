import { minorDigits } from '../money.ts'

/** Writes amounts of minor units of `currency` as a person reads them in `locale`: `€1,234.50`, `¥1,200` in `en`. Exact up to 2^53. */
export function amountFormatter(currency: string, locale: string): (amount: number) => string {
  const digits = minorDigits(currency)
  const format = new Intl.NumberFormat(locale, {
    style: 'currency',
    currency,
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  })
  return (amount) => {
    const units = String(Math.abs(amount)).padStart(digits + 1, '0')
    const whole = units.slice(0, units.length - digits)
    const decimals = units.slice(units.length - digits)
    // As text, because a large amount divided by 100 is no longer exact.
    return format.format(`${amount < 0 ? '-' : ''}${whole}.${decimals}0` as `${number}`)
  }
}

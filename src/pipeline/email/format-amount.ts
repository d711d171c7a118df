const DEFAULT_MINOR_DIGITS = 2
// ISO 4217, as in the catalogue. Not from Intl, which knows what is customary in shops (HUF: 0), not what a minor unit is.
const MINOR_DIGITS: Readonly<Record<string, number>> = Object.freeze({
  ...{ BIF: 0, CLP: 0, DJF: 0, GNF: 0, ISK: 0, JPY: 0, KMF: 0, KRW: 0, PYG: 0, RWF: 0, UGX: 0, VND: 0, VUV: 0, XAF: 0, XOF: 0, XPF: 0 },
  ...{ BHD: 3, IQD: 3, JOD: 3, KWD: 3, LYD: 3, OMR: 3, TND: 3 },
})

/** Writes amounts of minor units of `currency` for a person to read: `€1,234.50`, `¥1,200`. Exact up to 2^53. */
export function amountFormatter(currency: string): (amount: number) => string {
  const digits = MINOR_DIGITS[currency] ?? DEFAULT_MINOR_DIGITS
  const format = new Intl.NumberFormat('en', {
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

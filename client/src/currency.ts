// Currencies and the decimals of their amounts, for the store and for the published client. Browsers run this file,
// so it imports nothing.

interface Money {
  /** The amount in minor units. */
  amount: number
  /** The ISO 4217 code. */
  currency: string
}

const DEFAULT_MINOR_DIGITS = 2
// The decimals of ISO 4217, list one. Intl has what is customary in shops (HUF 0), which changes between releases of
// Node.
const MINOR_DIGITS: Readonly<Record<string, number>> = Object.freeze({
  ...{ BIF: 0, CLP: 0, DJF: 0, GNF: 0, ISK: 0, JPY: 0, KMF: 0, KRW: 0, PYG: 0, RWF: 0, UGX: 0, VND: 0, VUV: 0, XAF: 0, XOF: 0, XPF: 0 },
  ...{ BHD: 3, IQD: 3, JOD: 3, KWD: 3, LYD: 3, OMR: 3, TND: 3 },
})

const CURRENCIES: ReadonlySet<string> = new Set(Intl.supportedValuesOf('currency'))

/** Whether `code` is an ISO 4217 code in capitals. */
export function isCurrency(code: string): boolean {
  return CURRENCIES.has(code)
}

/** The currencies with this number of decimals, among those that do not have two. */
export function currenciesWithDigits(digits: number): string[] {
  return Object.keys(MINOR_DIGITS).filter((currency) => MINOR_DIGITS[currency] === digits)
}

/** The number of decimals of an amount in major units: 2 for EUR, 0 for JPY, 3 for KWD. */
export function minorDigits(currency: string): number {
  return MINOR_DIGITS[currency] ?? DEFAULT_MINOR_DIGITS
}

/**
 * Converts `text`, a decimal number of major units such as `12.50`, to minor units. The result is exact, because no
 * float is involved. Returns null for other text, for more decimals than `currency` has, and above 2^53 − 1 minor
 * units.
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

/**
 * Like `parseMajorUnits`, for a number that another program wrote. Rounds to minor units. Returns null for other text.
 */
export function readMajorUnits(text: string, currency: string): bigint | null {
  const match = /^(-?)(\d{1,16})(?:\.(\d{1,40}))?$/.exec(text.trim())
  if (match === null) return null
  const [, sign, whole = '', decimals = ''] = match
  const digits = minorDigits(currency)
  const kept = BigInt(whole + decimals.slice(0, digits).padEnd(digits, '0'))
  const rounded = Number(decimals[digits] ?? 0) >= 5 ? kept + 1n : kept
  return sign === '-' ? -rounded : rounded
}

/**
 * Formats an amount as a decimal number of major units, such as `12.50`. The result is exact, and `parseMajorUnits`
 * reads it unless it is negative.
 */
export function formatMajorUnits({ amount, currency }: Money): string {
  const digits = minorDigits(currency)
  const units = String(Math.abs(amount)).padStart(digits + 1, '0')
  const text = digits === 0 ? units : `${units.slice(0, -digits)}.${units.slice(-digits)}`
  return amount < 0 ? `-${text}` : text
}

/** The locale of a BCP 47 tag such as `de-AT`. Null if it is not a tag, or amounts cannot be formatted in it. */
export function findLocale(tag: string): string | null {
  try {
    return Intl.NumberFormat.supportedLocalesOf(tag)[0] ?? null
  } catch (error) {
    if (error instanceof RangeError) return null
    throw error
  }
}

/**
 * Returns a function that formats minor units of `currency` for a person: `€1,234.50`, `¥1,200` in `en`. Exact up to
 * 2^53.
 */
export function amountFormatter(currency: string, locale: string | undefined): (amount: number) => string {
  const digits = minorDigits(currency)
  const format = new Intl.NumberFormat(locale, {
    style: 'currency',
    currency,
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  })
  // Text keeps a large amount exact, which a number divided by 100 would not.
  return (amount) => format.format(formatMajorUnits({ amount, currency }) as `${number}`)
}

/** Formats an amount for a person, in `locale` or the default of the browser or process. Exact. */
export function formatMoney({ amount, currency }: Money, locale?: string): string {
  return amountFormatter(currency, locale)(amount)
}

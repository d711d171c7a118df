const CURRENCIES: ReadonlySet<string> = new Set(Intl.supportedValuesOf('currency'))
const DEFAULT_MINOR_DIGITS = 2
// ISO 4217, list one. Not from Intl: CLDR gives what is customary in shops (HUF 0), and that changes between releases of Node.
const MINOR_DIGITS: Readonly<Record<string, number>> = Object.freeze({
  ...{ BIF: 0, CLP: 0, DJF: 0, GNF: 0, ISK: 0, JPY: 0, KMF: 0, KRW: 0, PYG: 0, RWF: 0, UGX: 0, VND: 0, VUV: 0, XAF: 0, XOF: 0, XPF: 0 },
  ...{ BHD: 3, IQD: 3, JOD: 3, KWD: 3, LYD: 3, OMR: 3, TND: 3 },
})

/** Whether `code` is an ISO 4217 code, in capitals. */
export function isCurrency(code: string): boolean {
  return CURRENCIES.has(code)
}

/** The currencies whose amounts have `digits` decimals in major units, of those that do not have two. */
export function currenciesWithDigits(digits: number): string[] {
  return Object.keys(MINOR_DIGITS).filter((currency) => MINOR_DIGITS[currency] === digits)
}

/** How many decimals an amount of `currency` has in major units: 2 for EUR, 0 for JPY, 3 for KWD. */
export function minorDigits(currency: string): number {
  return MINOR_DIGITS[currency] ?? DEFAULT_MINOR_DIGITS
}

import { CATEGORIES, GERMAN } from './german.ts'
import { formatMoney, type Money } from './store.ts'

const CURRENCIES: ReadonlySet<string> = new Set(Intl.supportedValuesOf('currency'))
/** Whether the store knows a currency with this code. */
export const isCurrency = (code: string | null): code is string => code !== null && CURRENCIES.has(code)

/** The languages of the shop's own texts. Product texts are in the languages of the catalogue. */
export const LANGUAGES = { en: 'English', de: 'Deutsch' } as const
export type Language = keyof typeof LANGUAGES
/** An English text of the shop. The build fails when `german.ts` lacks one. */
export type Text = keyof typeof GERMAN

/** How a visitor sees the shop. The address has the visitor's choices, so a cache can keep each page. */
export interface View {
  lang: Language
  /** The currency of the prices. Null means each product's own currency. */
  currency: string | null
  /** A text in the visitor's language. Each `{}` is replaced with a value. */
  t(text: Text, ...values: (string | number)[]): string
  money(money: Money): string
  /** An address in the shop that keeps the chosen language and currency. */
  href(path: string, query?: Readonly<Record<string, string | null>>): string
  nameOf(category: { slug: string; name: string }): string
}

export function createView(lang: Language, address: URLSearchParams): View {
  const [chosen, asked] = [address.get('lang'), address.get('currency')]
  const currency = isCurrency(asked) ? asked : null
  return {
    lang,
    currency,
    t: (text, ...values) => {
      const left = values.values()
      return (lang === 'de' ? GERMAN[text] : text).replace(/\{\}/g, () => String(left.next().value))
    },
    money: (money) => formatMoney(money, lang),
    href: (path, query = {}) => {
      const kept = { lang: isLanguage(chosen) ? chosen : null, currency, ...query }
      const parameters = new URLSearchParams(Object.entries(kept).filter((entry): entry is [string, string] => entry[1] !== null))
      return parameters.size === 0 ? path : `${path}?${parameters}`
    },
    nameOf: ({ slug, name }) => (lang === 'de' && Object.hasOwn(CATEGORIES, slug) ? CATEGORIES[slug] : undefined) ?? name,
  }
}

export const isLanguage = (tag: string | null): tag is Language => tag !== null && Object.hasOwn(LANGUAGES, tag)

export const addressOf = ({ slug }: { slug: string }) => `/products/${encodeURIComponent(slug)}`

import { CATEGORIES, GERMAN } from './german.ts'
import { formatMoney, type Money } from './store.ts'

const CURRENCIES: ReadonlySet<string> = new Set(Intl.supportedValuesOf('currency'))
/** Whether this is the code of a currency that the store knows. */
export const isCurrency = (code: string | null): code is string => code !== null && CURRENCIES.has(code)

/** The languages of the shop's own words. Texts of products are in those that the catalogue has. */
export const LANGUAGES = { en: 'English', de: 'Deutsch' } as const
export type Language = keyof typeof LANGUAGES
/** A text of the shop, in English. `german.ts` has each of them, or it does not compile. */
export type Text = keyof typeof GERMAN

/** How a visitor sees the shop. The address has what they chose, so that a cache can keep each page. */
export interface View {
  lang: Language
  /** The prices' currency; null stands for that of each product. */
  currency: string | null
  /** A text in the visitor's language. Each `{}` stands for a value. */
  t(text: Text, ...values: (string | number)[]): string
  money(money: Money): string
  /** An address in the shop that keeps the choice of language and currency. */
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

import { html as english, type TemplateResult } from 'lit-html'
import { keyOf, mapTexts } from './template.ts'

/**
 * The code has the English texts. Other languages have a file with a table, which is loaded when the language is
 * chosen.
 */
const TABLES = {
  en: async () => ({ default: {} }),
  de: () => import('../languages/de.json', { with: { type: 'json' } }),
  fr: () => import('../languages/fr.json', { with: { type: 'json' } }),
  es: () => import('../languages/es.json', { with: { type: 'json' } }),
} satisfies Record<string, () => Promise<{ default: Readonly<Record<string, string>> }>>
export type Language = keyof typeof TABLES
export const LANGUAGES = Object.keys(TABLES) as Language[]
const STORED = 'storefront.language'

/** There is no page when tests load the console's files in Node.js. */
const hasPage = 'document' in globalThis
const wanted = hasPage ? [chosenLanguage() ?? '', ...navigator.languages] : []
const chosen = wanted.flatMap((tag) => LANGUAGES.find((each) => each === tag.split('-')[0]) ?? [])[0] ?? 'en'
const loaded: Readonly<Record<string, string>> | null = await TABLES[chosen]().then(
  (table) => table.default,
  // When the store does not answer, the page is in English until it is loaded again.
  () => null,
)
const table = loaded ?? {}
/** The operator's choice in this browser, or else the first language of the browser that the console supports. */
export const language = loaded === null ? 'en' : chosen
/** The format of dates, numbers and amounts, such as `de-AT`. */
export const locale = wanted.find((tag) => tag.startsWith(`${language}-`)) ?? language
const plurals = new Intl.PluralRules(language)

function chosenLanguage(): string | null {
  try {
    return localStorage.getItem(STORED)
  } catch {
    return null
  }
}

/** Takes effect when the page is loaded again. Returns false when the browser stores nothing for pages. */
export function chooseLanguage(next: Language): boolean {
  try {
    localStorage.setItem(STORED, next)
    return true
  } catch {
    return false
  }
}

/** Translates an English text, including numbers, to the operator's language: t`Order ${number} is saved.` */
export function t(strings: TemplateStringsArray, ...values: (string | number | null | undefined)[]): string {
  const key = keyOf(strings)
  return (table[key] ?? key).replace(/\{(\d+)\}/g, (_, index) => {
    const value = values[index]
    return typeof value === 'number' ? numberText(value) : String(value ?? '')
  })
}

/** The text for one or for many: plural(count, t`${count} order`, t`${count} orders`). */
export function plural(count: number, one: string, other: string): string {
  return plurals.select(count) === 'one' ? one : other
}

/** The text of one of the store's words, such as a status: `partially_refunded` is shown as "partially refunded". */
export function word(name: string): string {
  const key = name.replaceAll('_', ' ')
  return table[key] ?? key
}

export function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

export function numberText(value: number): string {
  return value.toLocaleString(locale)
}

export function sizeText(bytes: number | null): string {
  if (bytes === null) return '–'
  const units = ['byte', 'kilobyte', 'megabyte', 'gigabyte', 'terabyte']
  const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10))
  return (bytes / 1_024 ** power).toLocaleString(locale, {
    style: 'unit',
    unit: units[power] ?? 'byte',
    unitDisplay: power === 0 ? 'long' : 'short',
    maximumFractionDigits: 1,
  })
}

const translations = new WeakMap<TemplateStringsArray, { strings: TemplateStringsArray; order: readonly number[] }>()

/** Like `html` of lit-html, but translates the texts of the template. */
export function html(strings: TemplateStringsArray, ...values: unknown[]): TemplateResult<1> {
  if (language === 'en') return english(strings, ...values)
  const known = translations.get(strings) ?? translate(strings)
  translations.set(strings, known)
  return english(known.strings, ...known.order.map((index) => values[index]))
}

function translate(given: TemplateStringsArray) {
  const { strings, order } = mapTexts(given, (key) => table[key] ?? key)
  return { strings: Object.assign(strings, { raw: strings }), order }
}

/** A test verifies that each language has every text. */
export const LANGUAGES = ['en', 'de', 'fr', 'es'] as const
export type Language = (typeof LANGUAGES)[number]

export function isLanguage(tag: string): tag is Language {
  return (LANGUAGES as readonly string[]).includes(tag)
}

/** `de` for `de-AT`. Null for a language that the store does not have. */
export function languageOf(tag: string): Language | null {
  const primary = tag.slice(0, 35).split('-', 1)[0]?.toLowerCase() ?? ''
  return isLanguage(primary) ? primary : null
}

// Other tags have parts that distinguish no texts of a shop, or that are for private use.
const TAG = /^[a-z]{2,3}(?:-[A-Z][a-z]{3})?(?:-(?:[A-Z]{2}|\d{3}))?$/

/**
 * Whether the text is a BCP 47 tag in canonical form, perhaps with a script and a region: `pt-BR`, but not `pt_br`,
 * `iw` or `und`.
 */
export function isLanguageTag(tag: string): boolean {
  return TAG.test(tag) && tag !== 'und' && Intl.getCanonicalLocales(tag)[0] === tag
}

export type LanguageSet<T extends string = string> = ReadonlyMap<string, T>

export function languageSet<T extends string>(tags: readonly T[]): LanguageSet<T> {
  return new Map(tags.map((tag) => [tag.toLowerCase(), tag]))
}

const SHIPPED = languageSet(LANGUAGES)

// Browsers send up to about ten languages in some 100 characters. Longer headers are cut.
const MAX_LENGTH = 500
const RANGE = /^([A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8}){0,4}) *(?:; *[qQ]=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?) *)?$/

/**
 * `de` matches `de-AT` (RFC 9110 §12.5.4, RFC 4647 §3.4). Skips wrong text, which is no fault of the browser's user.
 */
export function negotiateLanguage<T extends string>(acceptLanguage: string | undefined, available: LanguageSet<T>): T | null {
  if (acceptLanguage === undefined) return null
  const weights = new Map<T, number>()
  const refused = new Set<T>()
  for (const range of acceptLanguage.slice(0, MAX_LENGTH).split(',')) {
    const [, tag, quality = '1'] = RANGE.exec(range.trim()) ?? []
    const language = tag === undefined ? null : findLanguage(tag, available)
    if (language === null) continue
    const weight = Number(quality)
    // `fr;q=0` refuses French. `fr-CA;q=0` refuses only Canadian French.
    if (weight === 0 && tag?.toLowerCase() === language.toLowerCase()) refused.add(language)
    else if (weight > (weights.get(language) ?? 0)) weights.set(language, weight)
  }
  const [best = null] = [...weights].filter(([language]) => !refused.has(language)).toSorted(([, a], [, b]) => b - a)
  return best === null ? null : best[0]
}

export function preferredLanguage(acceptLanguage: string | undefined): Language | null {
  return negotiateLanguage(acceptLanguage, SHIPPED)
}

/** The same tag, or the longest beginning of it (RFC 4647 §3.4). */
export function findLanguage<T extends string>(tag: string, available: LanguageSet<T>): T | null {
  for (let range = tag.toLowerCase(); range !== ''; range = range.slice(0, Math.max(0, range.lastIndexOf('-')))) {
    const found = available.get(range)
    if (found !== undefined) return found
  }
  return null
}

/** The languages of mails. A test verifies that each has every text. */
export const LANGUAGES = ['en', 'de', 'fr', 'es'] as const
export type Language = (typeof LANGUAGES)[number]

export function isLanguage(tag: string): tag is Language {
  return (LANGUAGES as readonly string[]).includes(tag)
}

/** The shipped language of a BCP 47 tag: `de` for `de-AT`; null for another one. */
export function languageOf(tag: string): Language | null {
  const primary = tag.slice(0, 35).split('-', 1)[0]?.toLowerCase() ?? ''
  return isLanguage(primary) ? primary : null
}

// Other tags have parts that distinguish no texts of a shop, or are of private use.
const TAG = /^[a-z]{2,3}(?:-[A-Z][a-z]{3})?(?:-(?:[A-Z]{2}|\d{3}))?$/

/** Whether `tag` is a BCP 47 tag of a language, perhaps with a script and a region, in canonical form: `pt-BR`, and not `pt_br`, `iw` or `und`. */
export function isLanguageTag(tag: string): boolean {
  return TAG.test(tag) && tag !== 'und' && Intl.getCanonicalLocales(tag)[0] === tag
}

/** BCP 47 tags by their lower case. */
export type LanguageSet<T extends string = string> = ReadonlyMap<string, T>

export function languageSet<T extends string>(tags: readonly T[]): LanguageSet<T> {
  return new Map(tags.map((tag) => [tag.toLowerCase(), tag]))
}

const SHIPPED = languageSet(LANGUAGES)

// Browsers send up to about ten languages in some 100 characters. The header of a client that sends more is read so far and no further.
const MAX_LENGTH = 500
const RANGE = /^([A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8}){0,4}) *(?:; *[qQ]=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?) *)?$/

/**
 * The one of `available` that `acceptLanguage` prefers (RFC 9110 §12.5.4, with the lookup of RFC 4647 §3.4: `de-AT` is met by `de`). Null
 * when it names none, also for `*`. Text that is no list of languages is skipped, never refused: a browser's setting is no fault of its user.
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
    // `fr;q=0` refuses French; `fr-CA;q=0` only that of Canada.
    if (weight === 0 && tag?.toLowerCase() === language.toLowerCase()) refused.add(language)
    else if (weight > (weights.get(language) ?? 0)) weights.set(language, weight)
  }
  const [best = null] = [...weights].filter(([language]) => !refused.has(language)).toSorted(([, a], [, b]) => b - a)
  return best === null ? null : best[0]
}

/** The shipped language that `acceptLanguage` prefers. */
export function preferredLanguage(acceptLanguage: string | undefined): Language | null {
  return negotiateLanguage(acceptLanguage, SHIPPED)
}

/** The tag in `available` that meets `tag`: the same, or the longest beginning of it (RFC 4647 §3.4); null for none. */
export function findLanguage<T extends string>(tag: string, available: LanguageSet<T>): T | null {
  for (let range = tag.toLowerCase(); range !== ''; range = range.slice(0, Math.max(0, range.lastIndexOf('-')))) {
    const found = available.get(range)
    if (found !== undefined) return found
  }
  return null
}

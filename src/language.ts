/** The languages of mails and of the titles of problems. A test verifies that each has every text. */
export const LANGUAGES = ['en', 'de', 'fr', 'es'] as const
export type Language = (typeof LANGUAGES)[number]

export function isLanguage(tag: string): tag is Language {
  return (LANGUAGES as readonly string[]).includes(tag)
}

/** The shipped language of a BCP 47 tag: `de` for `de-AT`. Null for another one. */
export function languageOf(tag: string): Language | null {
  const primary = tag.slice(0, 35).split('-', 1)[0]?.toLowerCase() ?? ''
  return isLanguage(primary) ? primary : null
}

// Browsers send up to about ten languages in some 100 characters. The header of a client that sends more is read so far and no further.
const MAX_LENGTH = 500
const RANGE = /^([A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8}){0,4}) *(?:; *[qQ]=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?) *)?$/

/**
 * The shipped language that `acceptLanguage` prefers (RFC 9110 §12.5.4, with the lookup of RFC 4647: `de-AT` is met by `de`). Null when it
 * names none, also for `*`. Text that is no list of languages is skipped, never refused: a browser's setting is no fault of its user.
 */
export function preferredLanguage(acceptLanguage: string | undefined): Language | null {
  if (acceptLanguage === undefined) return null
  const weights = new Map<Language, number>()
  const refused = new Set<Language>()
  for (const range of acceptLanguage.slice(0, MAX_LENGTH).split(',')) {
    const [, tag, quality = '1'] = RANGE.exec(range.trim()) ?? []
    const language = tag === undefined ? null : languageOf(tag)
    if (language === null) continue
    const weight = Number(quality)
    // `fr;q=0` refuses French; `fr-CA;q=0` only that of Canada.
    if (weight === 0 && tag === language) refused.add(language)
    else if (weight > (weights.get(language) ?? 0)) weights.set(language, weight)
  }
  const [best = null] = [...weights].filter(([language]) => !refused.has(language)).toSorted(([, a], [, b]) => b - a)
  return best === null ? null : best[0]
}

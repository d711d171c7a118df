import { type Language, languageOf } from '../language.ts'

/** The languages of mails, and how each writes amounts. */
export interface MailLanguages {
  /** The language of accounts that have chosen none. */
  defaultLanguage: Language
  /** A BCP 47 tag. */
  localeOf(language: Language): string
}

/**
 * `mailLocale` formats the amounts of its own language: `de-AT` applies to German mails. If the store has no texts in
 * its language, such as `pt-BR`, it applies to the default language, whose templates the shop has then replaced.
 */
export function mailLanguages(defaultLanguage: Language, mailLocale: string | null): MailLanguages {
  const owner = mailLocale === null ? null : (languageOf(mailLocale) ?? defaultLanguage)
  return { defaultLanguage, localeOf: (language) => (mailLocale !== null && language === owner ? mailLocale : language) }
}

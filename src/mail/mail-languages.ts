import { type Language, languageOf } from '../language.ts'

/** The languages of mails, and the format of amounts in each. */
export interface MailLanguages {
  /** The language for accounts that have not chosen one. */
  defaultLanguage: Language
  /** A BCP 47 tag. */
  localeOf(language: Language): string
}

/**
 * `mailLocale` formats amounts in mails of its own language: `de-AT` applies to German mails. If the store has no texts
 * in its language, as for `pt-BR`, it applies to the default language, because the shop has then replaced those
 * templates.
 */
export function mailLanguages(defaultLanguage: Language, mailLocale: string | null): MailLanguages {
  const owner = mailLocale === null ? null : (languageOf(mailLocale) ?? defaultLanguage)
  return { defaultLanguage, localeOf: (language) => (mailLocale !== null && language === owner ? mailLocale : language) }
}

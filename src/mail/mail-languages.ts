import { type Language, languageOf } from '../language.ts'

/** The language of a mail, and how amounts are written in it. */
export interface MailLanguages {
  /** Language of accounts that have chosen none. */
  defaultLanguage: Language
  /** BCP 47. */
  localeOf(language: Language): string
}

/**
 * `mailLocale` writes the amounts of its own language: `de-AT` those of German mails. One of a language that the store does not ship, such as
 * `pt-BR`, belongs to a shop whose own templates have replaced those of the default language.
 */
export function mailLanguages(defaultLanguage: Language, mailLocale: string | null): MailLanguages {
  const owner = mailLocale === null ? null : (languageOf(mailLocale) ?? defaultLanguage)
  return { defaultLanguage, localeOf: (language) => (mailLocale !== null && language === owner ? mailLocale : language) }
}

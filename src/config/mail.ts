import { domainToASCII } from 'node:url'
import { findLocale } from '../currency.ts'
import { isLanguage, isLanguageTag, LANGUAGES, type Language, languageOf } from '../language.ts'
import type { Settings } from './settings.ts'

const DEFAULT_SENDER = 'Storefront <no-reply@storefront.example>'
const SENDER = /^(?:[^<>\r\n]*<[^\s<>@]+@[A-Za-z0-9.-]+>|[^\s<>@]+@[A-Za-z0-9.-]+)$/

/**
 * Converts the domain to ASCII (IDNA, RFC 5891), as it is in the envelope and in `Message-ID`. Undefined for no
 * address.
 */
function toSender(value: string): string | undefined {
  const sender = value.replace(/(?<=@)[^\s<>@]*[\u0080-\u{10ffff}][^\s<>@]*(?=>?$)/u, (domain) => domainToASCII(domain))
  return SENDER.test(sender) ? sender : undefined
}

export function readMailFrom({ setting }: Settings): string {
  const mustBe = 'an e-mail address, such as Store <no-reply@store.example>'
  return setting('MAIL_FROM', { mustBe, parse: toSender }, { value: DEFAULT_SENDER, documented: DEFAULT_SENDER })
}

/** The address for customers' answers; null for the sender. */
export function readMailReplyTo({ setting }: Settings): string | null {
  const mustBe = 'an e-mail address, such as Store <help@store.example>'
  return setting('MAIL_REPLY_TO', { mustBe, parse: toSender }, { value: null, documented: 'none: answers go to MAIL_FROM' })
}

/** Headers that a mail has already, or that change how it is delivered. */
const TAKEN_HEADERS =
  /^(?:from|to|cc|bcc|sender|reply-to|return-path|subject|date|message-id|in-reply-to|references|received|content-.*|mime-version|auto-submitted|list-.*|x-storefront-event|dkim-signature|resent-.*)$/i

export function readHeaderName({ setting }: Settings): string | null {
  const parse = (value: string) => (/^[A-Za-z][A-Za-z0-9-]{0,59}$/.test(value) && !TAKEN_HEADERS.test(value) ? value : undefined)
  const mustBe = 'the name of a header of the mail provider, such as Resend-Idempotency-Key'
  return setting('MAIL_IDEMPOTENCY_HEADER', { mustBe, parse }, { value: null, documented: '' })
}

export function readLocale({ setting }: Settings): string | null {
  const parse = (value: string) => findLocale(value) ?? undefined
  const unset = { value: null, documented: "as usual in the mail's language" }
  return setting('MAIL_LOCALE', { mustBe: 'a language tag such as en, de-AT or fr', parse }, unset)
}

/** MAIL_LOCALE is older and gives the default: a shop with Austrian amounts has German mails. */
export function readDefaultLanguage({ setting }: Settings, mailLocale: string | null): Language {
  const derived = mailLocale === null ? null : languageOf(mailLocale)
  const parse = (value: string) => (isLanguage(value) ? value : undefined)
  const unset = { value: derived ?? 'en', documented: 'the language of MAIL_LOCALE, or en', from: derived && 'MAIL_LOCALE' } as const
  return setting<Language>('DEFAULT_LANGUAGE', { mustBe: `one of ${LANGUAGES.join(', ')}`, parse }, unset)
}

/** The language of products' own texts. */
export function readCatalogueLanguage({ setting, isSet }: Settings, defaultLanguage: Language): string {
  const parse = (value: string) => (isLanguageTag(value) ? value : undefined)
  const from = isSet('DEFAULT_LANGUAGE') ? 'DEFAULT_LANGUAGE' : null
  const unset = { value: defaultLanguage, documented: 'that of DEFAULT_LANGUAGE', from }
  return setting<string>('CATALOGUE_LANGUAGE', { mustBe: 'a language tag in canonical form such as en, pt-BR or zh-Hant', parse }, unset)
}

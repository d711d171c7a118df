import type { AnswerLanguage } from '../http/cacheable.ts'
import { findLanguage, languageSet, negotiateLanguage } from '../language.ts'
import type { Version } from './catalogue-version.ts'

/** The result is not remembered for longer headers. */
const MAX_HEADER_LENGTH = 200
const MAX_HEADERS = 1_000

/** Chooses the language of answers among the catalogue's. See docs/decisions/catalogue-translations.md. */
export class CatalogueLanguages {
  readonly #own: string
  #available = languageSet<string>([])
  #asked: Version['languages'] | null = null
  // Browsers send few different headers. The number is limited, because a client can send any header.
  readonly #byHeader = new Map<string, string>()

  /** `own` is the language of products' own texts (BCP 47). */
  constructor(own: string) {
    this.#own = own
  }

  get own(): string {
    return this.#own
  }

  /**
   * The language that `acceptLanguage` prefers. Null while the catalogue has no translations, because all answers are
   * then the same.
   */
  negotiate({ languages }: Version, acceptLanguage: string | undefined): string | null {
    if (languages.length === 0) return null
    if (acceptLanguage === undefined) return this.#own
    this.#learn(languages)
    const known = this.#byHeader.get(acceptLanguage)
    if (known !== undefined) return known
    const language = negotiateLanguage(acceptLanguage, this.#available) ?? this.#own
    if (acceptLanguage.length <= MAX_HEADER_LENGTH) {
      if (this.#byHeader.size >= MAX_HEADERS) this.#byHeader.clear()
      this.#byHeader.set(acceptLanguage, language)
    }
    return language
  }

  /** The language of an answer: the parameter `lang` if given, otherwise the result of `negotiate`. */
  choose(
    version: Version,
    { lang, acceptLanguage }: { lang: string | undefined; acceptLanguage: string | undefined },
  ): AnswerLanguage | null {
    if (lang !== undefined) {
      this.#learn(version.languages)
      return { tag: findLanguage(lang, this.#available) ?? this.#own, isNegotiated: false }
    }
    const tag = this.negotiate(version, acceptLanguage)
    return tag === null ? null : { tag, isNegotiated: true }
  }

  #learn(languages: Version['languages']): void {
    if (languages === this.#asked) return
    this.#asked = languages
    this.#available = languageSet([this.#own, ...languages])
    this.#byHeader.clear()
  }
}

/** The translations for `language`, by precedence; empty for the products' own texts. */
export function translationsFor({ languages }: Version, { tag }: AnswerLanguage): string[] {
  const chain = languages.filter((language) => tag === language || tag.startsWith(`${language}-`))
  return chain.sort((a, b) => b.length - a.length)
}

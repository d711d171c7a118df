import { type Static, Type } from 'typebox'
import { type Sql, sql } from '../db/sql.ts'
import { isLanguageTag } from '../language.ts'
import { MAX_LANGUAGES } from './product-rules.ts'

/** A product's texts in another language. Missing texts are the product's own. */
export const TranslatedTextsSchema = Type.Object(
  {
    name: Type.Optional(Type.String()),
    description: Type.Optional(Type.String()),
    seo_title: Type.Optional(Type.String()),
    seo_description: Type.Optional(Type.String()),
    availability_text: Type.Optional(Type.String()),
  },
  { title: 'TranslatedTexts', description: "A text that is missing is the product's own." },
)
export type TranslatedTexts = Static<typeof TranslatedTextsSchema>

/** Translated texts by language (BCP 47). */
export type Translations = Record<string, TranslatedTexts>

/** The most characters of all translations of a product, so the search index can hold all their words. */
const MAX_CHARACTERS = 100_000

/** The fault in the languages or the size of translations, or null. Each text is checked separately. */
export function findFaultInTranslations(translations: Translations): string | null {
  const tags = Object.keys(translations)
  const unknown = tags.find((tag) => !isLanguageTag(tag))
  if (unknown !== undefined) return 'the languages of translations must be BCP 47 tags in canonical form such as de, pt-BR or zh-Hant'
  if (tags.length > MAX_LANGUAGES) return `translations must be in at most ${MAX_LANGUAGES} languages`
  const characters = Object.values(translations)
    .flatMap((texts) => Object.values(texts))
    .reduce((sum, text) => sum + text.length, 0)
  return characters > MAX_CHARACTERS ? `translations must have at most ${MAX_CHARACTERS.toLocaleString('en')} characters together` : null
}

/**
 * `translations` with trimmed texts, without empty texts, and without languages that have none. Accepts unchecked
 * input.
 */
export function normalizeTranslations(translations: Translations): Translations {
  if (!isObject(translations)) return translations
  const languages = Object.entries(translations).map(([tag, texts]) => [tag, isObject(texts) ? normalizeTexts(texts) : texts] as const)
  return Object.fromEntries(languages.filter(([, texts]) => !isObject(texts) || Object.keys(texts).length > 0))
}

function normalizeTexts(texts: TranslatedTexts): TranslatedTexts {
  const trimmed = Object.entries(texts).map(([name, text]) => [
    name,
    typeof text === 'string' && name !== 'description' ? text.trim() : text,
  ])
  return Object.fromEntries(trimmed.filter(([, text]) => text !== '' && text !== null))
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The texts of the alias `product` in `languages`, of which there is at least one, the preferred one first. */
export function translatedTexts(languages: readonly string[]): Sql {
  return languages
    .map((language) => sql`coalesce(product.translations -> ${language}::text, '{}')`)
    .reduce((preferred, other) => sql`${other} || ${preferred}`)
}

import { Type } from 'typebox'
import type { Queryable } from '../db/pool.ts'
import { allOf, type Sql, sql } from '../db/sql.ts'

export const SearchQuery = (description: string) => Type.String({ minLength: 2, maxLength: 100, description })

export interface SearchText {
  q: string
  /** Words of ASCII letters and digits, like `search_folded`. */
  words: readonly string[]
  /** The last digits of a phone number, which do not depend on its prefix. The value is null for other text. */
  phone: string | null
  number: string | null
}

/** Makes a condition on a column of words, or null when the text has nothing to search for. */
export type Matching = (words: Sql) => Sql | null

/** A longer search uses its first words. */
const MAX_WORDS = 6
/** Shorter words lack a trigram and match only the beginning of a word. */
const TRIGRAM = 3
/** Shorter words resemble too many others. */
const MIN_RESEMBLING = 4
const PHONE = /^[\d\s+()./-]+$/
/** Bounds of a phone number's length (E.164). */
const PHONE_DIGITS = { min: 7, max: 15 }
/** Length of a subscriber's number. The codes before it are written in many ways. */
const SUBSCRIBER_DIGITS = 8

export async function readSearchText(db: Queryable, q: string): Promise<SearchText> {
  const { rows } = await db.query<{ folded: string }>(sql`select search_folded(${q}) as folded`)
  const digits = PHONE.test(q) ? q.replace('(0)', '').replace(/\D/g, '').replace(/^0+/, '') : ''
  const isPhone = digits.length >= PHONE_DIGITS.min && digits.length <= PHONE_DIGITS.max
  return {
    q,
    words: (rows[0]?.folded ?? '').split(' ').filter(Boolean).slice(0, MAX_WORDS),
    phone: isPhone ? digits.slice(-SUBSCRIBER_DIGITS) : null,
    number: /^#?(\d{1,18})$/.exec(q)?.[1] ?? null,
  }
}

export function containing({ words, phone }: SearchText): Matching {
  return (column) => {
    const alternatives = words.length === 0 ? [] : [allOf(words.map((word) => hasPart(column, word)))]
    // The columns store codes as one word.
    if (words.length > 1) alternatives.push(hasPart(column, words.join('')))
    if (phone !== null) alternatives.push(hasPart(column, phone))
    return alternatives.length === 0 ? null : sql`(${alternatives.reduce((either, other) => sql`${either} or ${other}`)})`
  }
}

/** Like `containing`, with typing errors up to `pg_trgm.word_similarity_threshold`. */
export function resembling({ words }: SearchText): Matching {
  const isName = (word: string) => word.length >= MIN_RESEMBLING && /^[a-z]+$/.test(word)
  return (column) =>
    words.some(isName) ? allOf(words.map((word) => (isName(word) ? sql`${word}::text <% ${column}` : hasPart(column, word)))) : null
}

/** A word has only letters and digits, so the pattern has no other wildcards. */
function hasPart(column: Sql, word: string): Sql {
  return sql`${column} like ${`%${word.length < TRIGRAM ? ' ' : ''}${word}%`}`
}

import { Type } from 'typebox'
import type { Queryable } from '../db/pool.ts'
import { allOf, type Sql, sql } from '../db/sql.ts'

/** The parameter with what an operator types into a search. */
export const SearchQuery = (description: string) => Type.String({ minLength: 2, maxLength: 100, description })

/** What an operator searches for. */
export interface SearchText {
  /** What was typed. */
  q: string
  /** Words of ASCII letters and digits, as `search_folded` makes them. */
  words: readonly string[]
  /** The last digits of a phone number, which do not depend on how it begins; null when the text is none. */
  phone: string | null
  /** The number of an order, where the text can be one. */
  number: string | null
}

/** The condition that a column of words meets; null when the text has nothing that could be looked for so. */
export type Matching = (words: Sql) => Sql | null

/** A longer search is compared by its first words. */
const MAX_WORDS = 6
/** Words that are shorter are only found at the beginning of a word: they have no trigram of their own. */
const TRIGRAM = 3
/** Shorter words resemble too many others. */
const MIN_RESEMBLING = 4
const PHONE = /^[\d\s+()./-]+$/
/** Shorter numbers are no phone numbers, and longer ones neither (E.164). */
const PHONE_DIGITS = { min: 7, max: 15 }
/** A subscriber's number; the codes in front of it are written in many ways. */
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

/** Whether all words are parts of the column's words, or the text is a code or a phone number of it. */
export function containing({ words, phone }: SearchText): Matching {
  return (column) => {
    const alternatives = words.length === 0 ? [] : [allOf(words.map((word) => hasPart(column, word)))]
    // Codes are one word there.
    if (words.length > 1) alternatives.push(hasPart(column, words.join('')))
    if (phone !== null) alternatives.push(hasPart(column, phone))
    return alternatives.length === 0 ? null : sql`(${alternatives.reduce((either, other) => sql`${either} or ${other}`)})`
  }
}

/** Like `containing`, with words that have typing errors: `pg_trgm.word_similarity_threshold` says how many. */
export function resembling({ words }: SearchText): Matching {
  const isName = (word: string) => word.length >= MIN_RESEMBLING && /^[a-z]+$/.test(word)
  return (column) =>
    words.some(isName) ? allOf(words.map((word) => (isName(word) ? sql`${word}::text <% ${column}` : hasPart(column, word)))) : null
}

/** Words are letters and digits, so a pattern has no other wildcards. */
function hasPart(column: Sql, word: string): Sql {
  return sql`${column} like ${`%${word.length < TRIGRAM ? ' ' : ''}${word}%`}`
}

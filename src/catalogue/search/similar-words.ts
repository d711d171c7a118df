import type { Queryable } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { TextQuery } from './filter-sql.ts'
import { type SearchWords, toTextQuery } from './search-words.ts'

/** How many words a mistyped one may have meant. */
const MAX_SIMILAR = 5
/** Shorter words share trigrams with thousands of words: each would cost tens of milliseconds. See decision 0160. */
const MIN_LENGTH = 4
/** How many words of one search are looked for. */
const MAX_WORDS = 5
/** How many of the most similar words are looked at: some are of products that are archived or changed. */
const MAX_LOOKED_AT = 50

const QUOTE = "'"
const SPECIAL = String.raw`(['\\])`
const DOUBLED = String.raw`\1\1`

/** Words of products that are sold that share most trigrams with each of `words`; no entry for a word that none is like or that is short. */
export async function findSimilarWords(db: Queryable, words: readonly string[]): Promise<Map<string, string[]>> {
  const { rows } = await db.query<{ word: string; similar: string[] }>(
    sql`select wanted.word, array(
       select nearest.word
       from (
         select known.word, similarity(search_spelling(known.word), search_spelling(wanted.word)) as similarity
         from search_words as known
         where search_spelling(known.word) % search_spelling(wanted.word)
           -- Spellings of different scripts may be alike.
           and (octet_length(known.word) = char_length(known.word)) = (octet_length(wanted.word) = char_length(wanted.word))
         order by 2 desc, 1
         limit ${MAX_LOOKED_AT}
       ) as nearest
       where exists (
         select from products
         -- The word as it is: to_tsquery would go by the locale.
         where archived_at is null and search @@ (${QUOTE} || regexp_replace(nearest.word, ${SPECIAL}, ${DOUBLED}, 'g') || ${QUOTE})::tsquery
       )
       order by nearest.similarity desc, nearest.word
       limit ${MAX_SIMILAR}
     ) as similar
     from unnest(${words.filter((word) => [...word].length >= MIN_LENGTH).slice(0, MAX_WORDS)}::text[]) as wanted (word)`,
  )
  return new Map(rows.filter(({ similar }) => similar.length > 0).map(({ word, similar }) => [word, similar]))
}

/** The text query of a search: of its own words, or when no product has them, of words like them. */
export async function resolveTextQuery(db: Queryable, search: SearchWords): Promise<TextQuery> {
  const textQuery = toTextQuery(search)
  if (textQuery === '' || (await matchesAny(db, textQuery))) return textQuery
  return toTextQuery(search, await findSimilarWords(db, search.required))
}

/** Whether any product that is sold matches, whatever the other filters. */
export async function matchesAny(db: Queryable, textQuery: TextQuery): Promise<boolean> {
  const { rows } = await db.query<{ matches: boolean }>(
    `select exists (select from products where archived_at is null and search @@ $1::tsquery) as matches`,
    [textQuery],
  )
  return rows[0]?.matches ?? false
}

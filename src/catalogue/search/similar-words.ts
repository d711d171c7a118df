import type { Queryable } from '../../db/pool.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { matchesText, type TextQuery, textQueryExpression } from './filter-sql.ts'
import { type SearchWords, toTextQuery } from './search-words.ts'

/** Similar words of one mistyped word. */
const MAX_SIMILAR = 5
/**
 * Shorter words share trigrams with thousands of words, so each would cost tens of milliseconds. See
 * docs/decisions/catalogue-search.md.
 */
const MIN_LENGTH = 4
/** The most words of a search that similar ones replace. */
const MAX_WORDS = 5
/** Candidates for each word. Some belong only to archived or changed products. */
const MAX_CANDIDATES = 50

/** The newest products, which are checked before the index: that collects all matches of a word to find one. */
const NEWEST = sql`newest as materialized (
  select search, translated_search from products where archived_at is null order by created_at desc, id desc limit 50
)`

const QUOTE = "'"
const SPECIAL = String.raw`(['\\])`
const DOUBLED = String.raw`\1\1`
const NEAREST_WORD = sql`(${QUOTE} || regexp_replace(nearest.word, ${SPECIAL}, ${DOUBLED}, 'g') || ${QUOTE})::tsquery`

/**
 * For each of `words`, the words of sold products that share the most trigrams with it. Short words, and words without
 * similar ones, have no entry.
 */
export async function findSimilarWords(db: Queryable, words: readonly string[]): Promise<Map<string, string[]>> {
  const { rows } = await db.query<{ word: string; similar: string[] }>(
    sql`with ${NEWEST}
     select wanted.word, array(
       select nearest.word
       from (
         select known.word, similarity(search_spelling(known.word), search_spelling(wanted.word)) as similarity
         from search_words as known
         where search_spelling(known.word) % search_spelling(wanted.word)
           -- Words of different scripts may have similar spellings.
           and (octet_length(known.word) = char_length(known.word)) = (octet_length(wanted.word) = char_length(wanted.word))
         order by 2 desc, 1
         limit ${MAX_CANDIDATES}
       ) as nearest
       -- to_tsquery would normalize the word by the locale.
       where ${isMatched(NEAREST_WORD)}
       order by nearest.similarity desc, nearest.word
       limit ${MAX_SIMILAR}
     ) as similar
     from unnest(${words.filter((word) => [...word].length >= MIN_LENGTH).slice(0, MAX_WORDS)}::text[]) as wanted (word)`,
  )
  return new Map(rows.filter(({ similar }) => similar.length > 0).map(({ word, similar }) => [word, similar]))
}

/** A search's text query: its own words, or similar words if no product has them. */
export async function resolveTextQuery(db: Queryable, search: SearchWords): Promise<TextQuery> {
  const textQuery = toTextQuery(search)
  if (textQuery === '' || (await matchesAny(db, textQuery))) return textQuery
  return toTextQuery(search, await findSimilarWords(db, search.required))
}

/** Whether any sold product matches, without other filters. */
export async function matchesAny(db: Queryable, textQuery: TextQuery): Promise<boolean> {
  const query = textQueryExpression(textQuery ?? '')
  const { rows } = await db.query<{ matches: boolean }>(sql`with ${NEWEST} select ${isMatched(query)} as matches`)
  return rows[0]?.matches ?? false
}

/** The condition that a sold product matches, in a statement with NEWEST. */
function isMatched(query: Sql): Sql {
  return sql`(exists (select from newest where ${matchesText(sql`newest`, query)}) or any_product_matches(${query}))`
}

import type { Queryable } from '../db/pool.ts'
import type { TextQuery } from './filter-sql.ts'

/** How many words a mistyped one may have meant. */
const MAX_SIMILAR = 5

/** Words of the catalogue that share most trigrams with each of `words`; no entry for a word that none is like. */
export async function findSimilarWords(db: Queryable, words: readonly string[]): Promise<Map<string, string[]>> {
  const { rows } = await db.query<{ word: string; similar: string[] }>(
    `select wanted.word, array(
       select known.word
       from search_words as known
       where known.word % wanted.word
       order by similarity(known.word, wanted.word) desc, known.word
       limit ${MAX_SIMILAR}
     ) as similar
     from unnest($1::text[]) as wanted (word)`,
    [words],
  )
  return new Map(rows.filter(({ similar }) => similar.length > 0).map(({ word, similar }) => [word, similar]))
}

/** Whether any product that is sold matches, whatever the other filters. */
export async function matchesAny(db: Queryable, textQuery: TextQuery): Promise<boolean> {
  const { rows } = await db.query<{ matches: boolean }>(
    `select exists (select from products where archived_at is null and search @@ to_tsquery('simple', $1)) as matches`,
    [textQuery],
  )
  return rows[0]?.matches ?? false
}

/** What a search asks for: products that have every one of `required`, and none of `excluded`. */
export interface SearchWords {
  required: string[]
  excluded: string[]
}

/** Words past this many make a search refused: each one costs a look into the index. */
export const MAX_WORDS = 20

// The same characters as in the database's catalogue_words, and what is white or invisible.
const SEPARATORS = /[!-/:-@[-`{-~\s\p{Cc}]+/u

/** Cuts a search as the database cuts a product's text. A `-` before a word excludes it; nothing else is an operator. */
export function parseSearch(q: string): SearchWords {
  const required = new Set<string>()
  const excluded = new Set<string>()
  for (const part of q.toLowerCase().split(/[\s\p{Cc}]+/u)) {
    const words = part.split(SEPARATORS).filter((word) => word !== '')
    for (const word of words) (part.startsWith('-') ? excluded : required).add(word)
  }
  return { required: [...required], excluded: [...excluded] }
}

/** One spelling for all searches that mean the same words in the same order. */
export function normaliseSearch({ required, excluded }: SearchWords): string {
  return [...required, ...excluded.map((word) => `-${word}`)].join(' ')
}

/** Of one letter, only the whole word: half of all words begin with it. */
const MIN_PREFIX_LENGTH = 2

/**
 * The search as PostgreSQL's `to_tsquery` reads it: words match as prefixes, or as any of `similar`. Empty, which matches
 * nothing, when nothing is required. Words hold no ASCII punctuation, so none can end its quotes.
 */
export function toTextQuery({ required, excluded }: SearchWords, similar: ReadonlyMap<string, readonly string[]> = new Map()): string {
  if (required.length === 0) return ''
  const alternatives = (word: string) => [
    [...word].length < MIN_PREFIX_LENGTH ? `'${word}'` : `'${word}':*`,
    ...(similar.get(word) ?? []).map((other) => `'${other}'`),
  ]
  return [...required.map((word) => `(${alternatives(word).join(' | ')})`), ...excluded.map((word) => `!'${word}'`)].join(' & ')
}

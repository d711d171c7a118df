/** A search: for products that have all words of `required` and none of `excluded`. */
export interface SearchWords {
  required: string[]
  excluded: string[]
}

/** A search with more words is refused: each costs a look-up in the index. */
export const MAX_WORDS = 20

// The steps of the database's function `search_text`. A test compares the two character by character.
const SIGNS = /[™℠]/gu
/** Accents and vowel points of Latin, Greek, Cyrillic, Hebrew and Arabic. In other scripts a mark makes another letter. */
const ACCENTS = [
  String.raw`\u0300-\u036f\u0483-\u0487`,
  String.raw`\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7`,
  String.raw`\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed`,
].join('')
/** Together with invisible characters within a word. The zero-width space separates words instead. */
const MARKS = new RegExp(String.raw`(?!\u200b)[\p{Default_Ignorable_Code_Point}\p{Me}${ACCENTS}]`, 'gu')
const SEPARATORS = /(?![\u2190-\u2bff\u{1f000}-\u{1faff}])[\p{P}\p{Z}\p{Cc}\p{Cf}\p{Sc}\p{Sk}\p{Sm}¦©®°]/gu
const SYMBOLS = /[\u2190-\u2bff\u{1f000}-\u{1faff}]/gu
const PLAIN = new Map(
  Object.entries({ ø: 'o', đ: 'd', ð: 'd', ł: 'l', ħ: 'h', ŧ: 't', ı: 'i', ς: 'σ', ß: 'ss', æ: 'ae', œ: 'oe', þ: 'th' }),
)
const WITH_PLAIN = new RegExp(`[${[...PLAIN.keys()].join('')}]`, 'gu')
/** Longer words are truncated, here and in the database. */
const MAX_WORD_LENGTH = 500

/** The words of a text, as the database divides that of a product: in lower case, without accents, each symbol a word. */
export function toWords(text: string): string[] {
  return text
    .replace(SIGNS, ' ')
    .normalize('NFKD')
    .replace(MARKS, '')
    .replace(SEPARATORS, ' ')
    .replace(SYMBOLS, ' $& ')
    .toLowerCase()
    .replace(WITH_PLAIN, (letter) => PLAIN.get(letter) ?? letter)
    .split(' ')
    .filter((word) => word !== '')
    .map((word) => [...word].slice(0, MAX_WORD_LENGTH).join(''))
}

/** A `-` before a word excludes it; nothing else is an operator. */
export function parseSearch(q: string): SearchWords {
  const required = new Set<string>()
  const excluded = new Set<string>()
  for (const part of q.split(/[\s\p{Cc}]+/u)) {
    for (const word of toWords(part)) (part.startsWith('-') ? excluded : required).add(word)
  }
  return { required: [...required], excluded: [...excluded] }
}

/** The canonical spelling of a search. */
export function normalizeSearch({ required, excluded }: SearchWords): string {
  return [...required, ...excluded.map((word) => `-${word}`)].join(' ')
}

/** Only the last words match as prefixes: PostgreSQL collects all matches of a prefix before it compares them. See decision 0160. */
const MAX_PREFIXES = 5
/** Shorter words match only as a whole. */
const MIN_PREFIX_LENGTH = 3
/** Of the last word, which the shopper may still be typing. One letter matches only as a whole: too many words begin with it. */
const MIN_LAST_PREFIX_LENGTH = 2
/** In these scripts two characters are a word, without blanks between words: a prefix may be as short as that of the last word. */
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]/u

function isPrefix(word: string, fromLast: number): boolean {
  const mayBeShort = fromLast === 0 || UNSPACED.test(word)
  return fromLast < MAX_PREFIXES && [...word].length >= (mayBeShort ? MIN_LAST_PREFIX_LENGTH : MIN_PREFIX_LENGTH)
}

/**
 * The search in the syntax of PostgreSQL's type `tsquery`: the last words match as prefixes, each word also as one of `similar`. Empty, which
 * matches nothing, without a required word. Words have no ASCII punctuation, so none can close its quotes.
 */
export function toTextQuery({ required, excluded }: SearchWords, similar: ReadonlyMap<string, readonly string[]> = new Map()): string {
  if (required.length === 0) return ''
  const alternatives = (word: string, index: number) => [
    isPrefix(word, required.length - 1 - index) ? `'${word}':*` : `'${word}'`,
    ...(similar.get(word) ?? []).map((other) => `'${other}'`),
  ]
  return [...required.map((word, index) => `(${alternatives(word, index).join(' | ')})`), ...excluded.map((word) => `!'${word}'`)].join(
    ' & ',
  )
}

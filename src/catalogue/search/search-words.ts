/** What a search asks for: products that have every one of `required`, and none of `excluded`. */
export interface SearchWords {
  required: string[]
  excluded: string[]
}

/** Words past this many make a search refused: each one costs a look into the index. */
export const MAX_WORDS = 20

// Each in the same steps as the database's search_text (migrations/0002_search.sql), which a test compares character by character.
const SIGNS = /[™℠]/gu
/** Accents and vowel points, Latin, Greek, Cyrillic, Hebrew and Arabic. Those of other scripts make another letter. */
const ACCENTS = [
  String.raw`\u0300-\u036f\u0483-\u0487`,
  String.raw`\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7`,
  String.raw`\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed`,
].join('')
/** With what is invisible within a word; the blank without width is between words. */
const MARKS = new RegExp(String.raw`(?!\u200b)[\p{Default_Ignorable_Code_Point}\p{Me}${ACCENTS}]`, 'gu')
const SEPARATORS = /(?![\u2190-\u2bff\u{1f000}-\u{1faff}])[\p{P}\p{Z}\p{Cc}\p{Cf}\p{Sc}\p{Sk}\p{Sm}¦©®°]/gu
const SYMBOLS = /[\u2190-\u2bff\u{1f000}-\u{1faff}]/gu
const PLAIN = new Map(
  Object.entries({ ø: 'o', đ: 'd', ð: 'd', ł: 'l', ħ: 'h', ŧ: 't', ı: 'i', ς: 'σ', ß: 'ss', æ: 'ae', œ: 'oe', þ: 'th' }),
)
const WITH_PLAIN = new RegExp(`[${[...PLAIN.keys()].join('')}]`, 'gu')
/** Longer words are cut, here and in the database. */
const MAX_WORD_LENGTH = 500

/** The words of a text, as the database cuts that of a product: in lower case, without accents, a symbol for itself. */
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

/** One spelling for all searches that mean the same words in the same order. */
export function normaliseSearch({ required, excluded }: SearchWords): string {
  return [...required, ...excluded.map((word) => `-${word}`)].join(' ')
}

/** Words before the last five match whole: PostgreSQL collects everything that a prefix begins before it compares. See decision 0160. */
const MAX_PREFIXES = 5
/** Shorter words match whole. */
const MIN_PREFIX_LENGTH = 3
/** Of the last word, which may still be typed. Of one letter, only the whole word: half of all words begin with it. */
const MIN_LAST_PREFIX_LENGTH = 2
/** Two of these are a word, and words have no blanks between them: prefixes as the last word is. */
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]/u

function isPrefix(word: string, fromLast: number): boolean {
  const mayBeShort = fromLast === 0 || UNSPACED.test(word)
  return fromLast < MAX_PREFIXES && [...word].length >= (mayBeShort ? MIN_LAST_PREFIX_LENGTH : MIN_PREFIX_LENGTH)
}

/**
 * The search as PostgreSQL's type `tsquery` reads it: the last words match as prefixes, any word also as one of `similar`. Empty, which matches
 * nothing, when nothing is required. Words have no ASCII punctuation, so none can end its quotes.
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

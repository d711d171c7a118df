/**
 * A search for products with all words of `required` and none of `excluded`. Required words keep the search's order and
 * may repeat.
 */
export interface SearchWords {
  required: string[]
  /** Places of required words that the next one follows without a blank, as in `SKU-500`. */
  linked: number[]
  excluded: string[]
}

/** Searches with more words are refused, because each word costs an index look-up. */
export const MAX_WORDS = 20

// The following steps are those of the database's function `search_text`. A test compares both character by character.
const SIGNS = /[™℠]/gu
/**
 * Accents and vowel points of Latin, Greek, Cyrillic, Hebrew and Arabic. In other scripts, a mark changes the letter.
 */
const ACCENTS = [
  String.raw`\u0300-\u036f\u0483-\u0487`,
  String.raw`\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7`,
  String.raw`\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed`,
].join('')
/** Accents and invisible characters within a word. The zero-width space separates words instead. */
const MARKS = new RegExp(String.raw`(?!\u200b)[\p{Default_Ignorable_Code_Point}\p{Me}${ACCENTS}]`, 'gu')
const SEPARATORS = /(?![\u2190-\u2bff\u{1f000}-\u{1faff}])[\p{P}\p{Z}\p{Cc}\p{Cf}\p{Sc}\p{Sk}\p{Sm}¦©®°]/gu
const SYMBOLS = /[\u2190-\u2bff\u{1f000}-\u{1faff}]/gu
const PLAIN = new Map(
  Object.entries({ ø: 'o', đ: 'd', ð: 'd', ł: 'l', ħ: 'h', ŧ: 't', ı: 'i', ς: 'σ', ß: 'ss', æ: 'ae', œ: 'oe', þ: 'th' }),
)
const WITH_PLAIN = new RegExp(`[${[...PLAIN.keys()].join('')}]`, 'gu')
/** Longer words are truncated, here and in the database. */
const MAX_WORD_LENGTH = 500

/** A text's words, split like the database splits a product's: in lower case, without accents, each symbol a word. */
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

/** Private-use characters for signs within words: a decimal separator, and `+` and `#` at the end. */
const SIGNS_IN_WORDS = new Map([
  ['\ue000', '.'],
  ['\ue001', '+'],
  ['\ue002', '#'],
])
const SIGN_IN_WORD = /[\ue000-\ue002]/g

/** The steps of the database's function `search_signs`. In a size such as `20 × 30`, a word replaces the sign. */
function keepSigns(q: string): string {
  return q
    .replace(/(?<![\d.,])(\d+)[.,](\d+)(?!\d|[.,]\d)/g, '$1\ue000$2')
    .replace(/(?<=[\p{L}\p{M}])\+\+(?![\p{L}\p{M}\d])/gu, '\ue001\ue001')
    .replace(/(?<=[\p{L}\p{M}])\+(?![\p{L}\p{M}\d+])/gu, '\ue001')
    .replace(/(?<=[\p{L}\p{M}])#(?![\p{L}\p{M}\d])/gu, '\ue002')
    .replace(/(?<=\d) *[×*] *(?=\d)/g, ' x ')
}

/** A `-` before a word excludes it; there are no other operators. */
export function parseSearch(q: string): SearchWords {
  const required: string[] = []
  const linked: number[] = []
  const excluded = new Set<string>()
  // Removes private-use characters, which here stand for signs.
  for (const part of keepSigns(q.replace(SIGN_IN_WORD, ' ')).split(/[\s\p{Cc}]+/u)) {
    const from = required.length
    for (const word of toWords(part)) {
      if (part.startsWith('-')) excluded.add(word)
      // A name, a size or an abbreviation may repeat a word.
      else if (required.length < MAX_WORDS || !required.includes(word)) required.push(word)
    }
    for (let place = from; place < required.length - 1; place++) linked.push(place)
  }
  return { required, linked, excluded: [...excluded] }
}

/** The canonical spelling of a search. */
export function normalizeSearch({ required, linked, excluded }: SearchWords): string {
  const spelled = required.map((word, place) => `${word}${linked.includes(place) ? '-' : ' '}`)
  const words = [...spelled, ...excluded.map((word) => `-${word} `)].join('').trimEnd()
  return words.replace(SIGN_IN_WORD, (sign) => SIGNS_IN_WORDS.get(sign) ?? sign)
}

/**
 * The number of last words that match as prefixes. PostgreSQL collects all matches of a prefix before it compares them.
 * See docs/decisions/catalogue-search.md#a-share-of-the-database.
 */
const MAX_PREFIXES = 5
/** Shorter words match only as a whole. */
const MIN_PREFIX_LENGTH = 3
/**
 * The shortest prefix for the last word, which the shopper may still be typing. Too many words begin with one letter.
 */
const MIN_LAST_PREFIX_LENGTH = 2
/** In these scripts a word often has two characters, so all prefixes may be as short as that of the last word. */
const SHORT_WORDS = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]/u
/** Scripts without blanks between words, as in the database's function `search_unspaced`. */
const UNSPACED = [
  String.raw`\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u1049\u1780-\u17d3\u3005-\u3007\u3041-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff`,
  String.raw`\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\u{20000}-\u{3fffd}`,
].join('')
const IS_UNSPACED = new RegExp(`[${UNSPACED}]`, 'u')
/** Numbers, characters of scripts without blanks, and letters. */
const PARTS = new RegExp(`[\\d\\ue000]+|[${UNSPACED}]|[^\\d\\ue000${UNSPACED}]+`, 'gu')

function isPrefix(word: string, fromLast: number): boolean {
  const mayBeShort = fromLast === 0 || SHORT_WORDS.test(word)
  return fromLast < MAX_PREFIXES && [...word].length >= (mayBeShort ? MIN_LAST_PREFIX_LENGTH : MIN_PREFIX_LENGTH)
}

/**
 * Adjacent pairs in `word` of unspaced characters, or of letters and digits. They match texts that divide the word.
 * Empty if the word is one pair.
 */
function dividedWord(word: string): string[] {
  const parts = word.match(PARTS) ?? []
  const pairs = parts.slice(1).map((part, index) => {
    const before = parts[index] ?? ''
    return IS_UNSPACED.test(before) === IS_UNSPACED.test(part) ? [before + part] : [before, part]
  })
  return pairs.length > 1 || pairs[0]?.length === 2 ? [...new Set(pairs.flat())] : []
}

/** The most words that join into one. */
const MAX_JOINED = 6

/**
 * For each word, the joined words that contain it: `wi fi` gives `wifi`, `u s a` gives `usa`, `m8 x 20` gives `m8x20`.
 * `5 5` does not become `55`.
 */
function joinWords(words: readonly string[]): Set<string>[] {
  const joined = words.map(() => new Set<string>())
  for (let from = 0; from < words.length; from++) {
    for (let to = from + 2; to <= Math.min(words.length, from + MAX_JOINED); to++) {
      const [before = '', after = ''] = [words[to - 2], words[to - 1]]
      const [endsInDigit, startsWithDigit] = [/\d$/.test(before), /^\d/.test(after)]
      if (endsInDigit && startsWithDigit) break
      // Letters beside digits, and single letters, may join more than two words.
      const isLinked = endsInDigit !== startsWithDigit || ([...before].length === 1 && [...after].length === 1)
      if (!isLinked && to > from + 2) break
      for (const set of joined.slice(from, to)) set.add(words.slice(from, to).join(''))
      if (!isLinked) break
    }
  }
  return joined
}

/**
 * The search in PostgreSQL's `tsquery` syntax. The last words match as prefixes. Each word also matches joined with its
 * neighbours. With `similar`, it also matches as a similar word and without its signs. Empty if no word is required,
 * which matches nothing. Words have no ASCII punctuation, so none can close its quotes.
 */
export function toTextQuery({ required, linked, excluded }: SearchWords, similar?: ReadonlyMap<string, readonly string[]>): string {
  if (required.length === 0) return ''
  const joined = joinWords(required)
  const quote = (word: string) => `'${word}'`
  const all = (words: readonly string[]) => (words.length === 0 ? [] : [`(${words.map(quote).join(' & ')})`])
  const withoutSigns = (word: string) => {
    const parts = word.split(SIGN_IN_WORD)
    return parts.length === 1 ? [] : parts.filter((part) => part !== '')
  }
  const alternatives = (word: string, index: number) => [
    // A word that the next one follows without a blank is complete. As a prefix, a word that begins all SKUs would
    // collect every product.
    isPrefix(word, required.length - 1 - index) && !linked.includes(index) ? `'${word}':*` : quote(word),
    ...all(dividedWord(word)),
    ...[...(joined[index] ?? [])].map(quote),
    ...(similar?.get(word) ?? []).map(quote),
    ...(similar === undefined ? [] : all(withoutSigns(word))),
  ]
  const clauses = new Set(required.map((word, index) => `(${alternatives(word, index).join(' | ')})`))
  return [...clauses, ...excluded.map((word) => `!'${word}'`)].join(' & ')
}

/** A search word for products whose whole name is the search: see the database's function `search_name`. */
export function toNameQuery({ required }: Pick<SearchWords, 'required'>): string {
  return `'=${[...required.join('').replace(SIGN_IN_WORD, '')].slice(0, MAX_WORD_LENGTH).join('')}'`
}

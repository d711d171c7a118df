/** A text with its values as `{0}`, `{1}` and so on: the key in the tables of `languages/`. */
export function keyOf(strings: readonly string[]): string {
  return strings.reduce((text, part, index) => `${text}{${index - 1}}${part}`)
}

/** Characters for private use stand around the number of a value: markup may have braces itself, as in a `pattern`. */
const VALUE = /\uE000(\d+)\uE001/
const VALUES = new RegExp(VALUE, 'g')
const valueAt = (index: number | string) => `\uE000${index}\uE001`

/** Code is the same in every language. */
const PART = /<code\b[^>]*>[^<]*|<[^>]*>|[^<]+/g
const READ_ALOUD = /(?<=\s(?:alt|aria-label|placeholder|title)=")[^"]*/g
/** A text without the blanks and values around it that have lines of their own. */
const TEXT = /^((?:(?:\s|\uE000\d+\uE001)*\n)?\s*)(.*?)(\s*(?:\n(?:\s|\uE000\d+\uE001)*)?)$/s

interface Template {
  strings: string[]
  /** Which value stands behind each string but the last. */
  order: number[]
}

/** A template with other texts: `map` gets each one as a key, with single blanks. */
export function mapTexts(given: readonly string[], map: (key: string) => string): Template {
  const mapText = (text: string) =>
    text.replace(TEXT, (all, before: string, core: string, after: string) =>
      /\p{L}/u.test(core) ? before + mapCore(core, map) + after : all,
    )
  const markup = given.reduce((text, part, index) => text + valueAt(index - 1) + part)
  const mapped = markup.replace(PART, (part) => (part.startsWith('<') ? part.replace(READ_ALOUD, mapText) : mapText(part)))
  const parts = mapped.split(VALUE)
  return {
    strings: parts.filter((_, index) => index % 2 === 0),
    order: parts.filter((_, index) => index % 2 === 1).map(Number),
  }
}

/** In a key the values count from `{0}`, wherever the text stands in its template. */
function mapCore(text: string, map: (key: string) => string): string {
  const values: string[] = []
  const key = text.replace(/\s+/g, ' ').replace(VALUES, (value) => `{${values.push(value) - 1}}`)
  return map(key).replace(/\{(\d+)\}/g, (_, index) => values[index] ?? '')
}

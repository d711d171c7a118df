/** A text with its values as `{0}`, `{1}` and so on. This is the key in the tables of `languages/`. */
export function keyOf(strings: readonly string[]): string {
  return strings.reduce((text, part, index) => `${text}{${index - 1}}${part}`)
}

/**
 * Private-use characters enclose the number of a value, because markup can contain braces, for example in a `pattern`.
 */
const VALUE = /\uE000(\d+)\uE001/
const VALUES = new RegExp(VALUE, 'g')
const valueAt = (index: number | string) => `\uE000${index}\uE001`

/** Code is the same in every language, so a code element is one part. */
const PART = /<code\b[^>]*>[^<]*|<[^>]*>|[^<]+/g
const READ_ALOUD = /(?<=\s(?:alt|aria-label|placeholder|title)=")[^"]*/g
/** Separates a text from the surrounding blanks, and from values on lines of their own. */
const TEXT = /^((?:(?:\s|\uE000\d+\uE001)*\n)?\s*)(.*?)(\s*(?:\n(?:\s|\uE000\d+\uE001)*)?)$/s

interface Template {
  strings: string[]
  /** The value after each string but the last, as its index in the given template. */
  order: number[]
}

/** Replaces each text of a template. `map` gets the text as a key with single blanks. */
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

/** A key numbers its values from `{0}`, wherever the text stands in the template. */
function mapCore(text: string, map: (key: string) => string): string {
  const values: string[] = []
  const key = text.replace(/\s+/g, ' ').replace(VALUES, (value) => `{${values.push(value) - 1}}`)
  return map(key).replace(/\{(\d+)\}/g, (_, index) => values[index] ?? '')
}

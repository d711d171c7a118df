/** Forms that contain no sentence: ids, times, single words, currencies and countries. */
const FORMS = [/^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/, /^[a-z]+$/, /^[A-Z]{2,3}$/, /^\d*$/]
const MAX_WORD = 40
const MAX_PATHS = 200

const OWN_WORDS = ['answer', 'state', 'outcome', 'arguments']

/** The API's words: the property names and enum values in its schemas. */
export function wordsOf(schema: unknown, words = new Set(OWN_WORDS), seen = new Set<unknown>()): ReadonlySet<string> {
  if (typeof schema !== 'object' || schema === null || seen.has(schema)) return words
  seen.add(schema)
  const { properties, enum: values, const: value } = schema as Record<string, unknown>
  for (const word of [...Object.keys(properties ?? {}), ...[values].flat(), value]) if (typeof word === 'string') words.add(word)
  for (const each of Object.values(schema)) wordsOf(each, words, seen)
  return words
}

/**
 * The paths of all texts in an answer that a customer, a file or another system may have written, such as
 * `data[].note`. A text is trusted only by its form, so a new member needs no list. A name that is no word of the API
 * was chosen by somebody, such as one of `attributes`: its path ends with `*`.
 */
export function untrustedPaths(answer: unknown, words: ReadonlySet<string>): string[] {
  const paths = new Set<string>()
  const collect = (value: unknown, path: string): void => {
    if (typeof value === 'string') {
      if (!words.has(value) && (value.length > MAX_WORD || !FORMS.some((form) => form.test(value)))) paths.add(path)
    } else if (Array.isArray(value)) for (const each of value) collect(each, `${path}[]`)
    else if (typeof value === 'object' && value !== null) {
      const below = path === '' ? '' : `${path}.`
      for (const [name, member] of Object.entries(value)) {
        if (words.has(name)) collect(member, `${below}${name}`)
        else paths.add(`${below}*`)
      }
    }
  }
  collect(answer, '')
  // An answer with more such texts is untrusted as a whole.
  return paths.size > MAX_PATHS ? ['*'] : [...paths]
}

/** Forms that carry no sentence: ids, times, words of the API, currencies and countries. */
const FORMS = [
  /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i,
  /^\d{4}-\d\d-\d\dT[\d:.]+Z$/,
  /^[a-z]+(?:_[a-z]+){0,2}$/,
  /^[A-Z]{2,3}$/,
  /^\d*$/,
]
const MAX_WORD = 40
/** The name of a member that the API gives. Other names are keys that somebody chose, such as attributes. */
const MEMBER = /^[a-z][a-z0-9_]{0,40}$/
const MAX_PATHS = 200

/**
 * The paths of all texts in an answer that a customer, a file or another system may have written, such as
 * `data[].note`. A text is trusted only by its form, so a new member needs no list.
 */
export function untrustedPaths(answer: unknown): string[] {
  const paths = new Set<string>()
  collect(answer, '', paths)
  // An answer with more of them is untrusted as a whole.
  return paths.size > MAX_PATHS ? ['*'] : [...paths]
}

function collect(value: unknown, path: string, paths: Set<string>): void {
  if (typeof value === 'string') {
    if (value.length > MAX_WORD || !FORMS.some((form) => form.test(value))) paths.add(path)
  } else if (Array.isArray(value)) for (const each of value) collect(each, `${path}[]`, paths)
  else if (typeof value === 'object' && value !== null) {
    for (const [name, member] of Object.entries(value)) {
      if (MEMBER.test(name)) collect(member, path === '' ? name : `${path}.${name}`, paths)
      else paths.add(`${path === '' ? '' : `${path}.`}*`)
    }
  }
}

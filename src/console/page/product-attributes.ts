import type { components } from '../../../client/src/schema.ts'

type Attributes = components['schemas']['ProductAttributes']

/** The store's bounds, for the operator. */
export const ATTRIBUTES_HINT =
  "Facts of the shop's own, by which lists can be filtered. One a line, as name: value, at most 50 and 4,096 bytes together. A name begins with a letter and has up to 50 letters, " +
  'digits, _ . and -. A value is a text of up to 500 characters, a number, true or false, or a list of texts such as ["red", "blue"]; in quotes, "12" is a text.'

/** One attribute a line. Texts that would be read as something else are in quotes, as in JSON. */
export function formatAttributes(attributes: Attributes = {}): string {
  const lines = Object.entries(attributes).map(([name, value]) => {
    const isPlain =
      typeof value === 'string'
        ? value !== '' && value === value.trim() && !/[\n\r]/.test(value) && readValue(value) === value
        : !Array.isArray(value)
    return `${name}: ${isPlain ? value : JSON.stringify(value)}`
  })
  return lines.join('\n')
}

/** Throws with the line that is none, or that has the name of another. */
export function readAttributes(text: string): Attributes {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  const attributes = new Map<string, Attributes[string]>()
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = line.slice(0, colon).trim()
    if (colon < 1 || name === '') throw new Error(`“${line.trim()}” is no attribute: write it as name: value.`)
    if (!/^[A-Za-z][A-Za-z0-9_.-]{0,49}$/.test(name))
      throw new Error(`“${name}” is no name: a letter first, then letters, digits, _ . and -, up to 50.`)
    if (attributes.has(name)) throw new Error(`The attribute ${name} is there twice.`)
    attributes.set(name, readValue(line.slice(colon + 1).trim()))
  }
  return Object.fromEntries(attributes)
}

function readValue(text: string): string | number | boolean {
  if (!/^(?:true|false|-?\d.*|".*"|\[.*\])$/s.test(text)) return text
  try {
    const value = JSON.parse(text)
    // A number that JavaScript would write otherwise stays a text: 18 digits, or 1.0.
    return typeof value === 'number' && String(value) !== text ? text : value
  } catch {
    // Text that only looks like JSON, such as 12 V, or a text with a quote at either end.
    return text
  }
}

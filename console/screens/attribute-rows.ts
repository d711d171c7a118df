import type { components } from '../../client/src/schema.ts'
import { t } from '../kit/language.ts'

export type Attributes = NonNullable<components['schemas']['EditedProduct']['attributes']>
type Value = Attributes[string]

export const KINDS = { text: t`text`, number: t`number`, boolean: t`yes or no`, list: t`list` }
export type Kind = keyof typeof KINDS

export interface AttributeRow {
  name: string
  kind: Kind
  /** The text of the value. A list has one line per value. */
  text: string
  /** The stored value, until the text is changed. The text cannot show every value. */
  stored?: Value
}

export function attributeRows(attributes: Attributes = {}): AttributeRow[] {
  return Object.entries(attributes).map(([name, value]) => ({ name, kind: kindOf(value), text: textOf(value), stored: value }))
}

function kindOf(value: Value): Kind {
  return Array.isArray(value) ? 'list' : typeof value === 'string' ? 'text' : (typeof value as 'number' | 'boolean')
}

function textOf(value: Value): string {
  return Array.isArray(value) ? value.join('\n') : String(value)
}

/** Throws an error that names the invalid row. Rows without name and value are left out. */
export function readAttributes(rows: readonly AttributeRow[]): Attributes {
  const attributes = new Map<string, Value>()
  for (const { name: given, kind, text, stored } of rows) {
    const name = given.trim()
    if (name === '' && text.trim() === '') continue
    if (!/^[A-Za-z][A-Za-z0-9_.-]{0,49}$/.test(name))
      throw new Error(t`“${name}” is no name of an attribute: a letter first, then letters, digits, _ . and -, up to 50.`)
    if (attributes.has(name)) throw new Error(t`The attribute ${name} is there twice.`)
    attributes.set(name, stored ?? readValue(name, kind, text))
  }
  return Object.fromEntries(attributes)
}

function readValue(name: string, kind: Kind, text: string): Value {
  if (kind === 'list') return text.split('\n').filter((line) => line.trim() !== '')
  if (kind === 'boolean') return text === 'true'
  if (kind === 'text') return text
  const number = text.trim().replace(',', '.')
  if (!/^-?\d+(?:\.\d+)?$/.test(number)) throw new Error(t`The attribute ${name} must be a number.`)
  return Number(number)
}

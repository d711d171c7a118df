import type { Static } from 'typebox'
import type { AttributesSchema } from '../attributes.ts'

export type Attributes = Static<typeof AttributesSchema>

/** The attributes of each placed line, null for a line that has none. Only this part of a line is personal. */
export type ItemAttributes = readonly (Attributes | null)[]

interface WithAttributes {
  attributes?: Attributes
}

/** Empty attributes count as none. */
export function givenAttributes(attributes: Attributes | undefined): Attributes | undefined {
  return attributes !== undefined && Object.keys(attributes).length > 0 ? attributes : undefined
}

/** The lines as the order's row stores them: the attributes are in a column that is erased. */
export function splitAttributes<Line extends WithAttributes>(
  items: readonly Line[],
): { items: readonly Omit<Line, 'attributes'>[]; attributes: ItemAttributes | null } {
  if (!hasAttributes(items)) return { items, attributes: null }
  return { items: items.map(withoutAttributes), attributes: items.map(({ attributes = null }) => attributes) }
}

/** The opposite of `splitAttributes`. Ignores what is no list of objects, because the row may contain any JSON. */
export function joinAttributes<Line extends WithAttributes>(items: Line[], attributes: unknown): Line[] {
  if (!Array.isArray(attributes)) return items
  return items.map((item, index) => {
    const given: unknown = attributes[index]
    return typeof given === 'object' && given !== null ? { ...item, attributes: given as Attributes } : item
  })
}

export function hasAttributes(items: readonly WithAttributes[]): boolean {
  return items.some(({ attributes }) => attributes !== undefined)
}

export function withoutAttributes<Line extends WithAttributes>({ attributes: _, ...item }: Line): Omit<Line, 'attributes'> {
  return item
}

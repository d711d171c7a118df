import { Type } from 'typebox'
import { invalidBody } from '../http/problem.ts'
import { MAX_LINES } from './basket.ts'
import type { LineQuantity, OrderLine } from './order-changes.ts'

type NamedLine = Pick<LineQuantity, 'product_id' | 'line'>

export const LinePlace = Type.Optional(
  Type.Integer({
    minimum: 0,
    maximum: MAX_LINES - 1,
    description:
      'The place of the line in `items`, from 0: for a product with several lines, such as different engravings. By default the first lines of the product count first.',
  }),
)

/** A product is named once, or with its lines. */
export function assertNamedOnce(lines: readonly NamedLine[]): void {
  const named = new Map<string, Set<number | undefined>>()
  for (const [index, { product_id, line }] of lines.entries()) {
    const id = product_id.toLowerCase()
    const places = named.get(id) ?? new Set()
    if (places.has(line) || places.has(undefined) || (places.size > 0 && line === undefined)) {
      throw invalidBody(`#/lines/${index}/product_id`, 'is named twice')
    }
    named.set(id, places.add(line))
  }
}

/** Throws `invalid_body` for a product that the order does not have, and for a line of another product. */
export function assertOfOrder(items: readonly OrderLine[], requested: readonly NamedLine[]): void {
  const known = new Set(items.map(({ product_id }) => product_id))
  for (const [index, { product_id, line }] of requested.entries()) {
    const id = product_id.toLowerCase()
    if (!known.has(id)) throw invalidBody(`#/lines/${index}/product_id`, 'is no product of the order')
    if (line !== undefined && items[line]?.product_id !== id) throw invalidBody(`#/lines/${index}/line`, 'is no line of this product')
  }
}

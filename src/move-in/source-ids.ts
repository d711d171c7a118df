import { hash } from 'node:crypto'

/** An RFC 9562 UUID of version 8. The same for the same `source` and id, and reveals nothing of the id. */
export function idOfSource(source: string, kind: 'customer' | 'order' | 'product', externalId: string): string {
  const hex = hash('sha256', JSON.stringify(['storefront move-in', source, kind, externalId]))
  const variant = ((Number.parseInt(hex.slice(16, 17), 16) & 0x3) | 0x8).toString(16)
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `${variant}${hex.slice(17, 20)}`, hex.slice(20, 32)].join('-')
}

/** A digest that does not depend on the order of properties. */
export function digestOf(value: unknown): Buffer {
  return hash('sha256', JSON.stringify(sorted(value)), 'buffer')
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, child]) => [key, sorted(child)]),
  )
}

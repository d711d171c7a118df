import { hash } from 'node:crypto'

/** The UUID (RFC 9562, version 8) of something in the shop `source`, as ids of two shops may be equal: always the same one, and nothing of the id there can be read from it. */
export function idOfSource(source: string, kind: 'customer' | 'order' | 'product', externalId: string): string {
  const hex = hash('sha256', JSON.stringify(['storefront move-in', source, kind, externalId]))
  const variant = ((Number.parseInt(hex.slice(16, 17), 16) & 0x3) | 0x8).toString(16)
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `${variant}${hex.slice(17, 20)}`, hex.slice(20, 32)].join('-')
}

/** Identifies the content of a line, whatever the order of its properties. */
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

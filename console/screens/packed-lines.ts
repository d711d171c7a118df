interface Counts {
  quantity: number
  shipped?: number
  cancelled?: number
}

/** The units of a line that can be shipped or cancelled. */
export function countOpen({ quantity, shipped = 0, cancelled = 0 }: Counts): number {
  return quantity - shipped - cancelled
}

/** The units to pack: those that are left to ship. Once nothing is left, all that were not cancelled. */
export function packedLines<T extends Counts>({ items }: { items: readonly T[] }): { item: T; units: number }[] {
  const isOpen = items.some((item) => countOpen(item) > 0)
  return items
    .map((item) => ({ item, units: isOpen ? countOpen(item) : item.quantity - (item.cancelled ?? 0) }))
    .filter(({ units }) => units > 0)
}

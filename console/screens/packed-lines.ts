interface Counts {
  quantity: number
  shipped?: number
  cancelled?: number
}

/** The number of a line's units that can still be shipped or cancelled. */
export function countOpen({ quantity, shipped = 0, cancelled = 0 }: Counts): number {
  return quantity - shipped - cancelled
}

/** The units to pack: the unshipped ones, or all units that were not cancelled when everything is shipped. */
export function packedLines<T extends Counts>({ items }: { items: readonly T[] }): { item: T; units: number }[] {
  const isOpen = items.some((item) => countOpen(item) > 0)
  return items
    .map((item) => ({ item, units: isOpen ? countOpen(item) : item.quantity - (item.cancelled ?? 0) }))
    .filter(({ units }) => units > 0)
}

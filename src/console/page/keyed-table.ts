import { type Child, type Column, create, replaceChildren, table, toCells } from './dom.ts'

/**
 * A table, and a function that shows items as its rows. A row whose item is unchanged keeps its element, and so focus and scroll; in a row
 * that changed the same control gets the focus back.
 */
export function keyedTable<T>(
  caption: string,
  columns: readonly Column[],
  { keyOf, cellsOf }: { keyOf: (item: T) => string; cellsOf: (item: T) => Child[] },
): { element: HTMLElement; show(items: readonly T[]): void } {
  const element = table(caption, columns, [])
  const body = element.querySelector('tbody') ?? element
  const rows = new Map<string, { element: HTMLTableRowElement; shown: string }>()
  const show = (items: readonly T[]) => {
    const keys = new Set(items.map(keyOf))
    for (const [key, { element }] of rows) {
      if (keys.has(key)) continue
      element.remove()
      rows.delete(key)
    }
    let previous: Element | null = null
    for (const item of items) {
      const key = keyOf(item)
      const row = rows.get(key) ?? { element: create('tr'), shown: '' }
      rows.set(key, row)
      const text = JSON.stringify(item)
      if (row.shown !== text) keepFocus(row.element, () => replaceChildren(row.element, ...toCells(columns, cellsOf(item))))
      row.shown = text
      const next: Element | null = previous === null ? body.firstElementChild : previous.nextElementSibling
      // A row that is moved loses the focus, so only those that are not in their place are.
      if (next !== row.element) body.insertBefore(row.element, next)
      previous = row.element
    }
  }
  return { element, show }
}

/** Changes what is in an element; the control at the same place in it keeps the focus. */
export function keepFocus(element: HTMLElement, change: () => void): void {
  const controls = () => [...element.querySelectorAll<HTMLElement>('a, button, input')]
  const index = controls().indexOf(document.activeElement as HTMLElement)
  change()
  if (index !== -1) controls()[index]?.focus()
}

import type { Schemas } from './api.ts'
import type { AdminOrder } from './order-parts.ts'

type Page = Schemas['AdminOrderPage']

/** The orders of a list, newest first: the newest page, which is asked for again and again, and the older ones that were asked for. */
export class LoadedOrders {
  #orders = new Map<string, AdminOrder>()
  #cursor: string | null = null
  #hasOlderPages = false
  readonly #isByTime: boolean
  /** The ids of the orders that the operator has chosen. */
  readonly selected = new Set<string>()

  constructor(isByTime: boolean) {
    this.#isByTime = isByTime
  }

  /** The cursor of the older orders; null when all are loaded. */
  get cursor(): string | null {
    return this.#cursor
  }

  /** Newest first. */
  get list(): AdminOrder[] {
    return [...this.#orders.values()].sort((a, b) => this.#compare(a, b))
  }

  /** The chosen orders, as they are shown. */
  get chosen(): AdminOrder[] {
    return this.list.filter(({ id }) => this.selected.has(id))
  }

  /** An order that is not in the list any more, because a filter does not find it, is not chosen any more either. */
  addNewest(page: Page): void {
    const last = page.data.at(-1)
    const isWithin = (order: AdminOrder) => !page.has_more || last === undefined || this.#compare(order, last) <= 0
    // While somebody works with the list, orders that newer ones push off the page stay in it.
    const isKept = this.#hasOlderPages || this.selected.size > 0
    const older = isKept ? [...this.#orders.values()].filter((order) => !isWithin(order)) : []
    if (!isKept || this.#orders.size === 0) this.#cursor = page.next_cursor
    this.#orders = new Map([...page.data, ...older].map((order) => [order.id, order]))
    for (const id of this.selected) if (!this.#orders.has(id)) this.selected.delete(id)
  }

  addOlder(page: Page): void {
    this.#hasOlderPages = true
    this.#cursor = page.next_cursor
    for (const order of page.data) if (!this.#orders.has(order.id)) this.#orders.set(order.id, order)
  }

  /** The sort order of the API: by number, or by time when a period is given. */
  #compare(a: AdminOrder, b: AdminOrder): number {
    if (!this.#isByTime) return Number(b.number) - Number(a.number)
    return Date.parse(b.created_at) - Date.parse(a.created_at) || (a.id < b.id ? 1 : -1)
  }
}

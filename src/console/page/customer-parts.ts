import type { Schemas } from './api.ts'
import { amountText, badge } from './dom.ts'

type Customer = Schemas['Customer']

/** The address of a customer in the console. */
export function customerAddress(customerId: string): string {
  return `#orders?${new URLSearchParams({ customer: customerId })}`
}

export function customerState({ blocked_at, role }: Customer): HTMLElement {
  if (blocked_at !== null) return badge('blocked', 'bad')
  return role === 'guest' ? badge('guest') : badge('customer', 'good')
}

/** One sum for each currency. */
export function sumsText({ totals }: Schemas['CustomerOrders']): string {
  return totals.length === 0 ? '–' : totals.map(amountText).join(', ')
}

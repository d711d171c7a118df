import { type PartMove, ruleOf } from '../../src/orders/order-status.ts'
import type { Schemas } from '../kit/api.ts'
import { type BadgeKind, badge, type Content, html, nothing } from '../kit/html.ts'
import { plural, t, word } from '../kit/language.ts'
import { dayOf } from '../kit/times.ts'
import { countOpen } from './packed-lines.ts'

export type Order = Schemas['AdminOrder']
export type OrderDetail = Schemas['AdminOrderDetail']
type Item = Schemas['OrderItem']

/** The number of a line's units that can be shipped, cancelled or returned. */
export const COUNT_LEFT: Readonly<Record<PartMove, (item: Item) => number>> = {
  shipped: countOpen,
  cancelled: countOpen,
  returned: ({ shipped = 0, returned = 0 }) => shipped - returned,
}

export function countLeft({ items }: Pick<Order, 'items'>, move: PartMove): number {
  return items.reduce((sum, item) => sum + COUNT_LEFT[move](item), 0)
}

/** Whether a part of the order can be shipped, cancelled or returned now. The store checks it again. */
export function canMovePart(order: Order, move: PartMove): boolean {
  return ruleOf(order.status).parts.includes(move) && countLeft(order, move) > 0
}

/** The next step of an order, or its outcome, such as `to_ship`, `part_shipped` or `shipped`. */
export function fulfilmentOf({ status, items }: Pick<Order, 'status' | 'items'>): string {
  const { phase, next } = ruleOf(status)
  const has = (units: 'shipped' | 'returned') => items.some((item) => (item[units] ?? 0) > 0)
  if (phase === 'ended') return status
  if (has('returned')) return 'part_returned'
  if (phase === 'sent') return status
  if (has('shipped')) return 'part_shipped'
  return next[0] === undefined ? status : `to_${ruleOf(next[0]).action}`
}

export function fulfilmentBadge(order: Pick<Order, 'status' | 'items'>): Content {
  const state = fulfilmentOf(order)
  const texts: Record<string, string> = { part_returned: t`part returned`, part_shipped: t`part shipped` }
  const text = texts[state] ?? (state.startsWith('to_') ? t`to ${word(state.slice(3))}` : word(state))
  return badge(text, ruleOf(order.status).badge)
}

const PAYMENTS: Readonly<Record<Schemas['Payment']['state'], readonly [text: string, kind: BadgeKind]>> = {
  pending: [t`payment pending`, 'waiting'],
  authorized: [t`authorized`, 'next'],
  failed: [t`payment failed`, 'bad'],
  paid: [t`paid`, 'good'],
  partially_refunded: [t`part paid back`, 'neutral'],
  refunded: [t`paid back`, 'neutral'],
}

export function paymentBadge({ payment, status }: Pick<Order, 'payment' | 'status'>): Content {
  if (payment !== null) return badge(...PAYMENTS[payment.state])
  return ruleOf(status).phase === 'ended' ? '–' : badge(t`no payment`)
}

/** The text of an order's units, such as `2 × Blue mug, 1 × Lamp`. */
export function unitsText({ items }: Pick<Order, 'items'>, lines: readonly Partial<Schemas['LineQuantity']>[]): string {
  const names = new Map(items.map(({ product_id, name }) => [product_id, name]))
  return lines
    .map(({ product_id = '', quantity, line = -1 }) => {
      const [count, given] = [quantity === undefined ? '' : `${quantity} × `, attributeTexts(items[line]).join(', ')]
      return `${count}${names.get(product_id) ?? product_id}${given === '' ? '' : ` (${given})`}`
    })
    .join(', ')
}

/** The attributes of a line, such as `engraving: Anna`. */
export function attributeTexts({ attributes = {} }: Pick<Partial<Item>, 'attributes'> = {}): string[] {
  return Object.entries(attributes).map(([name, value]) => `${name}: ${value}`)
}

export function countText(count: number): string {
  return plural(count, t`${count} unit`, t`${count} units`)
}

/** The carrier and number of a parcel, with a link to its tracking page. */
export function trackingText({ carrier, number, url }: Schemas['Tracking']): Content {
  // The API accepts only http and https. The link's title shows its target.
  const isWeb = url !== undefined && /^https?:\/\//.test(url)
  const link = isWeb ? html` <a href=${url} rel="noreferrer noopener" target="_blank" title=${url}>track</a>` : nothing
  return html`${carrier} ${number}${link}`
}

/** The lines of an address as on a letter. */
export function addressLines(address: Order['shipping_address'] | undefined): string[] {
  if (!address) return []
  const { name, company, line1, line2, postal_code, city, region, country } = address
  const place = [postal_code, city].filter(Boolean).join(' ')
  return [name, company, line1, line2, place, region, country].filter((line) => typeof line === 'string' && line !== '') as string[]
}

/** A new reference for a change. The store makes a change with the same reference once, however often it is sent. */
export function newReference(): string {
  const digits = [...crypto.getRandomValues(new Uint8Array(5))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  return `console-${dayOf(new Date())}-${digits}`
}

export interface Sums {
  /** All amounts are in minor units of the order's currency. */
  lines: number
  /** It is null when a provider has reported a refund without its amount. */
  paid: number | null
  paidBack: number | null
  /** What the customer must still pay. The shop owes the amount when it is below 0. Null when unknown. */
  due: number | null
}

/** What an order costs, and what was paid. Returned units cost nothing, and neither does an ended order. */
export function sumsOf({ items, total, adjustments, refundable, refunded, status }: Order): Sums {
  const charges = adjustments.reduce((sum, { amount }) => sum + amount.amount, 0)
  const cameBack = items.reduce((sum, { unit_price, returned = 0 }) => sum + unit_price.amount * returned, 0)
  const held = refundable.reduce((sum, { left }) => sum + left.amount, 0)
  const owed = ruleOf(status).phase === 'ended' ? 0 : total.amount - cameBack
  const lines = total.amount - charges
  if (refunded === null) return { lines, paid: null, paidBack: null, due: null }
  return { lines, paid: held + refunded.amount, paidBack: refunded.amount, due: owed - held }
}

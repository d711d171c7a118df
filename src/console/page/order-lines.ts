import type { Schemas } from './api.ts'
import { amountText, create, facts, table, timeElement } from './dom.ts'

type Order = Schemas['AdminOrderDetail']

/** The lines of an order, with what was done to their units. */
export function orderLines({ items, total }: Order): HTMLElement {
  const isMoved = items.some(({ shipped, cancelled, returned }) => shipped || cancelled || returned)
  const columns = ['Product', 'SKU', 'Category', { number: 'Price' }, { number: 'Quantity' }]
  const moved = isMoved ? [{ number: 'Shipped' }, { number: 'Cancelled' }, { number: 'Returned' }] : []
  const rows = items.map((item) => [
    create('a', { href: `#products?${new URLSearchParams({ product: item.product_id })}` }, item.name),
    item.sku,
    item.category ?? '–',
    amountText(item.unit_price),
    String(item.quantity),
    ...(isMoved ? [item.shipped, item.cancelled, item.returned].map((count) => (count === undefined ? '–' : String(count))) : []),
    amountText(item.total),
  ])
  return create(
    'section',
    { class: 'card wide' },
    create('h3', {}, 'Lines'),
    table('Lines', [...columns, ...moved, { number: 'Amount' }], rows),
    create('p', {}, create('strong', {}, `Total ${amountText(total)}`)),
  )
}

/** What was sent and when; null before the first parcel. */
export function orderParcels(order: Order): HTMLElement | null {
  if (order.parcels.length === 0) return null
  const parcels = order.parcels.map(({ version, shipped_at, tracking, reference, lines }) =>
    create(
      'li',
      {},
      timeElement(shipped_at),
      facts(
        ['Units', unitsText(order, lines)],
        ['Tracking', tracking === undefined ? 'none' : trackingElement(tracking)],
        ['Reference', reference],
        ['Version', String(version)],
      ),
    ),
  )
  return create('section', { class: 'card' }, create('h3', {}, 'Parcels'), create('ol', {}, ...parcels))
}

/** Units of an order as text, such as `2 × Blue mug, 1 × Lamp`. */
export function unitsText({ items }: Order, lines: readonly Schemas['LineQuantity'][]): string {
  const names = new Map(items.map(({ product_id, name }) => [product_id, name]))
  return lines.map(({ product_id, quantity }) => `${quantity} × ${names.get(product_id) ?? product_id}`).join(', ')
}

export function trackingElement({ carrier, number, url }: Schemas['Tracking']): HTMLElement {
  const text = `${carrier} ${number}`
  // The API accepts http and https only; an operator still sees where it leads before following it.
  const isWeb = url !== undefined && /^https?:\/\//.test(url)
  return create(
    'span',
    {},
    text,
    isWeb ? create('a', { href: url, rel: 'noreferrer noopener', target: '_blank', title: url }, ' (track)') : null,
  )
}

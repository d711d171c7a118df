import { call, type Schemas, withQuery } from './api.ts'
import { customerAddress } from './customer-parts.ts'
import { amountText, card, create, facts, link, note, table, timeElement } from './dom.ts'
import type { Names } from './names.ts'
import type { ScreenContext } from './screen.ts'
import { stateBadge } from './state-badge.ts'

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
  return card('Parcels', create('ol', {}, ...parcels))
}

/** Units of an order as text, such as `2 × Blue mug, 1 × Lamp`. */
function unitsText({ items }: Order, lines: readonly Partial<Schemas['LineQuantity']>[]): string {
  const names = new Map(items.map(({ product_id, name }) => [product_id, name]))
  return lines
    .map(({ product_id = '', quantity }) => `${quantity === undefined ? '' : `${quantity} × `}${names.get(product_id) ?? product_id}`)
    .join(', ')
}

function trackingElement({ carrier, number, url }: Schemas['Tracking']): HTMLElement {
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

/** Links to the customer, with the name where the role may read it, and to the customer's orders. */
export function customerLinks(userId: string, { may, signal }: Pick<ScreenContext, 'may' | 'signal'>): HTMLElement {
  const orders = create('a', { href: `#orders?${new URLSearchParams({ user_id: userId })}` }, 'all orders of this customer')
  if (!may('customers:read')) return create('span', {}, orders)
  const customerLink = link(customerAddress(userId), userId)
  const element = create('span', {}, customerLink, ', ', orders)
  // A search finds nothing where the account was deleted; it is not refused.
  call<Schemas['CustomerPage']>('GET', withQuery('/admin/customers', { id: userId }), { signal }).then(
    ({ data: [customer] }) => {
      if (customer === undefined) customerLink.replaceWith('no customer any more')
      else customerLink.textContent = customer.name ?? customer.email
    },
    // The id stays.
    () => {},
  )
  return element
}

/** Who an order is for, and where it goes. */
export function orderCustomer(
  { shipping_address: address, billing_address, vat_number, email, client_reference, note: text, created_at, updated_at }: Order,
  links: HTMLElement,
): HTMLElement {
  return card(
    'Customer',
    facts(
      ['Customer', links],
      ...addressFacts(address),
      ['Mails go to', email],
      ['VAT number', vat_number],
      ['Note', text],
      ["Customer's reference", client_reference],
      ['Placed', timeElement(created_at)],
      ['Changed', timeElement(updated_at)],
    ),
    address === null ? note('The order has no address, or it was erased.') : null,
    billing_address && create('h4', {}, 'Billing address'),
    billing_address && facts(...addressFacts(billing_address)),
  )
}

function addressFacts(address: Order['shipping_address']): [string, string | null | undefined][] {
  return [
    ['Name', address?.name],
    ['Company', address?.company],
    ['Street', [address?.line1, address?.line2].filter(Boolean).join(', ')],
    ['City', [address?.postal_code, address?.city].filter(Boolean).join(' ')],
    ['Region', address?.region],
    ['Country', address?.country],
    ['Phone', address?.phone],
  ]
}

/** What the shop's programs have written down when the order was placed; null for nothing. It never changes. */
export function orderAttributes({ attributes }: Order): HTMLElement | null {
  if (attributes === undefined) return null
  const entries = Object.entries(attributes).map(([name, value]) => [name, String(value)] as const)
  return card('Attributes', facts(...entries))
}

type Change = Schemas['OrderChange']

/** Each change of an order: what, when and who. */
export function orderHistory(order: Order, names: Names): HTMLElement {
  const entries = order.status_history.map(({ status, at, actor, reason, reference, tracking, change }) =>
    create(
      'li',
      {},
      stateBadge(status),
      ' ',
      timeElement(at),
      ' by ',
      names.actorElement(actor, order.user_id),
      facts(
        ['Change', change === undefined ? null : changeText(order, change)],
        ['Reason', reason],
        ['Reference', reference],
        ['Tracking', tracking === undefined ? null : trackingElement(tracking)],
      ),
    ),
  )
  return card('Status history', create('ol', {}, ...entries))
}

/** A change in words; one of a later release by its type. */
function changeText(order: Order, change: Change): string {
  const { type, lines = [], removed = [], added = [], amount = 0 } = change
  const units = unitsText(order, lines)
  const money = amountText({ amount, currency: order.total.currency })
  switch (type) {
    case 'shipped':
      return `${units} shipped`
    case 'lines_cancelled':
      return amount === 0 ? `${units} cancelled` : `${units} cancelled: ${money}`
    case 'returned':
      return `${units} returned, ${change.restock ? 'to be sold again' : 'not back in stock'}`
    case 'adjusted':
      return `${change.label} (${change.kind}): ${money}`
    case 'adjustment_voided':
      return `${labelOf(order, change.adjustment) ?? 'An adjustment'} is void: ${money}`
    case 'payment':
      return `${paymentText(order, change)}: ${change.provider} ${change.reference}`
    case 'amended':
      return [
        `Amended: ${(change.amended ?? []).join(', ').replaceAll('_', ' ')}`,
        ...(added.length === 0 ? [] : [`${unitsText(order, added)} added`]),
        ...(removed.length === 0 ? [] : [`${unitsText(order, removed)} removed`]),
        ...(amount === 0 ? [] : [`total ${money}`]),
      ].join('; ')
    default:
      return type.replaceAll('_', ' ')
  }
}

function paymentText(order: Order, { state, refund }: Change): string {
  if (refund === undefined) return `Payment ${state}`
  const { currency } = order.total
  const units = unitsText(order, refund.lines ?? [])
  return `${amountText({ amount: refund.amount, currency })} refunded${units === '' ? '' : ` for ${units}`}`
}

function labelOf({ status_history: history }: Order, version: number | undefined): string | undefined {
  return history.find((entry, index) => (entry.version ?? index + 1) === version)?.change?.label
}

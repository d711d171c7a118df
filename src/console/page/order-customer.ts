import { call, type Schemas, withQuery } from './api.ts'
import { customerAddress } from './customer-parts.ts'
import { create, facts, note, timeElement } from './dom.ts'
import type { ScreenContext } from './screen.ts'

type Order = Schemas['AdminOrderDetail']

/** Links to the customer, with the name where the role may read it, and to the customer's orders. */
export function customerLinks(userId: string, { may, signal }: Pick<ScreenContext, 'may' | 'signal'>): HTMLElement {
  const orders = create('a', { href: `#orders?${new URLSearchParams({ user_id: userId })}` }, 'all orders of this customer')
  if (!may('customers:read')) return create('span', {}, orders)
  const link = create('a', { href: customerAddress(userId) }, userId)
  const element = create('span', {}, link, ', ', orders)
  // A search finds nothing where the account was deleted; it is not refused.
  call<Schemas['CustomerPage']>('GET', withQuery('/admin/customers', { id: userId }), { signal }).then(
    ({ data: [customer] }) => {
      if (customer === undefined) link.replaceWith('no customer any more')
      else link.textContent = customer.name ?? customer.email
    },
    // The id stays.
    () => {},
  )
  return element
}

/** Who an order is for, and where it goes. */
export function orderCustomer(
  { shipping_address: address, client_reference, note: text, created_at, updated_at }: Order,
  links: HTMLElement,
): HTMLElement {
  return create(
    'section',
    { class: 'card' },
    create('h3', {}, 'Customer'),
    facts(
      ['Customer', links],
      ['Name', address?.name],
      ['Street', [address?.line1, address?.line2].filter(Boolean).join(', ')],
      ['City', [address?.postal_code, address?.city].filter(Boolean).join(' ')],
      ['Region', address?.region],
      ['Country', address?.country],
      ['Phone', address?.phone],
      ['Note', text],
      ["Customer's reference", client_reference],
      ['Placed', timeElement(created_at)],
      ['Changed', timeElement(updated_at)],
    ),
    address === null ? note('The order has no address, or it was erased.') : null,
  )
}

/** What the shop's programs have written down when the order was placed; null for nothing. It never changes. */
export function orderAttributes({ attributes }: Order): HTMLElement | null {
  if (attributes === undefined) return null
  const entries = Object.entries(attributes).map(([name, value]) => [name, String(value)] as const)
  return create('section', { class: 'card' }, create('h3', {}, 'Attributes'), facts(...entries))
}

import { addressOf } from '../kit/address.ts'
import { api, read, type Schemas } from '../kit/api.ts'
import { copyButton } from '../kit/copy.ts'
import { type Content, card, facts, html, note, nothing, time } from '../kit/html.ts'
import { t } from '../kit/language.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { addressLines, type Order } from './order-parts.ts'
import { customerAddress, languageName, ordersText, sumsText } from './parts.ts'

type Customer = Schemas['Customer']

/** The customer of an order, its addresses, and the attributes that the shop gave it. */
export function orderCustomer(context: ScreenContext): (order: Order) => Content {
  const { may, update } = context
  /** Undefined while it is not known or when this role may not see it. Null for a deleted account. */
  let customer: Customer | null | undefined
  let asked = ''
  const ask = async (id: string) => {
    // A search finds nothing for a deleted account, and a request for it would be refused.
    const { data } = await read(api.GET('/admin/customers', { params: { query: { id } } }))
    customer = data[0] ?? null
    update()
  }

  return (order) => {
    if (may('customers:read') && asked !== order.user_id) {
      asked = order.user_id
      // The page keeps the id.
      ask(order.user_id).catch(() => {})
    }
    const { shipping_address: address, billing_address: billing } = order
    return html`
      ${card(t`Customer`, customerFacts(order, customer, context))}
      ${card(t`Delivery address`, address === null ? note(t`The order has no address, or it was erased.`) : addressBlock(address, t`the address`, context))}
      ${billing ? card(t`Billing address`, addressBlock(billing, t`the billing address`, context)) : nothing}
      ${attributes(order)}`
  }
}

function customerFacts(order: Order, customer: Customer | null | undefined, context: ScreenContext): Content {
  const { user_id, email: given, vat_number, note: text, client_reference, created_at, updated_at } = order
  const allOrders = html`<a href=${addressOf('orders', { user_id })}>All orders of this customer</a>`
  const email = customer?.email
  const copied = (value: string, what: string) => html`${value} ${copyButton(value, what, context)}`
  return html`${facts(
    [t`Name`, nameOf(user_id, customer, context)],
    [t`E-mail`, email === undefined ? null : copied(email, t`the e-mail address`)],
    [t`Mails go to`, given === undefined || given === email ? null : copied(given, t`the address of the mails`)],
    [t`Phone`, order.shipping_address?.phone ? copied(order.shipping_address.phone, t`the phone number`) : null],
    [t`Language`, customer?.language ? languageName(customer.language) : null],
    [t`Orders`, customer ? `${ordersText(customer.orders)}, ${sumsText(customer.orders.totals)}` : null],
    [t`VAT number`, vat_number],
    [t`Note`, text],
    [t`Customer's reference`, client_reference],
    [t`Placed`, time(created_at)],
    [t`Changed`, time(updated_at)],
  )}<p>${allOrders}</p>`
}

function nameOf(id: string, customer: Customer | null | undefined, { may }: ScreenContext): Content {
  if (!may('customers:read')) return null
  if (customer === null) return t`no customer any more`
  const name = customer === undefined ? id : (customer.name ?? customer.email)
  return html`<a href=${customerAddress(id)}>${name}</a>`
}

function addressBlock(address: NonNullable<Order['shipping_address']>, what: string, context: ScreenContext): Content {
  const lines = addressLines(address)
  const place = addressLines({ ...address, name: '', company: null }).join(', ')
  const map = `https://www.openstreetmap.org/search?${new URLSearchParams({ query: place })}`
  return html`<address>${lines.map((line) => html`<span>${line}</span>`)}</address>
    <div class="actions">${copyButton(lines.join('\n'), what, context)}
      <a href=${map} rel="noreferrer noopener" target="_blank">Map</a></div>`
}

/** The attributes that the shop's programs stored with the order. They never change. */
function attributes({ attributes: given }: Order): Content {
  if (given === undefined) return nothing
  return card(t`Attributes`, facts(...Object.entries(given).map(([name, value]) => [name, String(value)] as const)))
}

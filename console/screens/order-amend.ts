import { ruleOf } from '../../src/orders/order-status.ts'
import { api, read, type Schemas } from '../kit/api.ts'
import { openFormDialog } from '../kit/dialog.ts'
import { choice, field } from '../kit/form.ts'
import { type Content, html, nothing } from '../kit/html.ts'
import { t } from '../kit/language.ts'
import { atVersion } from './order-changes.ts'
import { causeFields, readDetails, trackingFields } from './order-fields.ts'
import type { Order } from './order-parts.ts'
import { findProductId } from './order-products.ts'

type Amendment = Schemas['Amendment']
type Address = Order['shipping_address'] | undefined

const ADDRESS = [
  ['name', t`Name`, 200],
  ['company', t`Company`, 200],
  ['line1', t`Street`, 200],
  ['line2', t`Further line`, 200],
  ['postal_code', t`Postal code`, 20],
  ['city', t`City`, 100],
  ['region', t`Region`, 100],
  ['country', t`Country`, 2],
  ['phone', t`Phone`, 40],
] as const

const PRICES = [
  ['now', t`The present price`],
  ['then', t`The price in the order`],
] as const

interface AmendDialog {
  signal: AbortSignal
  onDone: (amendment: Amendment) => void
}

/** A dialog that corrects an order. It sends only changed values. */
export function openAmendDialog(order: Order, { signal, onDone }: AmendDialog): void {
  const isOpen = ruleOf(order.status).phase === 'open'
  const units = isOpen ? unitsByProduct(order) : []

  async function onSubmit(data: FormData): Promise<void> {
    const body = await readAmendment(order, units, data)
    onDone(await read(api.POST('/admin/orders/{id}/amendments', { params: atVersion(order), body })))
  }

  const vatNumber = textField('vat_number', t`VAT number`, 40, order.vat_number)
  const email = textField('email', t`E-mail address`, 254, order.email, t`Where the mails of this order go.`)
  openFormDialog({ title: t`Amend order ${order.number}`, submit: t`Amend order`, signal, onSubmit }, () => {
    const cause = causeFields()
    return () => html`
      ${isOpen ? fieldset(t`Delivery address`, addressFields(order.shipping_address)) : nothing}
      ${fieldset(t`Billing address, where it is another`, [addressFields(order.billing_address, 'billing_'), vatNumber])}
      ${isOpen ? fieldset(t`Units`, unitFields(units)) : nothing}
      ${email}
      ${order.parcels.length > 0 ? fieldset(t`Tracking`, [parcelChoice(order), trackingFields()]) : nothing}
      ${cause}`
  })
}

export function fieldset(legend: string, fields: Content): Content {
  return html`<fieldset class="fields"><legend>${legend}</legend>${fields}</fieldset>`
}

function textField(name: string, label: string, maxLength: number, value: string | null | undefined, hint?: string): Content {
  const input = html`<input name=${name} maxlength=${maxLength} autocomplete="off" .defaultValue=${value ?? ''}>`
  return field(label, input, hint)
}

export function addressFields(address: Address, prefix = ''): Content {
  return ADDRESS.map(([member, label, maxLength]) => textField(`${prefix}${member}`, label, maxLength, address?.[member]))
}

function unitFields(units: readonly Units[]): Content {
  const quantity = (name: string, value: number) =>
    html`<input type="number" name=${name} min="0" max="10000" step="1" required autocomplete="off" .defaultValue=${String(value)}>`
  return html`
    ${units.map(({ product_id, label, kept }) => field(label, quantity(product_id, kept)))}
    ${textField('added_product', t`Add product`, 64, '', t`Its SKU, or the id in its address.`)}
    ${field(t`Units of it`, quantity('added_quantity', 1))}
    ${field(t`Price of added units`, choice({ name: 'price' }, PRICES, 'now'))}`
}

function parcelChoice({ parcels }: Order): Content {
  const names = parcels.map(({ version, tracking }, index): [string, string] => [
    String(version),
    [t`Parcel ${index + 1}`, ...(tracking === undefined ? [] : [`${tracking.carrier} ${tracking.number}`])].join(': '),
  ])
  return field(t`Parcel`, choice({ name: 'amended_parcel' }, [['', t`None`], ...names], ''))
}

async function readAmendment(order: Order, units: readonly Units[], data: FormData): Promise<Schemas['NewAmendment']> {
  const text = (name: string) => String(data.get(name) ?? '').trim()
  const isOpen = ruleOf(order.status).phase === 'open'
  const shipping = isOpen ? readAddress(order.shipping_address, '', text) : undefined
  const billing = readAddress(order.billing_address, 'billing_', text)
  const { tracking, ...cause } = readDetails(data)
  const version = Number(text('amended_parcel'))
  if ((tracking === undefined) !== (version === 0)) throw new Error(t`New tracking needs its parcel, carrier and number.`)
  const lines = units.flatMap(({ product_id, kept }) =>
    Number(text(product_id)) === kept ? [] : [{ product_id, quantity: Number(text(product_id)) }],
  )
  const added = text('added_product') === '' ? '' : await findProductId(text('added_product'))
  if (units.some((each) => each.product_id === added)) throw new Error(t`The order has this product: change its units above.`)
  if (added !== '') lines.push({ product_id: added, quantity: Number(text('added_quantity')) })
  const price = text('price') === 'then' ? 'then' : 'now'
  return {
    ...(shipping === undefined ? {} : { shipping_address: (shipping ?? {}) as Schemas['ShippingAddress'] }),
    ...(billing === undefined ? {} : { billing_address: billing }),
    ...(text('vat_number') === (order.vat_number ?? '') ? {} : { vat_number: text('vat_number') || null }),
    ...(text('email') === (order.email ?? '') ? {} : { email: text('email') || null }),
    ...(tracking === undefined ? {} : { parcel: { version, tracking } }),
    ...(lines.length === 0 ? {} : { lines: lines.map((line) => ({ ...line, price })) }),
    ...cause,
  }
}

/** Undefined for an unchanged address, and null for an address without any text. Members without a field stay. */
export function readAddress(
  address: Address,
  prefix: string,
  text: (name: string) => string,
): Schemas['ShippingAddress'] | null | undefined {
  if (ADDRESS.every(([member]) => text(`${prefix}${member}`) === (address?.[member] ?? ''))) return undefined
  if (ADDRESS.every(([member]) => text(`${prefix}${member}`) === '')) return null
  const entries = ADDRESS.map(([member]) => [member, text(`${prefix}${member}`) || undefined])
  return { ...address, ...Object.fromEntries(entries) }
}

interface Units {
  product_id: string
  label: string
  kept: number
}

/** The units of each product that are not cancelled. An order may have several lines of one product. */
function unitsByProduct({ items }: Order): Units[] {
  const byProduct = Map.groupBy(items, ({ product_id }) => product_id)
  return [...byProduct].map(([product_id, lines]) => ({
    product_id,
    label: `${lines[0]?.name} (${lines[0]?.sku})`,
    kept: lines.reduce((sum, { quantity, cancelled = 0 }) => sum + quantity - cancelled, 0),
  }))
}

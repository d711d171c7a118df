import { ruleOf } from '#order-status'
import { call, pathOf, type Schemas } from './api.ts'
import { openFormDialog } from './dialog.ts'
import { create } from './dom.ts'
import { choice, field, textInput } from './form.ts'
import { causeFields, readMoveDetails, trackingFields } from './move-fields.ts'

type Order = Schemas['AdminOrder']
type Amendment = Schemas['Amendment']

const ADDRESS = [
  ['name', 'Name', 200],
  ['company', 'Company', 200],
  ['line1', 'Street', 200],
  ['line2', 'Further line', 200],
  ['postal_code', 'Postal code', 20],
  ['city', 'City', 100],
  ['region', 'Region', 100],
  ['country', 'Country', 2],
  ['phone', 'Phone', 40],
] as const

/** Asks what of an order is wrong, and corrects it. What is left as it is, is not sent. */
export function openAmendDialog(order: Order, { signal, onDone }: { signal: AbortSignal; onDone: (amendment: Amendment) => void }): void {
  const { phase } = ruleOf(order.status)
  const delivery = addressFields(order.shipping_address)
  const billing = addressFields(order.billing_address, 'billing_')
  const vatNumber = field('VAT number', textInput('vat_number', { maxLength: 40, value: order.vat_number ?? '' }))
  const email = field(
    'E-mail address',
    textInput('email', { maxLength: 254, value: order.email ?? '' }),
    'Where the mails of this order go.',
  )
  const parcels = order.parcels.map(({ version, tracking }): [string, string] => [
    String(version),
    `Version ${version}${tracking === undefined ? '' : `: ${tracking.carrier} ${tracking.number}`}`,
  ])

  const units = phase === 'open' ? unitsByProduct(order) : []
  const quantity = (name: string, value: string) =>
    textInput(name, { type: 'number', min: '0', max: '10000', step: '1', required: true, value })
  const lineFields = units.map(({ product_id, label, kept }) => field(label, quantity(product_id, String(kept))))
  const added = [
    field('Add product', textInput('added_product', { maxLength: 36 }), 'The id of a product, as in its address in the catalogue.'),
    field('Units of it', quantity('added_quantity', '1')),
    field(
      'Price of added units',
      choice(
        { name: 'price' },
        [
          ['now', 'The present price'],
          ['then', 'The price in the order'],
        ],
        'now',
      ),
    ),
  ]

  async function onSubmit(data: FormData): Promise<void> {
    const text = (name: string) => String(data.get(name) ?? '').trim()
    const shippingAddress = phase === 'open' ? readAddress(order.shipping_address, delivery, text) : undefined
    const billingAddress = readAddress(order.billing_address, billing, text)
    const { tracking, ...cause } = readMoveDetails(data)
    const version = Number(text('amended_parcel'))
    if ((tracking === undefined) !== (version === 0)) throw new Error('New tracking needs its parcel, carrier and number.')
    const lines = units.flatMap(({ product_id, kept }) =>
      Number(text(product_id)) === kept ? [] : [{ product_id, quantity: Number(text(product_id)) }],
    )
    const product_id = text('added_product').toLowerCase()
    if (units.some((each) => each.product_id === product_id)) throw new Error('The order has this product: change its units above.')
    if (product_id !== '') lines.push({ product_id, quantity: Number(text('added_quantity')) })
    const body = {
      ...(shippingAddress === undefined ? {} : { shipping_address: shippingAddress ?? {} }),
      ...(billingAddress === undefined ? {} : { billing_address: billingAddress }),
      ...(text('vat_number') === (order.vat_number ?? '') ? {} : { vat_number: text('vat_number') || null }),
      ...(text('email') === (order.email ?? '') ? {} : { email: text('email') === '' ? null : text('email') }),
      ...(tracking === undefined ? {} : { parcel: { version, tracking } }),
      ...(lines.length === 0 ? {} : { lines: lines.map((line) => ({ ...line, price: text('price') })) }),
      ...cause,
    }
    onDone(await call<Amendment>('POST', pathOf`/admin/orders/${order.id}/amendments`, { body, ifMatch: `"${order.version}"` }))
  }

  openFormDialog(
    { title: `Amend order ${order.number}`, submit: 'Amend order', signal, onSubmit },
    phase === 'open' && fieldset('Delivery address', ...delivery.map(({ element }) => element)),
    fieldset('Billing address, where it is another', ...billing.map(({ element }) => element), vatNumber),
    phase === 'open' && fieldset('Units', ...lineFields, ...added),
    email,
    parcels.length > 0 &&
      fieldset('Tracking', field('Parcel', choice({ name: 'amended_parcel' }, [['', 'None'], ...parcels], '')), ...trackingFields()),
    ...causeFields(),
  )
}

function fieldset(legend: string, ...fields: HTMLElement[]): HTMLElement {
  return create('fieldset', { class: 'fields' }, create('legend', {}, legend), ...fields)
}

type AddressFields = { name: string; member: string; value: string; element: HTMLElement }[]

function addressFields(address: Address, prefix = ''): AddressFields {
  return ADDRESS.map(([member, label, maxLength]) => {
    const [name, value] = [`${prefix}${member}`, address?.[member] ?? '']
    return { name, member, value, element: field(label, textInput(name, { maxLength, value })) }
  })
}

type Address = Order['shipping_address'] | undefined

/** Undefined for an address that was left as it is, null for one without any text. Members without a field stay. */
function readAddress(address: Address, fields: AddressFields, text: (name: string) => string): object | null | undefined {
  if (fields.every(({ name, value }) => text(name) === value)) return undefined
  if (fields.every(({ name }) => text(name) === '')) return null
  return { ...address, ...Object.fromEntries(fields.map(({ name, member }) => [member, text(name) || undefined])) }
}

/** The units of each product that are not cancelled: an order may have several lines of one. */
function unitsByProduct({ items }: Order): { product_id: string; label: string; kept: number }[] {
  const byProduct = Map.groupBy(items, ({ product_id }) => product_id)
  return [...byProduct].map(([product_id, lines]) => ({
    product_id,
    label: `${lines[0]?.name} (${lines[0]?.sku})`,
    kept: lines.reduce((sum, { quantity, cancelled = 0 }) => sum + quantity - cancelled, 0),
  }))
}

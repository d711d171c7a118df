import type { OrderStatus } from '../../orders/order-status.ts'
import { type Decimal, toMinor } from './amounts.ts'
import { type Conversion, unmappable } from './conversion.ts'
import { htmlToLine } from './html-text.ts'
import { addGuest, guestId, type ShopAddress, toOrderLine } from './shop-orders.ts'
import { type ExpectedFile, readJsonRecords } from './shop-records.ts'

type Text = string | null
interface Person {
  first_name?: Text
  last_name?: Text
}
interface Place extends Person {
  company?: Text
  address_1?: Text
  address_2?: Text
  city?: Text
  state?: Text
  postcode?: Text
  country?: Text
  phone?: Text
}
interface Customer extends Person {
  id: number
  email: string
  date_created_gmt?: string
}
interface Order {
  id: number
  number: string
  status: string
  currency: string
  customer_id: number
  customer_note?: Text
  total: Decimal
  total_tax: Decimal
  date_created_gmt: string
  date_modified_gmt?: Text
  date_paid_gmt?: Text
  date_completed_gmt?: Text
  meta_data?: { key: string; value: unknown }[]
  billing: Place & { email?: Text }
  shipping?: Place | null
  line_items: { sku?: Text; name: string; quantity: number; subtotal: Decimal; total: Decimal }[]
  shipping_lines?: { method_title?: Text; total: Decimal }[]
  fee_lines?: { name?: Text; total: Decimal }[]
  coupon_lines?: { code?: Text }[]
  refunds?: unknown[]
}

/** A file from the REST API: https://woocommerce.github.io/woocommerce-rest-api-docs/ */
export const restPages = (key: string, members: readonly string[]): ExpectedFile => ({
  ...{ key, members },
  expected: `the pages of /wp-json/wc/v3/${key}`,
})
const CUSTOMERS = restPages('customers', ['id', 'email', 'date_created_gmt'])
const ORDERS = restPages('orders', ['id', 'number', 'line_items', 'billing'])
const HASHES: ExpectedFile = {
  key: 'users',
  members: ['ID', 'user_pass'],
  expected: 'the JSON of wp user list --fields=ID,user_pass --format=json',
}
const nameOf = ({ first_name, last_name }: Person) => htmlToLine(`${first_name ?? ''} ${last_name ?? ''}`)

// Plugins such as EU VAT Number, EU/UK VAT and Germanized add these fields. WooCommerce itself has none.
const VAT_NUMBER_KEYS = ['_billing_vat_number', '_vat_number', 'vat_number', '_billing_eu_vat_number', '_billing_vat_id']

// The statuses of https://woocommerce.com/document/managing-orders/order-statuses/
const STATUSES = new Map<string, OrderStatus>(
  Object.entries({
    ...{ pending: 'pending', 'on-hold': 'pending', processing: 'confirmed', completed: 'delivered' },
    ...{ cancelled: 'cancelled', failed: 'cancelled', refunded: 'returned' },
  } as const),
)

export async function* convertWooCommerceCustomers(
  file: string,
  conversion: Conversion,
  hashFile: string | undefined,
): AsyncGenerator<string> {
  const hashes = new Map<number, string>()
  if (hashFile !== undefined) {
    for await (const { ID, user_pass } of readJsonRecords<{ ID: string; user_pass: string }>(hashFile, HASHES))
      hashes.set(Number(ID), user_pass)
  }
  for await (const { id, email, date_created_gmt, ...person } of readJsonRecords<Customer>(file, CUSTOMERS)) {
    conversion.add(String(id), () => ({
      external_id: String(id),
      ...(email ? { email, password: hashes.get(id) ?? null } : { guest: true }),
      name: nameOf(person) || null,
      created_at: `${date_created_gmt}Z`,
    }))
    yield conversion.take()
  }
}

export async function* convertWooCommerceGuests(file: string, conversion: Conversion): AsyncGenerator<string> {
  const seen = new Set<string>()
  for await (const { id, customer_id, billing } of readJsonRecords<Order>(file, ORDERS)) {
    if (customer_id === 0) addGuest(conversion, seen, { email: billing.email, orderId: String(id), name: nameOf(billing) })
    yield conversion.take()
  }
}

export async function* convertWooCommerceOrders(file: string, conversion: Conversion): AsyncGenerator<string> {
  for await (const order of readJsonRecords<Order>(file, ORDERS)) {
    conversion.add(`order ${order.number}`, () => convertOrder(order, conversion))
    yield conversion.take()
  }
}

function toPlace(place: Place): ShopAddress {
  const { company, address_1: line1, address_2: line2, city, state: region, postcode: postalCode, country, phone } = place
  return { name: nameOf(place), company, line1, line2, city, region, postalCode, country, phone }
}

function convertOrder(order: Order, conversion: Conversion): object {
  const { currency, line_items, shipping_lines = [], fee_lines = [], coupon_lines = [], meta_data = [], billing, shipping } = order
  const minor = (amount: Decimal) => toMinor(amount, currency)
  const sum = <M extends string>(lines: readonly Record<M, Decimal>[], member: M) =>
    lines.reduce((amount, line) => amount + minor(line[member]), 0)
  const place: Place = shipping?.address_1 ? { ...shipping, phone: shipping.phone || billing.phone || null } : billing
  const status = STATUSES.get(order.status) ?? unmappable(`status ${order.status} is no order`)
  return toOrderLine(
    {
      id: String(order.id),
      number: order.number,
      customerId: order.customer_id === 0 ? guestId(billing.email, String(order.id)) : String(order.customer_id),
      currency,
      // Amounts of lines exclude tax. `subtotal` is before coupons, and `total` after them.
      lines: line_items.map(({ sku, name, quantity, subtotal }) => ({ sku, name, quantity, total: minor(subtotal) })),
      charges: [
        { kind: 'shipping', label: shipping_lines.map((line) => line.method_title).join(', '), amount: sum(shipping_lines, 'total') },
        { kind: 'fee', label: fee_lines.map((line) => line.name).join(', '), amount: sum(fee_lines, 'total') },
        {
          kind: 'discount',
          label: coupon_lines.map((line) => line.code).join(', '),
          amount: sum(line_items, 'total') - sum(line_items, 'subtotal'),
        },
        { kind: 'tax', label: 'tax', amount: minor(order.total_tax) },
      ],
      total: { text: order.total, amount: minor(order.total) },
      address: toPlace(place),
      billing: toPlace(billing),
      vatNumber: VAT_NUMBER_KEYS.flatMap((key) => meta_data.filter((entry) => entry.key === key))
        .map(({ value }) => value)
        .filter((value) => typeof value === 'string')
        .find((value) => value.trim() !== ''),
      note: order.customer_note,
      status,
      // A refund of everything makes the status `refunded`.
      part: status !== 'returned' && (order.refunds ?? []).length > 0 ? 'partly refunded' : null,
      times: {
        pending: order.date_created_gmt,
        confirmed: order.date_paid_gmt,
        shipped: order.date_completed_gmt,
        delivered: order.date_completed_gmt,
        cancelled: order.date_modified_gmt,
        returned: order.date_modified_gmt,
      },
      parcels: [],
    },
    conversion,
  )
}

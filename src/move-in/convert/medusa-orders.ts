import type { OrderStatus } from '../../orders/order-status.ts'
import { type Decimal, roundToMinor } from './amounts.ts'
import { type Conversion, unmappable } from './conversion.ts'
import { type ShopAddress, toOrderLine } from './shop-orders.ts'
import { type ExpectedFile, readJsonRecords } from './shop-records.ts'

type Text = string | null
interface Customer {
  id: string
  email: string
  first_name?: Text
  last_name?: Text
  created_at?: string
  has_account?: boolean
}
interface Place {
  first_name?: Text
  last_name?: Text
  company?: Text
  address_1?: Text
  address_2?: Text
  city?: Text
  province?: Text
  postal_code?: Text
  country_code?: Text
  phone?: Text
}
interface Order {
  id: string
  display_id: number
  status?: Text
  payment_status?: Text
  fulfillment_status?: Text
  currency_code: string
  customer_id: string
  created_at: string
  updated_at?: Text
  canceled_at?: Text
  items: {
    variant_sku?: Text
    title?: Text
    product_title?: Text
    variant_title?: Text
    quantity: number
    unit_price: Decimal
    is_tax_inclusive?: boolean
  }[]
  shipping_methods?: { name?: Text }[]
  shipping_address?: Place | null
  billing_address?: Place | null
  fulfillments?: { shipped_at?: Text; delivered_at?: Text; labels?: { tracking_number?: Text }[] }[]
  payment_collections?: { completed_at?: Text }[]
  total: Decimal
  tax_total?: Decimal
  discount_total?: Decimal
  discount_subtotal?: Decimal
  original_shipping_total?: Decimal
  original_shipping_subtotal?: Decimal
}

const CUSTOMERS: ExpectedFile = { key: 'customers', members: ['id', 'email', 'has_account'], expected: 'the pages of /admin/customers' }
const ORDERS: ExpectedFile = {
  key: 'orders',
  members: ['id', 'display_id', 'items', 'currency_code'],
  expected: 'the pages of /admin/orders',
}
const HASHES: ExpectedFile = {
  key: 'identities',
  members: ['email', 'password'],
  expected: 'the answer of the psql command in docs/operate/move-in.md',
}

export async function* convertMedusaCustomers(file: string, conversion: Conversion, hashFile: string | undefined): AsyncGenerator<string> {
  const hashes = new Map<string, string>()
  if (hashFile !== undefined) {
    for await (const { email, password } of readJsonRecords<{ email: string; password: string }>(hashFile, HASHES))
      hashes.set(email.toLowerCase(), password)
  }
  for await (const { id, email, first_name, last_name, created_at, has_account } of readJsonRecords<Customer>(file, CUSTOMERS)) {
    conversion.add(id, () => ({
      external_id: id,
      ...(email ? { email } : {}),
      name: `${first_name ?? ''} ${last_name ?? ''}`.trim() || null,
      created_at,
      password: has_account && email ? (hashes.get(email.toLowerCase()) ?? null) : null,
      ...(has_account && email ? {} : { guest: true }),
    }))
    yield conversion.take()
  }
}

export async function* convertMedusaOrders(file: string, conversion: Conversion): AsyncGenerator<string> {
  for await (const order of readJsonRecords<Order>(file, ORDERS)) {
    conversion.add(`order ${order.display_id}`, () => convertOrder(order, conversion))
    yield conversion.take()
  }
}

function statusOf({ status, payment_status: money, fulfillment_status: goods }: Order): OrderStatus {
  if (status === 'draft') unmappable('a draft is no order')
  if (status === 'canceled') return 'cancelled'
  if (goods === 'shipped' || goods === 'delivered') return money === 'refunded' ? 'returned' : goods
  if (money === 'refunded' || money === 'canceled') return 'cancelled'
  return ['captured', 'partially_captured', 'authorized', 'partially_refunded'].includes(money ?? '') ? 'confirmed' : 'pending'
}

const PARTS = new Map([
  ['partially_fulfilled', 'partly fulfilled'],
  ['fulfilled', 'fulfilled and not marked as shipped'],
  ['partially_shipped', 'partly shipped'],
  ['partially_delivered', 'partly delivered'],
])

function partOf({ payment_status: money, fulfillment_status: goods }: Order): string | null {
  return PARTS.get(goods ?? '') ?? (money === 'partially_refunded' ? 'partly refunded' : null)
}

function toPlace({ first_name, last_name, company, address_1: line1, address_2: line2, city, ...place }: Place): ShopAddress {
  const { province: region, postal_code: postalCode, country_code: country, phone } = place
  return { name: `${first_name ?? ''} ${last_name ?? ''}`, company, line1, line2, city, region, postalCode, country, phone }
}

function convertOrder(order: Order, conversion: Conversion): object {
  const { items, shipping_methods = [], fulfillments = [], shipping_address: address, payment_collections = [] } = order
  const currency = order.currency_code.toUpperCase()
  // Medusa 2 has amounts in major units, and does not round calculated ones.
  const minor = (amount: Decimal | undefined) => roundToMinor(amount ?? 0, currency)
  const isInclusive = items[0]?.is_tax_inclusive === true
  const last = (member: 'shipped_at' | 'delivered_at') =>
    fulfillments
      .map((one) => one[member])
      .filter((time) => typeof time === 'string')
      .sort()
      .at(-1)
  return toOrderLine(
    {
      id: order.id,
      number: order.display_id,
      customerId: order.customer_id,
      currency,
      lines: items.map((item) => ({
        sku: item.variant_sku,
        name: [item.product_title ?? item.title, item.variant_title].filter(Boolean).join(', '),
        quantity: item.quantity,
        total: minor(item.unit_price) * item.quantity,
      })),
      charges: [
        {
          kind: 'shipping',
          label: shipping_methods.map((method) => method.name).join(', '),
          amount: minor(isInclusive ? order.original_shipping_total : order.original_shipping_subtotal),
        },
        { kind: 'discount', label: 'discount', amount: 0 - minor(isInclusive ? order.discount_total : order.discount_subtotal) },
        { kind: 'tax', label: 'tax', amount: isInclusive ? 0 : minor(order.tax_total) },
      ],
      total: { text: order.total, amount: minor(order.total) },
      address: address ? toPlace(address) : null,
      billing: order.billing_address ? toPlace(order.billing_address) : null,
      status: statusOf(order),
      part: partOf(order),
      times: {
        pending: order.created_at,
        confirmed: payment_collections[0]?.completed_at,
        shipped: last('shipped_at'),
        delivered: last('delivered_at'),
        cancelled: order.canceled_at,
        returned: order.updated_at,
      },
      parcels: fulfillments.flatMap(({ labels = [] }) => labels.map(({ tracking_number: number }) => ({ number }))),
    },
    conversion,
  )
}

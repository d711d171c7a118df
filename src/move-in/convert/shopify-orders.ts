import type { OrderStatus } from '../../orders/order-status.ts'
import { type Decimal, toMinor } from './amounts.ts'
import { type Conversion, unmappable } from './conversion.ts'
import { addGuest, guestId, type ShopAddress, toHistory, toOrderLine } from './shop-orders.ts'
import { type ExpectedFile, readJsonRecords } from './shop-records.ts'

type Text = string | null
interface MoneySet {
  shopMoney: { amount: Decimal }
}
interface Customer {
  id: string
  firstName?: Text
  lastName?: Text
  email?: Text
  defaultEmailAddress?: { emailAddress?: Text } | null
  createdAt?: string
}
interface LineItem {
  sku?: Text
  name: string
  quantity: number
  originalUnitPriceSet?: MoneySet | null
}
interface Place {
  name?: Text
  company?: Text
  address1?: Text
  address2?: Text
  city?: Text
  province?: Text
  zip?: Text
  countryCodeV2?: Text
  phone?: Text
}
interface Order {
  id: string
  name: string
  createdAt: string
  processedAt?: Text
  updatedAt?: Text
  cancelledAt?: Text
  cancelReason?: Text
  displayFinancialStatus?: Text
  displayFulfillmentStatus?: Text
  currencyCode: string
  taxesIncluded?: boolean
  email?: Text
  note?: Text
  discountCodes?: string[]
  customer?: { id: string } | null
  shippingLine?: { title?: Text } | null
  totalPriceSet?: MoneySet | null
  totalShippingPriceSet?: MoneySet | null
  totalDiscountsSet?: MoneySet | null
  totalTaxSet?: MoneySet | null
  totalTipReceivedSet?: MoneySet | null
  shippingAddress?: Place | null
  billingAddress?: Place | null
  fulfillments?: { createdAt?: Text; deliveredAt?: Text; trackingInfo?: { company?: Text; number?: Text }[] }[]
  children: LineItem[]
}

/** The JSONL file of a bulk operation (https://shopify.dev/docs/api/usage/bulk-operations/queries). */
export const bulkOperation = (key: string, members: readonly string[]): ExpectedFile => ({
  ...{ key, members },
  expected: `the JSONL of a bulk operation on ${key} with the query in docs/operate/move-in.md`,
})
const CUSTOMERS = bulkOperation('customers', ['id', 'firstName'])
const ORDERS = bulkOperation('orders', ['id', 'name', 'currencyCode', 'totalPriceSet'])

export async function* withChildren<Parent extends { id: string; children: unknown[] }>(
  records: AsyncIterable<{ id: string; __parentId?: string }>,
): AsyncGenerator<Parent> {
  let parent: (Parent & { id: string }) | null = null
  for await (const record of records) {
    if (record.__parentId === undefined) {
      if (parent !== null) yield parent
      parent = { ...record, children: [] } as unknown as Parent
    } else if (record.__parentId === parent?.id) parent.children.push(record)
    else unmappable(`${record.id} is not behind its parent: run the bulk operation with groupObjects: true`)
  }
  if (parent !== null) yield parent
}

export async function* convertShopifyCustomers(file: string, conversion: Conversion): AsyncGenerator<string> {
  for await (const { id, firstName, lastName, email, defaultEmailAddress, createdAt } of readJsonRecords<Customer>(file, CUSTOMERS)) {
    const address = defaultEmailAddress?.emailAddress ?? email
    conversion.add(id, () => ({
      external_id: id,
      // A customer who is known only by phone cannot log in here.
      ...(address ? { email: address } : { guest: true }),
      name: `${firstName ?? ''} ${lastName ?? ''}`.trim() || null,
      created_at: createdAt,
    }))
    yield conversion.take()
  }
}

export async function* convertShopifyGuests(file: string, conversion: Conversion): AsyncGenerator<string> {
  const seen = new Set<string>()
  for await (const { id, customer, email, shippingAddress } of readOrders(file)) {
    if (!customer) addGuest(conversion, seen, { email, orderId: id, name: shippingAddress?.name ?? null })
    yield conversion.take()
  }
}

export async function* convertShopifyOrders(file: string, conversion: Conversion): AsyncGenerator<string> {
  for await (const order of readOrders(file)) {
    conversion.add(order.name, () => convertOrder(order, conversion))
    yield conversion.take()
  }
}

function readOrders(file: string): AsyncGenerator<Order> {
  return withChildren<Order>(readJsonRecords(file, ORDERS))
}

function statusOf({ cancelledAt, displayFinancialStatus: money, displayFulfillmentStatus: goods, fulfillments = [] }: Order): OrderStatus {
  const isFulfilled = goods === 'FULFILLED'
  if (cancelledAt || money === 'REFUNDED' || money === 'VOIDED') return isFulfilled ? 'returned' : 'cancelled'
  if (isFulfilled) return fulfillments.length > 0 && fulfillments.every(({ deliveredAt }) => deliveredAt) ? 'delivered' : 'shipped'
  return ['PAID', 'PARTIALLY_PAID', 'PARTIALLY_REFUNDED', 'AUTHORIZED'].includes(money ?? '') ? 'confirmed' : 'pending'
}

function toPlace({ name, company, address1: line1, address2: line2, city, province: region, ...place }: Place): ShopAddress {
  const { zip: postalCode, countryCodeV2: country, phone } = place
  return { name, company, line1, line2, city, region, postalCode, country, phone }
}

function convertOrder(order: Order, conversion: Conversion): object {
  const { id, currencyCode: currency, customer, email, shippingAddress: address, fulfillments = [], taxesIncluded, children } = order
  const amountOf = (set: MoneySet | null | undefined) => (set ? toMinor(set.shopMoney.amount, currency) : 0)
  const last = (member: 'createdAt' | 'deliveredAt') =>
    fulfillments
      .map((one) => one[member])
      .filter((time) => typeof time === 'string')
      .sort()
      .at(-1)
  const [tracking] = fulfillments.flatMap(({ trackingInfo = [] }) => trackingInfo)
  const ended = order.cancelledAt ?? order.updatedAt
  return toOrderLine(
    {
      id,
      number: order.name,
      customerId: customer?.id ?? guestId(email, id),
      currency,
      lines: children.map(({ sku, name, quantity, originalUnitPriceSet }) => ({
        ...{ sku, name, quantity },
        total: amountOf(originalUnitPriceSet) * quantity,
      })),
      charges: [
        { kind: 'shipping', label: order.shippingLine?.title, amount: amountOf(order.totalShippingPriceSet) },
        { kind: 'discount', label: order.discountCodes?.join(', '), amount: 0 - amountOf(order.totalDiscountsSet) },
        { kind: 'tax', label: 'tax', amount: taxesIncluded ? 0 : amountOf(order.totalTaxSet) },
        { kind: 'fee', label: 'tip', amount: amountOf(order.totalTipReceivedSet) },
      ],
      total: {
        text: order.totalPriceSet?.shopMoney.amount ?? unmappable('it has no totalPriceSet'),
        amount: amountOf(order.totalPriceSet),
      },
      address: address ? toPlace(address) : null,
      billing: order.billingAddress ? toPlace(order.billingAddress) : null,
      note: order.note,
      history: toHistory(
        statusOf(order),
        {
          pending: order.createdAt,
          confirmed: order.processedAt,
          shipped: last('createdAt'),
          delivered: last('deliveredAt'),
          cancelled: ended,
          returned: ended,
        },
        {
          shipped: tracking?.number ? { tracking: { carrier: tracking.company || '-', number: tracking.number } } : {},
          cancelled: order.cancelReason ? { reason: order.cancelReason } : {},
        },
      ),
    },
    conversion,
  )
}

import { type OrderStatus, ruleOf } from '../../orders/order-status.ts'
import { type Decimal, toMinor } from './amounts.ts'
import { type Conversion, unmappable, WrongFile } from './conversion.ts'
import { addGuest, guestId, type ShopAddress, toOrderLine } from './shop-orders.ts'
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
  children: unknown[]
}
interface LineItem {
  sku?: Text
  name: string
  quantity: number
  /** The units that are neither removed nor refunded. */
  currentQuantity?: number | null
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

/** The records of a bulk operation, each with the records behind it that name it as their parent. Throws WrongFile. */
export async function* readBulkOperation<Parent extends { id: string; children: unknown[] }>(
  file: string,
  expected: ExpectedFile,
): AsyncGenerator<Parent> {
  let parent: (Parent & { id: string }) | null = null
  for await (const record of readJsonRecords<{ id?: string; __parentId?: string }>(file, expected)) {
    if (record.__parentId === undefined) {
      if (parent !== null) yield parent
      parent = { ...record, children: [] } as unknown as Parent
    } else if (record.__parentId === parent?.id) parent.children.push(record)
    else
      throw new WrongFile(
        `${file}: ${record.id ?? 'a record'} is not behind its parent, ${record.__parentId}: run the bulk operation with groupObjects: true`,
      )
  }
  if (parent !== null) yield parent
}

export async function* convertShopifyCustomers(file: string, conversion: Conversion): AsyncGenerator<string> {
  for await (const { id, firstName, lastName, email, defaultEmailAddress, createdAt } of readBulkOperation<Customer>(file, CUSTOMERS)) {
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
  for await (const { id, customer, email, shippingAddress } of readBulkOperation<Order>(file, ORDERS)) {
    if (!customer) addGuest(conversion, seen, { email, orderId: id, name: shippingAddress?.name ?? null })
    yield conversion.take()
  }
}

export async function* convertShopifyOrders(file: string, conversion: Conversion): AsyncGenerator<string> {
  for await (const order of readBulkOperation<Order>(file, ORDERS)) {
    conversion.add(order.name, () => convertOrder(order, conversion))
    yield conversion.take()
  }
}

function statusOf({ cancelledAt, displayFinancialStatus: money, displayFulfillmentStatus: goods, fulfillments = [] }: Order): OrderStatus {
  const isFulfilled = goods === 'FULFILLED'
  if (cancelledAt || money === 'REFUNDED' || money === 'VOIDED') return isFulfilled ? 'returned' : 'cancelled'
  if (isFulfilled) return fulfillments.length > 0 && fulfillments.every(({ deliveredAt }) => deliveredAt) ? 'delivered' : 'shipped'
  return ['PAID', 'PARTIALLY_PAID', 'PARTIALLY_REFUNDED', 'AUTHORIZED'].includes(money ?? '') ? 'confirmed' : 'pending'
}

// https://shopify.dev/docs/api/admin-graphql/latest/enums/OrderDisplayFulfillmentStatus
const PARTS = new Map([
  ['PARTIALLY_FULFILLED', 'partly fulfilled'],
  ['IN_PROGRESS', 'being fulfilled'],
  ['PENDING_FULFILLMENT', 'being fulfilled'],
])

function partOf({ displayFulfillmentStatus, displayFinancialStatus, children }: Order, status: OrderStatus): string | null {
  const part = PARTS.get(displayFulfillmentStatus ?? '')
  if (part !== undefined) return part
  if (displayFinancialStatus === 'PARTIALLY_REFUNDED') return 'partly refunded'
  // The units of a cancelled order are all removed.
  if (ruleOf(status).phase === 'ended') return null
  return children.some(({ quantity, currentQuantity }) => (currentQuantity ?? quantity) < quantity) ? 'without some of its units' : null
}

/** Orders that were imported into Shopify were processed before they were created there. */
function placedAt({ createdAt, processedAt }: Order): string {
  return processedAt && new Date(processedAt) < new Date(createdAt) ? processedAt : createdAt
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
  const ended = order.cancelledAt ?? order.updatedAt
  const status = statusOf(order)
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
      status,
      part: partOf(order, status),
      times: {
        pending: placedAt(order),
        confirmed: order.processedAt,
        shipped: last('createdAt'),
        delivered: last('deliveredAt'),
        cancelled: ended,
        returned: ended,
      },
      cancelReason: order.cancelReason,
      parcels: fulfillments.flatMap(({ trackingInfo = [] }) => trackingInfo.map(({ company, number }) => ({ carrier: company, number }))),
    },
    conversion,
  )
}

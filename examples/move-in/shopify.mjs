// Shopify → Storefront. The exports are JSONL files of bulk operations of the GraphQL Admin API (https://shopify.dev/docs/api/usage/bulk-operations/queries):
// a line for each object, and the lines of an order behind it with `__parentId`. The queries are in docs/move-in.md. Shopify exports no passwords.
//
//   node shopify.mjs customers customers.jsonl > customers.ndjson
//   node shopify.mjs guests    orders.jsonl    > guests.ndjson
//   node shopify.mjs orders    orders.jsonl    > orders.ndjson
//   node shopify.mjs products  products.jsonl EUR > products.ndjson
import { convertAll, fail, guestId, readRecords, runCommand, toAddress, toAdjustments, toHistory, toLine, toMinor } from './shared.mjs'

const [, file, currencyOfShop] = process.argv.slice(2)

const bulk = (key, members) => ({
  ...{ key, members },
  expected: `the JSONL of a bulk operation on ${key} with the query in docs/move-in.md, and no CSV`,
})
const CUSTOMERS = bulk('customers', ['id', 'firstName'])
const ORDERS = bulk('orders', ['id', 'name', 'currencyCode', 'totalPriceSet'])
const PRODUCTS = bulk('products', ['id', 'title'])

/** Each parent with its children, in the order of the file. */
async function* withChildren(records) {
  let parent = null
  for await (const record of records) {
    if (record.__parentId === undefined) {
      if (parent !== null) yield parent
      parent = { ...record, children: [] }
    } else if (record.__parentId === parent?.id) parent.children.push(record)
    else fail(`${record.id} is not behind its parent`)
  }
  if (parent !== null) yield parent
}

function* convertCustomer({ id, firstName, lastName, email, defaultEmailAddress, createdAt }) {
  const name = `${firstName ?? ''} ${lastName ?? ''}`.trim()
  yield { external_id: id, email: defaultEmailAddress?.emailAddress ?? email, name: name || null, created_at: createdAt }
}

async function convertGuests() {
  const seen = new Set()
  await convertAll(withChildren(readRecords(file, ORDERS)), function* ({ customer, email }) {
    const id = guestId(email ?? fail('neither a customer nor an address'))
    if (customer || seen.has(id)) return
    seen.add(id)
    yield { external_id: id, email, guest: true }
  })
}

const amountOf = (set, currency) => (set ? toMinor(set.shopMoney.amount, currency) : 0)

function statusOf({ cancelledAt, displayFinancialStatus: money, displayFulfillmentStatus: goods, fulfillments = [] }) {
  const isFulfilled = goods === 'FULFILLED'
  if (cancelledAt || money === 'REFUNDED' || money === 'VOIDED') return isFulfilled ? 'returned' : 'cancelled'
  if (isFulfilled) return fulfillments.length > 0 && fulfillments.every(({ deliveredAt }) => deliveredAt) ? 'delivered' : 'shipped'
  return ['PAID', 'PARTIALLY_PAID', 'PARTIALLY_REFUNDED', 'AUTHORIZED'].includes(money) ? 'confirmed' : 'pending'
}

function* convertOrder(order) {
  const { currencyCode: currency, customer, email, shippingAddress: address, fulfillments = [], taxesIncluded, children } = order
  const last = (member) =>
    fulfillments
      .map((one) => one[member])
      .filter(Boolean)
      .sort()
      .at(-1)
  const [tracking] = fulfillments.flatMap(({ trackingInfo = [] }) => trackingInfo)
  const ended = order.cancelledAt ?? order.updatedAt
  yield {
    external_id: order.id,
    number: order.name,
    customer: { external_id: customer?.id ?? guestId(email ?? fail('neither a customer nor an address')) },
    currency,
    lines: children.map(({ sku, name, quantity, originalUnitPriceSet }) =>
      toLine({ sku, name, quantity, total: amountOf(originalUnitPriceSet, currency) * quantity }),
    ),
    adjustments: toAdjustments(
      { kind: 'shipping', label: order.shippingLine?.title, amount: amountOf(order.totalShippingPriceSet, currency) },
      { kind: 'discount', label: order.discountCodes?.join(', '), amount: -amountOf(order.totalDiscountsSet, currency) },
      { kind: 'tax', label: 'tax', amount: taxesIncluded ? 0 : amountOf(order.totalTaxSet, currency) },
      { kind: 'fee', label: 'tip', amount: amountOf(order.totalTipReceivedSet, currency) },
    ),
    total: amountOf(order.totalPriceSet, currency),
    shipping_address: address
      ? toAddress({
          ...{ name: address.name, line1: address.address1, line2: address.address2, city: address.city, region: address.province },
          ...{ postal_code: address.zip, country: address.countryCodeV2, phone: address.phone },
        })
      : null,
    note: order.note || null,
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
  }
}

/** Each variant is a product; the variants of one product are a group. */
function* convertProduct({ id, title, descriptionHtml = '', productType, children }) {
  for (const variant of children) {
    const options = Object.fromEntries((variant.selectedOptions ?? []).map(({ name, value }) => [name, value]))
    const isVariant = children.length > 1
    yield {
      sku: variant.sku || `shopify-${variant.id.split('/').at(-1)}`,
      name: title,
      description: descriptionHtml.replace(/<[^>]*>/g, ' ').trim(),
      category: productType || 'all',
      price: { amount: toMinor(variant.price, currencyOfShop), currency: currencyOfShop },
      ...(isVariant ? { group: id.split('/').at(-1), options } : {}),
      ...(variant.inventoryItem?.tracked === false ? {} : { stock: Math.max(0, variant.inventoryQuantity ?? 0) }),
    }
  }
}

await runCommand('shopify.mjs', {
  customers: { args: 'FILE', run: () => convertAll(readRecords(file, CUSTOMERS), convertCustomer) },
  guests: { args: 'FILE', run: convertGuests },
  orders: { args: 'FILE', run: () => convertAll(withChildren(readRecords(file, ORDERS)), convertOrder) },
  products: { args: 'FILE CURRENCY', run: () => convertAll(withChildren(readRecords(file, PRODUCTS)), convertProduct) },
})

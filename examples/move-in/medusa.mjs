// Medusa 2 → Storefront. The exports are answers of its Admin API (https://docs.medusajs.com/api/admin): pages of GET /admin/customers, and of
// GET /admin/orders with the fields in docs/move-in.md. Hashes are in its table provider_identity:
//   psql -Atc "select json_build_object('email', entity_id, 'password', provider_metadata ->> 'password') from provider_identity where provider = 'emailpass'"
//
//   node medusa.mjs customers customers.json [hashes.jsonl] > customers.ndjson
//   node medusa.mjs orders    orders.json                   > orders.ndjson
import { convertAll, fail, readRecords, runCommand, toAddress, toAdjustments, toHistory, toLine, toMinor } from './shared.mjs'

const [, file, extra] = process.argv.slice(2)

const CUSTOMERS = { key: 'customers', members: ['id', 'email', 'has_account'], expected: 'the pages of /admin/customers' }
const ORDERS = { key: 'orders', members: ['id', 'display_id', 'items', 'currency_code'], expected: 'the pages of /admin/orders' }
const HASHES = { key: 'identities', members: ['email', 'password'], expected: 'the answer of the psql command in docs/move-in.md' }

async function convertCustomers() {
  const hashes = new Map()
  if (extra) for await (const { email, password } of readRecords(extra, HASHES)) hashes.set(email.toLowerCase(), password)
  await convertAll(readRecords(file, CUSTOMERS), function* ({ id, email, first_name, last_name, created_at, has_account }) {
    const name = `${first_name ?? ''} ${last_name ?? ''}`.trim()
    const password = has_account ? (hashes.get(email.toLowerCase()) ?? null) : null
    yield { external_id: id, email, name: name || null, created_at, password, ...(has_account ? {} : { guest: true }) }
  })
}

function statusOf({ status, payment_status, fulfillment_status }) {
  if (status === 'draft') fail('a draft is no order')
  const isSent = fulfillment_status === 'shipped' || fulfillment_status === 'delivered'
  if (status === 'canceled') return 'cancelled'
  if (isSent) return payment_status === 'refunded' ? 'returned' : fulfillment_status
  if (payment_status === 'refunded' || payment_status === 'canceled') return 'cancelled'
  return ['captured', 'partially_captured', 'authorized', 'partially_refunded'].includes(payment_status) ? 'confirmed' : 'pending'
}

function* convertOrder(order) {
  const { items, shipping_methods = [], fulfillments = [], shipping_address: address, payment_collections = [] } = order
  const currency = order.currency_code.toUpperCase()
  // Medusa 2 has amounts in major units.
  const minor = (amount) => toMinor(amount ?? 0, currency)
  const isInclusive = items[0]?.is_tax_inclusive === true
  const last = (member) =>
    fulfillments
      .map((one) => one[member])
      .filter(Boolean)
      .sort()
      .at(-1)
  const [label] = fulfillments.flatMap(({ labels = [] }) => labels)
  yield {
    external_id: order.id,
    number: order.display_id,
    customer: { external_id: order.customer_id },
    currency,
    lines: items.map((item) =>
      toLine({
        sku: item.variant_sku,
        name: [item.product_title ?? item.title, item.variant_title].filter(Boolean).join(', '),
        quantity: item.quantity,
        total: minor(item.unit_price) * item.quantity,
      }),
    ),
    adjustments: toAdjustments(
      {
        kind: 'shipping',
        label: shipping_methods.map((method) => method.name).join(', '),
        amount: minor(isInclusive ? order.original_shipping_total : order.original_shipping_subtotal),
      },
      { kind: 'discount', label: 'discount', amount: -minor(isInclusive ? order.discount_total : order.discount_subtotal) },
      { kind: 'tax', label: 'tax', amount: isInclusive ? 0 : minor(order.tax_total) },
    ),
    total: minor(order.total),
    shipping_address: address
      ? toAddress({
          ...{ name: `${address.first_name ?? ''} ${address.last_name ?? ''}`, line1: address.address_1, line2: address.address_2 },
          ...{
            city: address.city,
            region: address.province,
            postal_code: address.postal_code,
            country: address.country_code,
            phone: address.phone,
          },
        })
      : null,
    history: toHistory(
      statusOf(order),
      {
        pending: order.created_at,
        confirmed: payment_collections[0]?.completed_at,
        shipped: last('shipped_at'),
        delivered: last('delivered_at'),
        cancelled: order.canceled_at,
        returned: order.updated_at,
      },
      { shipped: label?.tracking_number ? { tracking: { carrier: '-', number: label.tracking_number } } : {} },
    ),
  }
}

await runCommand('medusa.mjs', {
  customers: { args: 'FILE [HASHES]', run: convertCustomers },
  orders: { args: 'FILE', run: () => convertAll(readRecords(file, ORDERS), convertOrder) },
})

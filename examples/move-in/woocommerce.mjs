// WooCommerce → Storefront. The exports are answers of its REST API (https://woocommerce.github.io/woocommerce-rest-api-docs/): pages of
// GET /wp-json/wc/v3/customers, /orders and /products, one after the other in a file. Hashes: wp user list --fields=ID,user_pass --format=json
//
//   node woocommerce.mjs customers customers.json [hashes.json] > customers.ndjson
//   node woocommerce.mjs guests    orders.json                  > guests.ndjson
//   node woocommerce.mjs orders    orders.json                  > orders.ndjson
//   node woocommerce.mjs products  products.json EUR            > products.ndjson
import { convertAll, fail, guestId, readRecords, runCommand, toAddress, toAdjustments, toHistory, toLine, toMinor } from './shared.mjs'

const [, file, extra] = process.argv.slice(2)
const pages = (key, members) => ({ key, members, expected: `the pages of /wp-json/wc/v3/${key}` })
const CUSTOMERS = pages('customers', ['id', 'email', 'date_created_gmt'])
const ORDERS = pages('orders', ['id', 'number', 'line_items', 'billing'])
const PRODUCTS = pages('products', ['id', 'name', 'price'])
const HASHES = { key: 'users', members: ['ID', 'user_pass'], expected: 'the JSON of wp user list --fields=ID,user_pass --format=json' }
const nameOf = ({ first_name = '', last_name = '' }) => `${first_name} ${last_name}`.trim()

const ENTITIES = { '&amp;': '&', '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#039;': "'", '&#8217;': '’' }
const textOf = (html) => html.replace(/&(?:amp|lt|gt|quot|#039|#8217);/g, (entity) => ENTITIES[entity])

// https://woocommerce.com/document/managing-orders/order-statuses/
const STATUSES = {
  ...{ pending: 'pending', 'on-hold': 'pending', processing: 'confirmed', completed: 'delivered' },
  ...{ cancelled: 'cancelled', failed: 'cancelled', refunded: 'returned' },
}

async function convertCustomers() {
  const hashes = new Map()
  if (extra) for await (const { ID, user_pass } of readRecords(extra, HASHES)) hashes.set(Number(ID), user_pass)
  await convertAll(readRecords(file, CUSTOMERS), function* ({ id, email, date_created_gmt, ...person }) {
    yield {
      external_id: String(id),
      email,
      name: nameOf(person) || null,
      created_at: `${date_created_gmt}Z`,
      password: hashes.get(id) ?? null,
    }
  })
}

async function convertGuests() {
  const seen = new Set()
  await convertAll(readRecords(file, ORDERS), function* ({ customer_id, billing }) {
    const id = guestId(billing.email)
    if (customer_id !== 0 || seen.has(id)) return
    seen.add(id)
    yield { external_id: id, email: billing.email, name: nameOf(billing) || null, guest: true }
  })
}

function* convertOrder(order) {
  const { currency, line_items, shipping_lines = [], fee_lines = [], coupon_lines = [], billing, shipping } = order
  const minor = (amount) => toMinor(amount, currency)
  const sum = (lines, member) => lines.reduce((amount, line) => amount + minor(line[member]), 0)
  const { address_1, address_2, postcode, state, ...place } = shipping?.address_1 ? { phone: billing.phone, ...shipping } : billing
  const status = STATUSES[order.status] ?? fail(`status ${order.status} is no order`)
  yield {
    external_id: String(order.id),
    number: order.number,
    customer: { external_id: order.customer_id === 0 ? guestId(billing.email) : String(order.customer_id) },
    currency,
    // Amounts of lines are without tax; `subtotal` is before coupons, and `total` after them.
    lines: line_items.map(({ sku, name, quantity, subtotal }) => toLine({ sku, name, quantity, total: minor(subtotal) })),
    adjustments: toAdjustments(
      { kind: 'shipping', label: shipping_lines.map((line) => line.method_title).join(', '), amount: sum(shipping_lines, 'total') },
      { kind: 'fee', label: fee_lines.map((line) => line.name).join(', '), amount: sum(fee_lines, 'total') },
      {
        kind: 'discount',
        label: coupon_lines.map((line) => line.code).join(', '),
        amount: sum(line_items, 'total') - sum(line_items, 'subtotal'),
      },
      { kind: 'tax', label: 'tax', amount: minor(order.total_tax) },
    ),
    total: minor(order.total),
    shipping_address: toAddress({
      ...place,
      name: nameOf(place),
      line1: address_1,
      line2: address_2,
      postal_code: postcode,
      region: state,
    }),
    note: order.customer_note || null,
    history: toHistory(status, {
      pending: order.date_created_gmt,
      confirmed: order.date_paid_gmt,
      shipped: order.date_completed_gmt,
      delivered: order.date_completed_gmt,
      cancelled: order.date_modified_gmt,
      returned: order.date_modified_gmt,
    }),
  }
}

function* convertProduct({
  sku,
  name,
  description = '',
  categories = [],
  images = [],
  price,
  regular_price,
  manage_stock,
  stock_quantity,
  id,
}) {
  yield {
    sku: sku || `woocommerce-${id}`,
    name,
    description: description.replace(/<[^>]*>/g, ' ').trim(),
    // Names are HTML. A product shows no parents of its categories: make the tree before, and say slugs here, or arrange it afterwards.
    ...(categories.length === 0
      ? { category: 'all' }
      : { categories: categories.slice(0, 20).map((each) => [textOf(each.name ?? each.slug)]) }),
    images: images.slice(0, 20).flatMap(({ src, alt }) => (src ? [{ url: src, alt: textOf(alt ?? '').slice(0, 500) }] : [])),
    price: { amount: toMinor(price || regular_price || fail('no price'), extra), currency: extra },
    ...(manage_stock === true ? { stock: Math.max(0, stock_quantity ?? 0) } : {}),
  }
}

await runCommand('woocommerce.mjs', {
  customers: { args: 'FILE [HASHES]', run: convertCustomers },
  guests: { args: 'FILE', run: convertGuests },
  orders: { args: 'FILE', run: () => convertAll(readRecords(file, ORDERS), convertOrder) },
  products: { args: 'FILE CURRENCY', run: () => convertAll(readRecords(file, PRODUCTS), convertProduct) },
})

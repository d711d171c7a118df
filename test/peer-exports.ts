import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** A year of a shop as its platform exports it, and what must be in the store afterwards. */
export interface PeerExport {
  files: Record<string, string>
  /** Amounts in minor units, by currency and by our status. */
  expected: Record<string, { count: number; amount: number }>
  customers: number
}

/** The same numbers for the same seed (mulberry32). */
function seeded(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296) * below) | 0
  }
}

const YEAR = Date.UTC(2025, 0, 1)
const major = (amount: number) => (amount / 100).toFixed(2)

/**
 * Orders like a retailer's: one to forty lines, units by the dozen, most of them by few customers, and some by
 * guests.
 */
function makeOrders(seed: number, count: number, customers: number) {
  const random = seeded(seed)
  const products = Array.from({ length: 300 }, (_, index) => ({
    sku: `P-${index}`,
    name: `WHITE HANGING HEART ${index} "ä"`,
    price: 85 + random(4_000),
  }))
  return Array.from({ length: count }, (_, index) => {
    const at = YEAR + Math.floor((index * 364 * 86_400_000) / count) + random(3_600_000)
    const lines = Array.from({ length: 1 + random(random(2) === 0 ? 8 : 40) }, () => ({
      product: products[random(products.length)] as (typeof products)[number],
      quantity: 1 + random(24),
    }))
    const goods = lines.reduce((sum, { product, quantity }) => sum + product.price * quantity, 0)
    return {
      index,
      at,
      lines,
      goods,
      customer: random(10) === 0 ? null : random(customers),
      kind: random(10),
      shipping: random(3) * 295,
      discount: random(5) === 0 ? random(goods) : 0,
      tax: random(2) * random(900),
    }
  })
}

const iso = (at: number) => new Date(at).toISOString()
const add = (expected: PeerExport['expected'], group: string, amount: number) => {
  const { count, amount: before } = expected[group] ?? { count: 0, amount: 0 }
  expected[group] = { count: count + 1, amount: before + amount }
}

/** JSONL of Shopify's bulk operations. */
export function writeShopifyExport(folder: string, count: number): PeerExport {
  const expected: PeerExport['expected'] = {}
  const customers = 60
  const money = (amount: number) => ({ shopMoney: { amount: (amount / 100).toFixed(amount % 10 === 0 ? 1 : 2), currencyCode: 'GBP' } })
  const people = Array.from({ length: customers }, (_, id) => ({
    id: `gid://shopify/Customer/${9_000 + id}`,
    firstName: 'Ada',
    lastName: id % 7 === 0 ? null : `King ${id}`,
    defaultEmailAddress: { emailAddress: `Shopify-${id}@example.com` },
    createdAt: '2024-05-01T10:00:00Z',
    verifiedEmail: true,
    state: 'ENABLED',
  }))
  const guests = new Set<number>()
  const records = makeOrders(1, count, customers).flatMap((order) => {
    const { index, at, lines, goods, customer, kind, shipping, discount, tax } = order
    const total = goods + shipping - discount + tax
    const id = `gid://shopify/Order/${5_000_000 + index}`
    const isSent = kind >= 3
    const isOver = kind >= 5
    add(
      expected,
      `GBP ${kind === 0 ? 'pending' : kind === 1 ? 'cancelled' : kind === 2 ? 'confirmed' : kind === 9 ? 'returned' : isOver ? 'delivered' : 'shipped'}`,
      total,
    )
    if (customer === null) guests.add(index % 5)
    const delivered = isOver ? { deliveredAt: iso(at + 4 * 86_400_000) } : {}
    return [
      {
        id,
        name: `#${1001 + index}`,
        createdAt: iso(at),
        processedAt: iso(at + 60_000),
        updatedAt: iso(at + 9 * 86_400_000),
        cancelledAt: kind === 1 || kind === 9 ? iso(at + 8 * 86_400_000) : null,
        cancelReason: kind === 1 ? 'CUSTOMER' : null,
        displayFinancialStatus: kind === 0 ? 'PENDING' : kind === 9 ? 'REFUNDED' : 'PAID',
        displayFulfillmentStatus: isSent ? 'FULFILLED' : 'UNFULFILLED',
        currencyCode: 'GBP',
        taxesIncluded: false,
        customer: customer === null ? null : { id: people[customer]?.id },
        email: customer === null ? `Guest-${index % 5}@example.com` : people[customer]?.defaultEmailAddress.emailAddress,
        totalPriceSet: money(total),
        totalShippingPriceSet: money(shipping),
        totalDiscountsSet: money(discount),
        totalTaxSet: money(tax),
        discountCodes: discount > 0 ? ['SUMMER'] : [],
        shippingLine: { title: 'Royal Mail' },
        shippingAddress: {
          name: 'Ada King',
          address1: '1 Mill Lane',
          address2: null,
          city: 'Leeds',
          province: null,
          zip: index % 9 === 0 ? null : 'LS1 1AA',
          countryCodeV2: 'GB',
          phone: null,
        },
        note: index % 50 === 0 ? 'Leave at the door' : null,
        fulfillments: isSent
          ? [{ createdAt: iso(at + 86_400_000), ...delivered, trackingInfo: [{ company: 'Royal Mail', number: `RM${index}`, url: null }] }]
          : [],
      },
      ...lines.map(({ product, quantity }, line) => ({
        id: `gid://shopify/LineItem/${index}${line}`,
        sku: line % 11 === 0 ? null : product.sku,
        name: product.name,
        quantity,
        originalUnitPriceSet: money(product.price),
        __parentId: id,
      })),
    ]
  })
  const write = (name: string, lines: readonly object[]) => {
    const path = join(folder, name)
    writeFileSync(path, lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
    return path
  }
  const files = { customers: write('shopify-customers.jsonl', people), orders: write('shopify-orders.jsonl', records) }
  return { files, expected, customers: customers + guests.size }
}

/** Pages of WooCommerce's REST API, each a list on one line, and the hashes of `wp user list`. */
export function writeWooCommerceExport(folder: string, count: number, hashOf: (id: number) => string): PeerExport {
  const expected: PeerExport['expected'] = {}
  const customers = 50
  const gmt = (at: number) => iso(at).slice(0, 19)
  const people = Array.from({ length: customers }, (_, id) => ({
    id: id + 1,
    email: `woo-${id + 1}@example.com`,
    first_name: 'Grace',
    last_name: `H. ${id}`,
    date_created_gmt: '2023-01-02T03:04:05',
    role: 'customer',
  }))
  const statuses = [
    'pending',
    'on-hold',
    'processing',
    'completed',
    'completed',
    'completed',
    'completed',
    'cancelled',
    'failed',
    'refunded',
  ] as const
  const here = {
    pending: 'pending',
    'on-hold': 'pending',
    processing: 'confirmed',
    completed: 'delivered',
    cancelled: 'cancelled',
    failed: 'cancelled',
    refunded: 'returned',
  }
  const guests = new Set<number>()
  const orders = makeOrders(2, count, customers).map(({ index, at, lines, goods, customer, kind, shipping, discount, tax }) => {
    const status = statuses[kind] ?? 'completed'
    const total = goods + shipping - discount + tax
    add(expected, `GBP ${here[status]}`, total)
    if (customer === null) guests.add(index % 4)
    const billing = {
      first_name: 'Grace',
      last_name: 'Hopper',
      address_1: 'Street 1',
      address_2: '',
      city: 'York',
      state: '',
      postcode: 'YO1',
      country: 'GB',
      email: customer === null ? `visitor-${index % 4}@example.com` : (people[customer]?.email ?? ''),
      phone: '1',
    }
    return {
      id: 70_000 + index,
      number: String(200_000 + index),
      status,
      currency: 'GBP',
      date_created_gmt: gmt(at),
      date_modified_gmt: gmt(at + 6 * 86_400_000),
      date_paid_gmt: status === 'pending' ? null : gmt(at + 30_000),
      date_completed_gmt: status === 'completed' ? gmt(at + 3 * 86_400_000) : null,
      total: major(total),
      total_tax: major(tax),
      customer_id: customer === null ? 0 : customer + 1,
      customer_note: '',
      billing,
      shipping: { ...billing, email: undefined },
      line_items: lines.map(({ product, quantity }, line) => ({
        id: line,
        sku: product.sku,
        name: product.name,
        quantity,
        subtotal: major(product.price * quantity),
        total: major(product.price * quantity - (line === 0 ? Math.min(discount, 0) : 0)),
      })),
      shipping_lines: [{ method_title: 'Flat rate', total: major(shipping) }],
      fee_lines: discount === 0 ? [] : [{ name: 'Voucher', total: `-${major(discount)}` }],
      coupon_lines: [],
    }
  })
  const path = (name: string) => join(folder, name)
  writeFileSync(path('woo-customers.json'), JSON.stringify(people, null, 2))
  writeFileSync(path('woo-hashes.json'), JSON.stringify(people.map(({ id }) => ({ ID: String(id), user_pass: hashOf(id) }))))
  const pages = Array.from({ length: Math.ceil(orders.length / 100) }, (_, page) => orders.slice(page * 100, page * 100 + 100))
  writeFileSync(path('woo-orders.json'), pages.map((page) => `${JSON.stringify(page)}\n`).join(''))
  return {
    files: { customers: path('woo-customers.json'), hashes: path('woo-hashes.json'), orders: path('woo-orders.json') },
    expected,
    customers: customers + guests.size,
  }
}

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { convertExport } from '../../../test/convert-export.ts'
import { MEDUSA_ORDER } from '../../../test/medusa-export.ts'
import { readCustomer } from '../customer-line.ts'
import { type ImportedOrder, readOrder } from '../order-line.ts'

const now = new Date()

async function convert(t: TestContext, shop: string, what: string, records: readonly object[]) {
  const content = records.map((record) => `${JSON.stringify(record)}\n`).join('')
  const { text, reports, refused } = await convertExport(t, [shop, what], content, { now })
  return {
    ...{ reports, refused },
    lines: text
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line)),
  }
}

type Changes = Record<string, unknown> & { total?: string; currency?: string }
const item = (price: string, changes = {}) => ({ sku: 'A', name: 'Ham', quantity: 1, subtotal: price, total: price, ...changes })

const SHOPS: Record<
  string,
  (
    changes: Changes & {
      prices?: string[]
      quantity?: number
      email?: string
      number?: string
      note?: string
      tax?: string
      fee?: string
      name?: string
    },
  ) => object[]
> = {
  woocommerce: ({
    prices = ['12.50'],
    quantity = 1,
    total = '12.50',
    currency = 'EUR',
    email = '',
    number = '1001',
    note = '',
    tax = '0',
    fee,
    name = 'Ham',
  }) => [
    {
      ...{ id: 7, number, status: 'completed', currency, customer_id: 0, customer_note: note, total, total_tax: tax },
      ...{ date_created_gmt: '2025-01-01T10:00:00', date_modified_gmt: '2025-01-02T10:00:00', billing: { email, first_name: 'Ada' } },
      ...{ line_items: prices.map((price) => item(price, { quantity, name })), shipping_lines: [], coupon_lines: [] },
      fee_lines: fee === undefined ? [] : [{ name: 'Repair', total: fee }],
    },
  ],
  shopify: ({
    prices = ['12.50'],
    quantity = 1,
    total = '12.50',
    currency = 'EUR',
    email = '',
    number = '#1001',
    note = '',
    tax = '0',
    fee = '0',
    name = 'Ham',
  }) => {
    const money = (amount: string) => ({ shopMoney: { amount } })
    const id = 'gid://shopify/Order/7'
    return [
      {
        ...{
          id,
          name: number,
          createdAt: '2025-01-01T10:00:00Z',
          updatedAt: '2025-01-02T10:00:00Z',
          currencyCode: currency,
          taxesIncluded: false,
        },
        ...{ displayFinancialStatus: 'PAID', displayFulfillmentStatus: 'FULFILLED', customer: null, email: email || null, note },
        ...{ totalPriceSet: money(total), totalTaxSet: money(tax), totalTipReceivedSet: money(fee) },
      },
      ...prices.map((price, at) => ({
        ...item(price, { quantity, name }),
        id: `gid://shopify/LineItem/${at}`,
        originalUnitPriceSet: money(price),
        __parentId: id,
      })),
    ]
  },
  medusa: ({
    prices = ['12.50'],
    quantity = 1,
    total = '12.50',
    currency = 'EUR',
    number = '1001',
    tax = '0',
    fee = '0',
    name = 'Ham',
  }) => [
    {
      ...MEDUSA_ORDER,
      ...{
        display_id: Number(number),
        currency_code: currency,
        total: Number(total),
        tax_total: Number(tax),
        discount_total: 0,
        discount_subtotal: 0,
      },
      ...{ original_shipping_total: Number(fee), original_shipping_subtotal: Number(fee) },
      items: prices.map((price) => ({ product_title: name, quantity, unit_price: Number(price), is_tax_inclusive: false })),
    },
  ],
}

const sumOf = ({ lines, adjustments }: ImportedOrder) =>
  [...lines.map(({ unit_price, quantity }) => unit_price * quantity), ...adjustments.map(({ amount }) => amount)].reduce((a, b) => a + b, 0)

for (const [shop, make] of Object.entries(SHOPS)) {
  const read = async (t: TestContext, changes: Parameters<typeof make>[0]) => {
    const { lines, reports } = await convert(t, shop, 'orders', make(changes))
    return { reports, order: lines.length === 0 ? undefined : readOrder(lines[0], now), line: lines[0] }
  }

  test(`${shop}: reports a cent that rounding tax over the whole order leaves, and refuses more`, async (t) => {
    const { order } = await read(t, { prices: ['54.17', '41.67'], tax: '19.17', total: '115.00' })
    assert.ok(order !== undefined)
    assert.deepEqual([order.total, sumOf(order)], [11_500, 11_500])
    assert.deepEqual(order.adjustments.at(-1), { kind: 'discount', label: 'rounding', amount: -1 })
    await assert.rejects(read(t, { prices: ['54.17', '41.67'], tax: '19.17', total: '114.00' }), /add up to 11501/)
  })

  test(`${shop}: keeps amounts of currencies without and with three decimals, with the shop's own text beside them`, async (t) => {
    for (const [currency, text, amount] of [
      ['PYG', '150000', 150_000],
      ['UGX', '50000', 50_000],
      ['JPY', '1200', 1_200],
      ['KWD', '1.299', 1_299],
      ['EUR', '12.5', 1_250],
    ] as const) {
      const { order, line } = await read(t, { prices: [text], total: text, currency })
      assert.deepEqual([order?.total, line.source_total], [amount, text])
    }
  })

  test(`${shop}: refuses half a unit with its line`, async (t) => {
    const { order, reports } = await read(t, { quantity: 0.5, total: '6.25' })
    assert.equal(order, undefined)
    assert.match(reports.join(), /^refused: .*line 1 "Ham" has 0\.5 units/)
  })

  test(`${shop}: an order with only a fee has it as its line, and an empty order is refused`, async (t) => {
    const { order } = await read(t, { prices: [], fee: '30.00', total: '30.00' })
    assert.deepEqual(
      order?.lines.map(({ unit_price, quantity }) => [unit_price, quantity]),
      [[3_000, 1]],
    )
    const { reports } = await read(t, { prices: [], total: '0' })
    assert.match(reports.join(), /neither lines nor charges/)
  })

  test(`${shop}: names of lines become plain text`, async (t) => {
    const { order } = await read(t, { name: 'H&amp;M &#8211; Caf&eacute;<style>p{}</style>' })
    assert.equal(order?.lines[0]?.name, 'H&M – Café')
  })
}

for (const shop of ['woocommerce', 'shopify']) {
  const make = SHOPS[shop] ?? assert.fail()
  test(`${shop}: accepts numbers with other text, a long note, which is truncated, and a phone order without an address`, async (t) => {
    for (const number of ['#1002-A', 'INV-2025-1009', '1011-A']) {
      const { lines, reports } = await convert(t, shop, 'orders', make({ number, note: 'x'.repeat(1_200) }))
      const order = readOrder(lines[0], now)
      assert.deepEqual([order.number, order.reference, order.note?.length], [null, number, 1_000])
      assert.match(reports.join(), /its note is cut to 1000 characters/)
      const guests = await convert(t, shop, 'guests', make({ number }))
      const guest = readCustomer(guests.lines[0], now, false)
      assert.deepEqual([guest.isGuest, guest.externalId, guests.lines[0].email], [true, order.customer.externalId, undefined])
    }
  })
}

const WOO_PLACE = { first_name: 'Ada', last_name: 'King', address_1: 'Street 1', city: 'Graz', postcode: '8010', country: 'AT' }
const SHOPIFY_PLACE = { name: 'Ada King', address1: 'Street 1', city: 'Graz', zip: '8010', countryCodeV2: 'AT' }
const MEDUSA_PLACE = { first_name: 'Ada', last_name: 'King', address_1: 'Street 1', city: 'Graz', postal_code: '8010', country_code: 'at' }

for (const [shop, shipping, billing, place] of [
  ['woocommerce', 'shipping', 'billing', WOO_PLACE],
  ['shopify', 'shippingAddress', 'billingAddress', SHOPIFY_PLACE],
  ['medusa', 'shipping_address', 'billing_address', MEDUSA_PLACE],
] as const) {
  test(`${shop}: keeps a billing address with its company, and omits one that equals the shipping address`, async (t) => {
    const read = async (changes: object) => {
      const [order, ...lines] = SHOPS[shop]?.({}) ?? []
      const { lines: converted, reports } = await convert(t, shop, 'orders', [{ ...order, ...changes }, ...lines])
      return { reports, order: readOrder(converted[0], now) }
    }
    const other = await read({ [shipping]: place, [billing]: { ...place, company: 'Engines &amp; Söhne', city: 'Wien' } })
    assert.equal(other.order.shippingAddress?.company, undefined)
    const { company, city, country } = other.order.billingAddress ?? assert.fail()
    assert.deepEqual([company, city, country], ['Engines & Söhne', 'Wien', 'AT'])
    assert.equal((await read({ [shipping]: place, [billing]: place })).order.billingAddress, null)
    if (shop !== 'woocommerce') return
    const { order: called } = await read({ [shipping]: { ...place, phone: '' }, [billing]: { ...place, phone: '+43 1' } })
    assert.deepEqual([called.shippingAddress?.phone, called.billingAddress], ['+43 1', null], 'it asks for a phone with the billing only')
    const numberOf = (value: unknown) =>
      read({
        meta_data: [
          { key: 'x', value: {} },
          { key: '_billing_vat_number', value: ' ' },
          { key: '_vat_number', value: '' },
          { key: '_vat_number', value },
        ],
      })
    assert.equal((await numberOf('atu 123.456-78')).order.vatNumber, 'ATU12345678')
    assert.equal((await numberOf('GR 123456789')).order.vatNumber, 'EL123456789')
    const wrong = await numberOf('unknown')
    assert.deepEqual([wrong.order.vatNumber, wrong.reports.length], [null, 1])
    assert.doesNotMatch(wrong.reports.join(), /unknown/, 'a report has no personal data')
  })
}

const PARTS: readonly (readonly [shop: string, changes: object, goods: 'open' | 'sent', part: RegExp])[] = [
  ['shopify', { displayFulfillmentStatus: 'PARTIALLY_FULFILLED' }, 'open', /partly fulfilled/],
  ['shopify', { displayFulfillmentStatus: 'IN_PROGRESS' }, 'open', /being fulfilled/],
  ['shopify', { displayFulfillmentStatus: 'UNFULFILLED', displayFinancialStatus: 'PARTIALLY_REFUNDED' }, 'open', /partly refunded/],
  ['shopify', { displayFinancialStatus: 'PARTIALLY_REFUNDED' }, 'sent', /partly refunded/],
  ['shopify', { displayFulfillmentStatus: 'PARTIALLY_FULFILLED', cancelledAt: '2025-01-03T10:00:00Z' }, 'sent', /partly fulfilled/],
  ...['partially_fulfilled', 'fulfilled', 'partially_shipped', 'partially_delivered'].map(
    (status) => ['medusa', { fulfillment_status: status }, 'open', /partly|not marked as shipped/] as const,
  ),
  ['medusa', { fulfillment_status: 'not_fulfilled', payment_status: 'partially_refunded' }, 'open', /partly refunded/],
  ['medusa', { payment_status: 'partially_refunded' }, 'sent', /partly refunded/],
  ['woocommerce', { status: 'processing', refunds: [{ id: 1, total: '-5.00' }] }, 'open', /partly refunded/],
  ['woocommerce', { refunds: [{ id: 1, total: '-5.00' }] }, 'sent', /partly refunded/],
]
for (const [shop, changes, goods, part] of PARTS) {
  const outcome = goods === 'open' ? 'is refused, because it would be sent whole' : 'moves in as a whole, which is reported'
  test(`${shop}: an order of which only a part is over ${outcome}: ${JSON.stringify(changes)}`, async (t) => {
    const [order, ...items] = SHOPS[shop]?.({}) ?? []
    const { lines, reports, refused } = await convert(t, shop, 'orders', [{ ...order, ...changes }, ...items])
    assert.deepEqual([lines.length, refused, reports.length], goods === 'open' ? [0, 1, 1] : [1, 0, 1], reports.join())
    assert.match(reports.join(), part)
  })
}

test('shopify: an order without some of its units is refused, and a cancelled order is without all', async (t) => {
  const [order, item] = SHOPS['shopify']?.({ quantity: 2 }) ?? []
  const read = (changes: object, currentQuantity: number | null) =>
    convert(t, 'shopify', 'orders', [
      { ...order, displayFulfillmentStatus: 'UNFULFILLED', ...changes },
      { ...item, currentQuantity },
    ])
  assert.match((await read({}, 1)).reports.join(), /^refused: #1001: it is without some of its units/)
  assert.deepEqual((await read({}, 2)).reports, [])
  assert.deepEqual((await read({}, null)).reports, [])
  assert.deepEqual((await read({ cancelledAt: '2025-01-03T10:00:00Z' }, 0)).reports, [])
})

test('shopify: an order that Shopify had imported was placed when it was processed', async (t) => {
  const [order, ...items] = SHOPS['shopify']?.({}) ?? []
  for (const [processedAt, placed] of [
    ['2019-05-01T08:00:00Z', '2019-05-01T08:00:00.000Z'],
    ['2025-01-01T12:00:00+03:00', '2025-01-01T09:00:00.000Z'],
    ['2025-01-01T10:01:00Z', '2025-01-01T10:00:00.000Z'],
    [null, '2025-01-01T10:00:00.000Z'],
  ]) {
    const { lines } = await convert(t, 'shopify', 'orders', [{ ...order, processedAt }, ...items])
    assert.equal(readOrder(lines[0], now).history[0]?.at, placed)
  }
})

for (const [shop, make] of Object.entries(SHOPS)) {
  test(`${shop}: long texts are cut between characters`, async (t) => {
    const odd = (length: number) => `a${'🎁'.repeat(length)}`
    const place = { shopify: 'shippingAddress', woocommerce: 'shipping', medusa: 'shipping_address' }[shop] ?? assert.fail()
    const person = { shopify: SHOPIFY_PLACE, woocommerce: WOO_PLACE, medusa: MEDUSA_PLACE }[shop]
    const long = { name: odd(300), first_name: odd(300), city: odd(200), company: odd(300) }
    const [order, ...items] = make({ name: odd(600), total: '15.50', fee: '3.00' })
    const labels = {
      ...{ totalShippingPriceSet: { shopMoney: { amount: '3.00' } }, totalTipReceivedSet: null, shippingLine: { title: odd(300) } },
      ...{ shipping_methods: [{ name: odd(300) }], fee_lines: [{ name: odd(300), total: '3.00' }] },
    }
    const { lines } = await convert(t, shop, 'orders', [{ ...order, ...labels, [place]: { ...person, ...long } }, ...items])
    const read = readOrder(lines[0], now)
    const texts = [read.lines[0]?.name, read.adjustments[0]?.label, read.shippingAddress?.name, read.shippingAddress?.company]
    assert.deepEqual(
      [...texts, read.shippingAddress?.city].map((text) => [text?.isWellFormed(), [...(text ?? '')].length]),
      [500, 200, 200, 200, 100].map((length) => [true, length]),
    )
  })
}

test('shopify and medusa: the tracking number of the first parcel that has one is kept, and further ones are reported', async (t) => {
  const [order, ...items] = SHOPS['shopify']?.({}) ?? []
  const at = { createdAt: '2025-01-02T10:00:00Z' }
  const parcels = [[], [{ company: 'Post', number: null }], [{ company: 'Post', number: 'P-1' }], [{ company: 'DHL', number: 'D-2' }]]
  const fulfillments = parcels.map((trackingInfo) => ({ ...at, trackingInfo }))
  const shopify = await convert(t, 'shopify', 'orders', [{ ...order, fulfillments }, ...items])
  const labels = [{ tracking_number: '' }, { tracking_number: 'P-1' }, { tracking_number: 'P-1' }, { tracking_number: 'D-2' }]
  const medusa = await convert(t, 'medusa', 'orders', [{ ...MEDUSA_ORDER, fulfillments: [{ labels }] }])
  for (const [{ lines, reports }, carrier] of [
    [shopify, 'Post'],
    [medusa, '-'],
  ] as const) {
    assert.deepEqual(readOrder(lines[0], now).history[2]?.tracking, { carrier, number: 'P-1' })
    assert.match(reports.join(), /it keeps the first of 2 tracking numbers$/)
  }
})

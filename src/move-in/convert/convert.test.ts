import assert from 'node:assert/strict'
import { test } from 'node:test'
import { productsOf } from '../../../test/convert-products.ts'
import { magentoCsv, medusaProduct, shopifyCsv, shopifyJsonl, wooCsv, wooProduct } from '../../../test/sample-exports.ts'

const [jsonShops, csvShops] = [
  { shopify: shopifyJsonl, woocommerce: wooProduct, medusa: medusaProduct },
  { shopify: shopifyCsv, woocommerce: wooCsv, magento: magentoCsv },
]
type Make = (changes: Record<string, unknown>) => string
const formats: [shop: string, format: string, make: Make][] = [
  ...Object.entries(jsonShops).map(([shop, make]) => [shop, 'JSON', make] as [string, string, Make]),
  ...Object.entries(csvShops).map(([shop, make]) => [shop, 'CSV', make] as [string, string, Make]),
]
const each = (shop: string, format: string) => `${shop} ${format}`

for (const [shop, format, make] of formats) {
  test(`${each(shop, format)}: keeps texts, images, address, brand and prices, decodes entities, and drops styles`, async (t) => {
    const { products, reports } = await productsOf(t, shop, make({}), { imagesBelow: 'https://images.example/media' })
    assert.deepEqual(reports, [])
    const [product] = products
    assert.ok(product !== undefined && products.length === 1)
    assert.deepEqual(
      [product.sku, product.name, product.price, product.stock],
      ['MUG-1', 'H&M – Café', { amount: 850, currency: 'EUR' }, 3],
    )
    assert.equal(product.description, 'A & B C\nmore')
    assert.deepEqual(
      product.images.map(({ url }) => url),
      ['https://images.example/media/mug.jpg'],
    )
    if (shop !== 'medusa') assert.deepEqual(product.compare_at_price, { amount: 1_000, currency: 'EUR' })
    if (shop !== 'medusa') assert.equal(product.brand, 'Potter & Sons')
    // WooCommerce's exporter omits the slug.
    assert.equal(product.slug, each(shop, format) === 'woocommerce CSV' ? undefined : 'mug')
  })

  test(`${each(shop, format)}: keeps a price of a currency without decimals and its own text`, async (t) => {
    const { products } = await productsOf(t, shop, make({ price: '150000', before: '' }), {
      currency: 'PYG',
      imagesBelow: 'https://images.example/media',
    })
    assert.deepEqual([products[0]?.price, products[0]?.source_price], [{ amount: 150_000, currency: 'PYG' }, '150000'])
  })
}

const NOT_SOLD: readonly (readonly [shop: string, format: string, change: Record<string, unknown>, reason: RegExp])[] = [
  ...['ARCHIVED', 'UNLISTED'].map((status) => ['shopify', 'JSON', { status }, new RegExp(status, 'i')] as const),
  ['shopify', 'CSV', { status: 'archived' }, /archived/],
  ...['trash', 'auto-draft'].map((status) => ['woocommerce', 'JSON', { status }, /its status is/] as const),
  ['woocommerce', 'JSON', { type: 'external' }, /external/],
  ['woocommerce', 'JSON', { type: 'grouped' }, /grouped/],
  ['woocommerce', 'JSON', { catalog_visibility: 'hidden' }, /hidden/],
  ['woocommerce', 'JSON', { post_password: 'x' }, /password/],
  ['woocommerce', 'JSON', { purchasable: false }, /cannot be bought/],
  ['woocommerce', 'JSON', { price: '' }, /no price/],
  ['woocommerce', 'CSV', { type: 'external' }, /external/],
  ['woocommerce', 'CSV', { visibility: 'hidden' }, /hidden/],
  ['medusa', 'JSON', { status: 'rejected' }, /its status/],
  ['medusa', 'JSON', { currency: 'usd' }, /no price/],
  ['magento', 'CSV', { visibility: 'Not Visible Individually' }, /not visible/],
  ['magento', 'CSV', { type: 'grouped' }, /grouped/],
]
for (const [shop, format, change, reason] of NOT_SOLD) {
  test(`${each(shop, format)}: with ${JSON.stringify(change)} nothing is for sale, which is reported`, async (t) => {
    const make = formats.find(([name, kind]) => name === shop && kind === format)?.[2] ?? assert.fail()
    const { products, reports, leftOut, refused } = await productsOf(t, shop, make(change))
    assert.deepEqual([products.length, leftOut, refused], [0, 1, 0], reports.join())
    assert.match(reports.join(), reason)
    assert.match(reports.join(), /^left out: MUG-1 /)
  })
}

const WITHHELD: readonly (readonly [shop: string, format: string, change: Record<string, unknown>, reason: RegExp])[] = [
  ['shopify', 'JSON', { status: 'DRAFT' }, /draft/],
  ['shopify', 'JSON', { publishedAt: null }, /not published/],
  ['shopify', 'CSV', { status: 'draft' }, /draft/],
  ['shopify', 'CSV', { published: 'false' }, /not published/],
  ...['draft', 'pending', 'private', 'future'].map(
    (status) => ['woocommerce', 'JSON', { status, purchasable: false }, /its status is|published later/] as const,
  ),
  ['woocommerce', 'CSV', { published: '0' }, /private/],
  ['woocommerce', 'CSV', { published: '-1' }, /draft/],
  ...['draft', 'proposed'].map((status) => ['medusa', 'JSON', { status }, /its status/] as const),
  ['magento', 'CSV', { online: '2' }, /disabled/],
]
for (const [shop, format, change, reason] of WITHHELD) {
  test(`${each(shop, format)}: with ${JSON.stringify(change)} it becomes a draft, which is reported`, async (t) => {
    const make = formats.find(([name, kind]) => name === shop && kind === format)?.[2] ?? assert.fail()
    const { products, reports, leftOut, refused } = await productsOf(t, shop, make(change), { imagesBelow: 'https://images.example/media' })
    assert.deepEqual([products.map(({ status }) => status), leftOut, refused], [['draft'], 0, 0], reports.join())
    assert.match(reports.join(), reason)
  })
}

test('a product that Shopify will publish later is published here at that time', async (t) => {
  const { products } = await productsOf(t, 'shopify', shopifyJsonl({ publishedAt: '2027-01-01T00:00:00Z' }))
  assert.deepEqual([products[0]?.status, products[0]?.published_at], ['active', '2027-01-01T00:00:00.000Z'])
})

test('the next file publishes a draft that was published meanwhile', async (t) => {
  for (const [shop, , make] of formats) {
    const { products } = await productsOf(t, shop, make({}), { imagesBelow: 'https://images.example/media' })
    assert.deepEqual([products[0]?.status, products[0]?.published_at], ['active', null], shop)
  }
})

const SALES: readonly [
  starts: string,
  ends: string,
  price: number,
  before: number | null,
  sale: readonly [string | null, string | null] | 'empty' | null,
][] = [
  ['', '', 850, 1_000, null],
  ['2026-03-01', '', 850, 1_000, null],
  ['2026-02-27', '2026-03-01', 1_000, null, ['2026-02-27T00:00:00.000Z', '2026-03-02T00:00:00.000Z']],
  ['', '2026-03-05', 1_000, null, [null, '2026-03-06T00:00:00.000Z']],
  ['2026-03-02', '', 1_000, null, ['2026-03-02T00:00:00.000Z', null]],
  ['2026-02-01', '2026-02-28', 1_000, null, null],
  ['2026-02-27', '9999-12-31', 850, 1_000, null],
  ['', '2999-12-31', 850, 1_000, null],
  ['2026-03-02', '9999-12-31', 1_000, null, ['2026-03-02T00:00:00.000Z', null]],
  ['2026-03-09', '2026-03-05', 1_000, null, 'empty'],
  ['9999-12-31', '', 1_000, null, 'empty'],
]
for (const [shop, format, write] of [
  ['woocommerce', 'CSV', (starts, ends) => wooCsv({ starts, ends })],
  ['magento', 'CSV', (starts, ends) => magentoCsv({ starts: starts && `${starts} 00:00:00`, ends: ends && `${ends} 00:00:00` })],
  [
    'woocommerce',
    'JSON',
    (starts, ends) =>
      wooProduct({
        // The answer of a shop whose clock equals the test's.
        on_sale: (starts === '' || starts <= '2026-03-01') && (ends === '' || ends >= '2026-03-01'),
        ...(ends === '2026-02-28' || starts === '2026-03-02' ? { price: '10.00', sale_price: '8.50' } : {}),
        date_on_sale_from_gmt: starts && `${starts}T00:00:00`,
        date_on_sale_to_gmt: ends && `${ends}T23:59:59`,
      }),
  ],
] as [shop: string, format: string, write: (starts: string, ends: string) => string][]) {
  test(`${each(shop, format)}: a sale with times keeps them, and one without an end becomes the price`, async (t) => {
    for (const [starts, ends, price, before, sale] of SALES) {
      const { products, reports } = await productsOf(t, shop, write(starts, ends), { imagesBelow: 'https://images.example/media' })
      assert.deepEqual(
        reports.map((report) => /its sale is left out/.test(JSON.stringify(report))),
        sale === 'empty' ? [true] : [],
      )
      const sales = sale === null || sale === 'empty' ? [] : [{ amount: 850, currency: 'EUR', from: sale[0], until: sale[1] }]
      assert.deepEqual(
        products.map((product) => [product.price.amount, product.compare_at_price?.amount ?? null, product.sale_prices]),
        [[price, before, sales]],
        `${starts} ${ends}`,
      )
    }
  })
}

const REFUSED: readonly [shop: string, format: string, change: Record<string, unknown>, reason: RegExp][] = [
  ['shopify', 'JSON', { isGiftCard: true }, /gift cards/],
  ['shopify', 'JSON', { requiresSellingPlan: true }, /subscriptions/],
  ['shopify', 'JSON', { quantity: null }, /no whole quantity/],
  ['shopify', 'JSON', { price: '8.505' }, /8\.505 EUR has more than 2 decimals/],
  ['shopify', 'CSV', { quantity: '' }, /no whole quantity/],
  ['shopify', 'CSV', { price: '1,299' }, /thousands or decimals\?/],
  ['woocommerce', 'JSON', { type: 'subscription' }, /type subscription cannot be sold here/],
  ['woocommerce', 'JSON', { type: 'bundle' }, /type bundle/],
  ['woocommerce', 'JSON', { manage_stock: false, stock_status: 'unknown' }, /stock_status is unknown/],
  ['woocommerce', 'JSON', { type: 'variable', variations: [71] }, /it is not in the file of --variations/],
  ['woocommerce', 'CSV', { type: 'booking' }, /type booking/],
  ['medusa', 'JSON', { is_giftcard: true }, /gift cards/],
  ['medusa', 'JSON', { quantity: null }, /no inventory_quantity/],
  ['magento', 'CSV', { type: 'bundle' }, /type bundle/],
  ['magento', 'CSV', { type: 'giftcard' }, /type giftcard/],
  ['magento', 'CSV', { qty: '1.500' }, /no clear whole number/],
  ['magento', 'CSV', { qty: '2.5' }, /no clear whole number/],
  ['woocommerce', 'CSV', { stock: '1.000' }, /no clear whole number/],
  ['woocommerce', 'CSV', { stock: '2.5' }, /no clear whole number/],
  ['woocommerce', 'CSV', { starts: '12/01/2027' }, /12\/01\/2027/],
  ['woocommerce', 'CSV', { starts: '2026-13-45' }, /2026-13-45/],
  ['woocommerce', 'CSV', { starts: '2026-02-30' }, /2026-02-30/],
  ['magento', 'CSV', { price: '1.290', before: '' }, /1\.290 can mean thousands/],
]
for (const [shop, format, change, reason] of REFUSED) {
  test(`${each(shop, format)}: refuses by name what cannot be mapped: ${JSON.stringify(change)}`, async (t) => {
    const make = formats.find(([name, kind]) => name === shop && kind === format)?.[2] ?? assert.fail()
    const { products, reports, leftOut, refused } = await productsOf(t, shop, make(change))
    assert.deepEqual([products.length, leftOut, refused], [0, 0, 1], reports.join())
    assert.match(reports.join(), reason)
  })
}

const STOCK: readonly [shop: string, format: string, change: Record<string, unknown>, stock: number | null][] = [
  ['shopify', 'JSON', { quantity: -2 }, 0],
  ['shopify', 'JSON', { policy: 'CONTINUE' }, null],
  ['shopify', 'JSON', { tracked: false, quantity: null }, null],
  ['shopify', 'CSV', { quantity: '-2' }, 0],
  ['shopify', 'CSV', { policy: 'continue' }, null],
  ['shopify', 'CSV', { tracker: '', quantity: '' }, null],
  ['woocommerce', 'JSON', { manage_stock: false, stock_quantity: null, stock_status: 'outofstock' }, 0],
  ['woocommerce', 'JSON', { manage_stock: false, stock_quantity: null, stock_status: 'instock' }, null],
  ['woocommerce', 'JSON', { manage_stock: false, stock_quantity: null, stock_status: 'onbackorder' }, null],
  ['woocommerce', 'JSON', { backorders: 'notify', stock_quantity: -3 }, null],
  ['woocommerce', 'JSON', { stock_quantity: null }, 0],
  ['woocommerce', 'JSON', { stock_quantity: -3 }, 0],
  ['woocommerce', 'CSV', { stock: '', inStock: '0' }, 0],
  ['woocommerce', 'CSV', { stock: '', inStock: '1' }, null],
  ['woocommerce', 'CSV', { stock: '', inStock: 'backorder' }, null],
  ['woocommerce', 'CSV', { backorders: '1' }, null],
  ['medusa', 'JSON', { manage_inventory: false, quantity: null }, null],
  ['medusa', 'JSON', { allow_backorder: true }, null],
  ['medusa', 'JSON', { quantity: 0 }, 0],
  ['magento', 'CSV', { inStock: '0', qty: '7' }, 0],
  ['magento', 'CSV', { qty: '7.0000' }, 7],
  ['magento', 'CSV', { manageStock: '0' }, null],
  ['magento', 'CSV', { backorders: '1' }, null],
]
for (const [shop, format, change, stock] of STOCK) {
  test(`${each(shop, format)}: the stock with ${JSON.stringify(change)} is ${stock ?? 'not tracked'}`, async (t) => {
    const make = formats.find(([name, kind]) => name === shop && kind === format)?.[2] ?? assert.fail()
    const { products, reports } = await productsOf(t, shop, make(change))
    assert.equal(products[0]?.stock, stock, reports.join())
  })
}

test('variable products become variants of one group, without those that are not for sale', async (t) => {
  const variation = (id: number, size: string, changes = {}) => ({
    ...{ id, sku: `SHIRT-${size}`, price: '20.00', regular_price: '20.00', status: 'publish', stock_status: 'instock', manage_stock: true },
    ...{
      stock_quantity: id - 70,
      attributes: [{ name: 'Size', option: size }],
      image: { src: `https://i.example/${size}.jpg` },
      ...changes,
    },
  })
  const variations = [
    variation(71, 'S'),
    variation(72, 'M'),
    variation(73, 'L', { status: 'trash' }),
    variation(74, '', { sku: 'SHIRT-ANY' }),
  ]
  const parent = wooProduct({ type: 'variable', variations: [71, 72, 73, 74], attributes: [{ name: 'Size', variation: true }] })
  const { products, reports } = await productsOf(t, 'woocommerce', parent, { variationText: JSON.stringify(variations) })
  assert.deepEqual(
    products.map(({ sku, group, options, stock, slug, images }) => [sku, group, options, stock, slug, images[0]?.url]),
    [
      ['SHIRT-S', 'mug', { Size: 'S' }, 1, 'mug', 'https://i.example/S.jpg'],
      ['SHIRT-M', 'mug', { Size: 'M' }, 2, undefined, 'https://i.example/M.jpg'],
    ],
  )
  assert.match(reports[0] ?? '', /^left out: SHIRT-L .*trash/)
  assert.match(reports[1] ?? '', /^refused: SHIRT-ANY .*any Size/)
  const shared = variations.slice(0, 2).map((one) => ({ ...one, manage_stock: 'parent' }))
  const refused = await productsOf(t, 'woocommerce', parent.replace('[71,72,73,74]', '[71,72]'), { variationText: JSON.stringify(shared) })
  assert.deepEqual([refused.products, refused.refused], [[], 2])
  assert.match(refused.reports[0] ?? '', /share one stock/)
})

test("variants in each shop's CSV become a group too", async (t) => {
  const csv = { shopify: shopifyCsv({ sizes: true }), woocommerce: wooCsv({ sizes: true }), magento: magentoCsv({ sizes: true }) }
  for (const [shop, text] of Object.entries(csv)) {
    const { products, reports } = await productsOf(t, shop, text, { imagesBelow: 'https://images.example/media' })
    assert.deepEqual(reports, [], shop)
    assert.deepEqual(
      products.map(({ sku, options, stock }) => [sku, options, stock]),
      [
        ['MUG-S', { Size: 'S' }, 1],
        ['MUG-M', { Size: 'M' }, 2],
      ],
      shop,
    )
    assert.equal(new Set(products.map(({ group }) => group)).size, 1)
  }
})

test('reads CSV exports as spreadsheets save them', async (t) => {
  for (const text of [`\ufeff${shopifyCsv({})}`, shopifyCsv({ price: '8,50', before: '10,00' }, ';'), shopifyCsv({}, '\t')]) {
    const { products, reports } = await productsOf(t, 'shopify', text)
    assert.deepEqual([products[0]?.price.amount, products[0]?.compare_at_price?.amount, reports], [850, 1_000, []])
  }
})

test('truncates and reports a description that is longer than the store allows', async (t) => {
  const { products, reports } = await productsOf(t, 'shopify', shopifyJsonl({ descriptionHtml: `<p>${'x'.repeat(70_000)}</p>` }))
  assert.equal(products[0]?.description.length, 65_536)
  assert.match(reports.join(), /description is cut to 65536/)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { convertExport } from '../../../test/convert-export.ts'
import { NOW, productsOf } from '../../../test/convert-products.ts'
import { MEDUSA_CUSTOMERS, MEDUSA_ORDER } from '../../../test/medusa-export.ts'
import { magentoCsv, medusaProduct, shopifyCsv, shopifyJsonl, wooCsv, wooProduct } from '../../../test/sample-exports.ts'
import { WrongFile } from './conversion.ts'

const imagesBelow = 'https://images.example/media'
const medusaVariant = (changes: object) => ({ id: 'variant_1', sku: 'MUG-1', inventory_quantity: 3, prices: [], options: [], ...changes })
const eur = (amount: number, changes = {}) => ({ amount, currency_code: 'eur', min_quantity: null, rules: {}, ...changes })

test('the price of a product of Medusa is the one for every customer, and without such a price it is refused', async (t) => {
  const read = (...prices: object[]) => productsOf(t, 'medusa', medusaProduct({ variants: [medusaVariant({ prices })] }))
  const special = [
    { rules: { region_id: 'reg_1' } },
    { rules: [{ attribute: 'region_id', value: 'reg_1' }] },
    { price_list_id: 'plist_1' },
    { min_quantity: 10 },
  ]
  for (const rules of special) {
    const { products, reports } = await read(eur(8, rules), eur(10))
    assert.deepEqual([products[0]?.price.amount, reports], [1_000, []], JSON.stringify(rules))
    const alone = await read(eur(8, rules))
    assert.deepEqual([alone.products.length, alone.refused], [0, 1])
    assert.match(alone.reports.join(), /its prices in EUR are all for a region/)
  }
  assert.match((await read(eur(8), eur(10))).reports.join(), /^refused: .*several prices in EUR: 8, 10/)
  assert.equal((await read(eur(10, { rules: [] }), eur(10, { rules: null }))).products[0]?.price.amount, 1_000)
})

const from = { date_on_sale_from_gmt: '2026-01-01T00:00:00' }
const NO_SALES: [shop: string, format: string, make: (price: string) => string][] = [
  ['magento', 'CSV', (price) => magentoCsv({ price, before: '10' })],
  ['magento', 'CSV with a beginning', (price) => magentoCsv({ price, before: '10', starts: '2026-01-01 00:00:00' })],
  ['magento', 'CSV with an end', (price) => magentoCsv({ price, before: '10', ends: '2026-04-01 00:00:00' })],
  ['woocommerce', 'CSV', (price) => wooCsv({ price, before: '10' })],
  ['woocommerce', 'CSV with an end', (price) => wooCsv({ price, before: '10', ends: '2026-04-01' })],
  ['woocommerce', 'JSON', (price) => wooProduct({ price: '10.00', before: '10.00', sale_price: price, on_sale: false, ...from })],
  [
    'woocommerce',
    'JSON without a regular price',
    (price) => wooProduct({ price: '10', before: '', sale_price: price, regular_price: '', ...from }),
  ],
  ['woocommerce', 'JSON without times', (price) => wooProduct({ price: '10.00', before: '10.00', sale_price: price, on_sale: false })],
  ['shopify', 'JSON', (price) => shopifyJsonl({ price: '10.00', before: price === '20' ? '8.00' : '10.00' })],
]
for (const [shop, format, make] of NO_SALES) {
  test(`${shop} ${format}: a sale that is not below the regular price is none`, async (t) => {
    for (const price of ['10', '20']) {
      const { products } = await productsOf(t, shop, make(price), { imagesBelow })
      const [product] = products
      assert.deepEqual([product?.price.amount, product?.compare_at_price, product?.sale_prices], [1_000, null, []])
    }
  })
}

test('woocommerce CSV: a sale price without a regular price sells nothing, as in WooCommerce', async (t) => {
  const { reports, leftOut } = await productsOf(t, 'woocommerce', wooCsv({ price: '20', before: '10' }).replaceAll('"10"', '""'))
  assert.deepEqual([leftOut, reports.length], [1, 1])
})

test('woocommerce: refuses each variation whose product is not in the file', async (t) => {
  const orphans = await productsOf(t, 'woocommerce', wooCsv({ sizes: true }).replaceAll('id:60', 'id:99'))
  assert.deepEqual([orphans.products, orphans.refused], [[], 3])
  assert.match(orphans.reports.join('\n'), /^refused: MUG-S .*: its variable product is not in the file$/m)
  assert.match(orphans.reports.join('\n'), /^refused: MUG-M /m)
  const variation = { id: 71, sku: 'SHIRT-S', price: '20.00', status: 'publish', stock_status: 'instock', attributes: [] }
  const rest = await productsOf(t, 'woocommerce', wooProduct({}), { variationText: JSON.stringify([variation]) })
  assert.deepEqual([rest.products.length, rest.refused], [1, 1])
  assert.match(rest.reports.join(), /^refused: SHIRT-S: its variable product is not in the file/)
})

test('woocommerce CSV: refuses an unclear ID, and an ID that another row has', async (t) => {
  for (const [id, reason] of [
    ['1,061', /its ID, "1,061", is no clear whole number/],
    ['', /its ID, "", is no clear/],
    ['62', /^refused: MUG-M .*line 4 has the ID 62 again/],
  ] as const) {
    const { products, reports, refused } = await productsOf(t, 'woocommerce', wooCsv({ sizes: true }).replace('"61"', `"${id}"`))
    assert.deepEqual([products.length, refused], [1, 1])
    assert.match(reports.join(), reason)
  }
})

const restError = JSON.stringify({ code: 'rest_error', message: 'No route', data: { status: 500 } })
const medusaError = JSON.stringify({ type: 'unknown_error', message: 'An unknown error occurred.' })
const shopifyOrder = { id: 'gid://shopify/Order/1', name: '#1', currencyCode: 'EUR', totalPriceSet: null }
const ERRORS: [shop: string, what: string, page: string, error: string][] = [
  ['woocommerce', 'products', wooProduct({}), restError],
  ['woocommerce', 'customers', JSON.stringify([{ id: 1, email: '', date_created_gmt: null }]), restError],
  ['woocommerce', 'orders', JSON.stringify([{ id: 1, number: '1', line_items: [], billing: {}, status: 'trash' }]), restError],
  ['woocommerce', 'guests', JSON.stringify([{ id: 1, number: '1', line_items: [], billing: {}, status: 'trash' }]), restError],
  ['medusa', 'products', medusaProduct({}), medusaError],
  ['medusa', 'customers', JSON.stringify(MEDUSA_CUSTOMERS), medusaError],
  ['medusa', 'orders', JSON.stringify({ orders: [MEDUSA_ORDER] }), medusaError],
  ['shopify', 'products', shopifyJsonl({}), JSON.stringify({ errors: 'Throttled' })],
  ['shopify', 'customers', JSON.stringify({ id: 'gid://shopify/Customer/1', firstName: null }), JSON.stringify({ errors: 'Throttled' })],
  ['shopify', 'orders', JSON.stringify(shopifyOrder), JSON.stringify({ errors: 'Throttled' })],
]
for (const [shop, what, page, error] of ERRORS) {
  test(`${shop} ${what}: an error page, null and a broken line end the conversion with their place`, async (t) => {
    const read = (...pages: string[]) => convertExport(t, [shop, what], pages.map((each) => `${each.trim()}\n`).join(''), { now: NOW })
    const lines = page.trim().split('\n').length
    for (const wrong of [error, 'null', '"text"', '[null]'])
      await assert.rejects(read(page, wrong, page), (fault) => {
        assert.ok(fault instanceof WrongFile)
        assert.match(fault.message, new RegExp(`line ${lines + 1}, record \\d+ of the file, lacks `))
        return true
      })
    await assert.rejects(read(page, '<html>502 Bad Gateway</html>', page), new RegExp(`is no JSON on line ${lines + 1};`))
    await assert.rejects(read('\n'), / is empty; expected/)
  })
}

test('an empty table is refused', async (t) => {
  await assert.rejects(productsOf(t, 'magento', ''), WrongFile)
})

test('shopify: a record that is not behind its parent is a wrong file, which names groupObjects', async (t) => {
  const [product, ...children] = shopifyJsonl({}).trim().split('\n')
  await assert.rejects(productsOf(t, 'shopify', [...children, product].join('\n')), (fault) => {
    assert.ok(fault instanceof WrongFile)
    assert.match(fault.message, /ProductVariant\/2 is not behind its parent, gid.*groupObjects: true/)
    return true
  })
})

const variable = (slug: string) => {
  const variation = (id: number, size: string) => ({
    ...{ id, sku: `MUG-${size}`, price: '8.50', status: 'publish', stock_status: 'instock', attributes: [{ name: 'Size', option: size }] },
  })
  const parent = wooProduct({ slug, type: 'variable', variations: [71, 72], attributes: [{ name: 'Size', variation: true }] })
  return [parent, { variationText: JSON.stringify([variation(71, 'S'), variation(72, 'M')]) }] as const
}
test('woocommerce: a variation that has the sku of its product, which the REST API answers for none, is named by its id', async (t) => {
  const [parent, { variationText }] = variable('mug')
  const { products, reports } = await productsOf(t, 'woocommerce', parent, {
    variationText: variationText.replaceAll(/MUG-[SM]/g, 'MUG-1'),
  })
  assert.deepEqual([products.map(({ sku }) => sku), reports], [['woocommerce-71', 'woocommerce-72'], []])
})

const CYRILLIC = 'кружка-для-чая'

test('woocommerce: an address in another script is stored decoded, as address and as group', async (t) => {
  const [parent, options] = variable(encodeURIComponent(CYRILLIC).toLowerCase())
  const { products, reports } = await productsOf(t, 'woocommerce', parent, options)
  assert.deepEqual(
    [reports, products.map(({ slug, group }) => [slug, group])],
    [
      [],
      [
        [CYRILLIC, CYRILLIC],
        [undefined, CYRILLIC],
      ],
    ],
  )
  const { products: raw } = await productsOf(t, 'woocommerce', wooProduct({ slug: 'mug-100%-wool' }))
  assert.equal(raw[0]?.slug, 'mug-100%-wool')
  const emoji = await productsOf(t, 'woocommerce', wooProduct({ slug: encodeURIComponent('🍕') }))
  assert.equal(emoji.products[0]?.slug, undefined)
  assert.match(emoji.reports.join(), /its address is left out: it has no letter and no digit/)
})

const LONG = 'mug-'.repeat(40)
const twoMedusa = ['S', 'M'].map((size) =>
  medusaVariant({ sku: `MUG-${size}`, prices: [eur(8.5)], options: [{ value: size, option: { title: 'Size' } }] }),
)
const twoShopify = () => {
  const [product = '', variant = ''] = shopifyJsonl({ handle: LONG }).trim().split('\n')
  return [product, variant, variant.replace('MUG-1', 'MUG-2').replace('ProductVariant/2', 'ProductVariant/3')].join('\n')
}
const LONG_ADDRESSES: [name: string, shop: string, text: string, options: object, group: RegExp][] = [
  ['woocommerce JSON', 'woocommerce', ...variable(LONG), /^60$/],
  ['medusa JSON', 'medusa', medusaProduct({ handle: LONG, variants: twoMedusa }), {}, /^prod_1$/],
  ['shopify JSON', 'shopify', twoShopify(), {}, /^1$/],
  ['shopify CSV', 'shopify', shopifyCsv({ sizes: true }).replaceAll('"mug"', `"${LONG}"`), {}, /^digest-[0-9a-f]{32}$/],
  ['magento CSV', 'magento', magentoCsv({ sizes: true }).replaceAll('"mug"', `"${LONG}"`), { imagesBelow }, /^MUG$/],
]
for (const [name, shop, text, options, group] of LONG_ADDRESSES) {
  test(`${name}: the variants of a product with an overlong address are imported as one group, and the address is reported`, async (t) => {
    const { products, reports } = await productsOf(t, shop, text, options)
    assert.deepEqual(
      [products.length, new Set(products.map((product) => product.group)).size, products[0]?.slug],
      [2, 1, undefined],
      reports.join(),
    )
    assert.match(products[0]?.group ?? '', group)
    assert.match(reports.join(), /its address is left out: it has more than 100 characters/)
  })
}

test('shopify CSV: a variant without a sku is named by its options, so another variant can go', async (t) => {
  const skusOf = async (text: string) => (await productsOf(t, 'shopify', text)).products.map(({ sku }) => sku)
  const both = shopifyCsv({ sizes: true }).replace('"MUG-S"', '""').replace('"MUG-M"', '""')
  assert.deepEqual(await skusOf(both), ['shopify-mug:S', 'shopify-mug:M'])
  const [header, first = ''] = both.split('\r\n')
  assert.deepEqual(await skusOf([header, first.replace('"S"', '"M"')].join('\r\n')), ['shopify-mug:M'])
  assert.deepEqual(await skusOf(shopifyCsv({}).replace('"MUG-1"', '""')), ['shopify-mug'])
  const long = await skusOf(both.replaceAll('"mug"', `"${LONG}"`))
  assert.deepEqual([new Set(long).size, long.every((sku) => /^digest-[0-9a-f]{32}$/.test(sku))], [2, true])
})

test('shopify CSV: a variant without a price is reported', async (t) => {
  const rows = shopifyCsv({ sizes: true }).split('\r\n')
  rows[2] = rows[2]?.replace('"8.50"', '""') ?? assert.fail()
  const { products, reports } = await productsOf(t, 'shopify', rows.join('\r\n'))
  assert.deepEqual([products.map(({ sku }) => sku), reports.length], [['MUG-S'], 1])
  assert.match(reports.join(), /^left out: MUG-M .*: it has no price/)
})

test('the second product with a sku is refused in every format, because the import would take it for the first', async (t) => {
  const twice: [shop: string, text: string][] = [
    ['shopify', `${shopifyJsonl({})}${shopifyJsonl({ title: 'Another' })}`],
    ['shopify', shopifyCsv({ sizes: true }).replace('"MUG-M"', '"MUG-S"')],
    ['woocommerce', `${wooProduct({})}${wooProduct({ id: 61 })}`],
    ['woocommerce', wooCsv({ sizes: true }).replace('"MUG-M"', '"MUG-S"')],
    ['medusa', medusaProduct({ variants: twoMedusa.map((variant) => ({ ...variant, sku: 'MUG-1' })) })],
  ]
  for (const [shop, text] of twice) {
    const { products, refused, reports } = await productsOf(t, shop, text)
    assert.deepEqual([products.length, refused], [1, 1], reports.join())
    assert.match(reports.join(), /a previous product of the file has its sku/)
  }
})

test('medusa: refuses options without titles, which would overwrite each other', async (t) => {
  const variants = twoMedusa.map((variant) => ({ ...variant, options: [{ value: 'S' }, { value: 'red' }] }))
  const { refused, reports } = await productsOf(t, 'medusa', medusaProduct({ variants }))
  assert.equal(refused, 2)
  assert.match(reports.join(), /its options have no titles/)
})

test('magento: values with a comma or a bar, and a category with a slash, stay whole', async (t) => {
  const text = magentoCsv({ sizes: true })
    .replace('Size=S|', 'Size=8,5|10|')
    .replaceAll('manufacturer=Potter &amp; Sons', 'color=red,manufacturer=Potter, Sons,weight=2')
    .replaceAll('Default Category/Home/Kitchen', 'Default Category/Home/Cups \\/ Mugs')
  const { products } = await productsOf(t, 'magento', text, { imagesBelow })
  assert.deepEqual(
    products.map(({ options, brand, categories }) => [options, brand, categories]),
    [
      [{ Size: '8,5|10' }, 'Potter, Sons', [['Home', 'Cups / Mugs']]],
      [{ Size: 'M' }, 'Potter, Sons', [['Home', 'Cups / Mugs']]],
    ],
  )
})

test('magento: a variation of two configurable products stays in the first group, which is reported', async (t) => {
  const [, , , parent = ''] = magentoCsv({ sizes: true }).split('\r\n')
  const text = `${magentoCsv({ sizes: true })}${parent.replace('"MUG"', '"MUG-OTHER"')}\r\n`
  const { products, reports } = await productsOf(t, 'magento', text, { imagesBelow })
  assert.deepEqual(new Set(products.map(({ group }) => group)), new Set(['MUG']))
  assert.match(reports.join(), /^MUG-OTHER .*: its variation MUG-S stays in the group of MUG/)
})

test('woocommerce CSV: undoes the escapes of the exporter', async (t) => {
  const text = wooCsv({ sizes: true }).replace('"S"', '"8\\, 5"').replace('"MUG-S"', `"'-S"`)
  const { products, reports } = await productsOf(t, 'woocommerce', text)
  assert.deepEqual([reports, products[0]?.sku, products[0]?.options], [[], '-S', { Size: '8, 5' }])
})

test('woocommerce: refuses a part of a unit in stock', async (t) => {
  const { refused, reports } = await productsOf(t, 'woocommerce', wooProduct({ stock_quantity: 2.5 }))
  assert.deepEqual([refused, /its stock, "2\.5", is no clear whole number/.test(reports.join())], [1, true])
})

test('reports images and categories beyond the limit, and cuts the text of an image between characters', async (t) => {
  const images = Array.from({ length: 25 }, (_, index) => ({ src: `https://i.example/${index}.jpg`, alt: `a${'🎁'.repeat(600)}` }))
  const categories = Array.from({ length: 22 }, (_, index) => ({ name: `Category ${index}` }))
  const { products, reports } = await productsOf(t, 'woocommerce', wooProduct({ images, categories }))
  assert.deepEqual([products[0]?.images.length, products[0]?.categories?.length, reports.length], [20, 20, 2])
  assert.match(reports.join(), /first 20 of 22 categories.*first 20 of 25 images/)
  const { alt = '' } = products[0]?.images[0] ?? {}
  assert.deepEqual([alt.isWellFormed(), [...alt].length], [true, 500])
})

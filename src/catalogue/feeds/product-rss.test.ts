import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readItems } from '../../../test/read-rss.ts'
import { EXAMPLE_PRODUCT_DETAILS } from '../examples.ts'
import type { ProductDetails } from '../product-details.ts'
import { cut, rssItem } from './product-rss.ts'

const sales = [{ amount: 1_290, currency: 'EUR', from: '2026-11-27T08:00:00.000Z', until: '2026-12-01T08:00:00.000Z' }]
const product: ProductDetails = {
  ...EXAMPLE_PRODUCT_DETAILS,
  compare_at_price: null,
  options: {},
  attributes: {},
  updated_at: '2026-11-27T08:00:00.000Z',
}

/** The element texts of a product's RSS item. */
function itemOf(overrides: Partial<ProductDetails>): Record<string, string[]> {
  const [item, ...others] = readItems(rssItem({ ...product, ...overrides }, 'https://shop.example/p/blue-mug', sales))
  assert.equal(others.length, 0)
  assert.ok(item)
  return item
}

const image = (url: string) => ({ url, alt: '', width: null, height: null })

test('has the fields of the specification', () => {
  const item = itemOf({ brand: 'Potter & Sons', attributes: { gtin: '4006381333931', mpn: 'P-1' } })
  assert.deepEqual(item, {
    'g:id': [product.id],
    title: ['Blue mug'],
    description: ['Stoneware, 300 ml.'],
    link: ['https://shop.example/p/blue-mug'],
    'g:image_link': ['https://images.example.com/mug-blue.jpg'],
    'g:additional_image_link': ['https://images.example.com/mug-blue-inside.jpg'],
    'g:availability': ['in_stock'],
    'g:price': ['12.90 EUR'],
    'g:brand': ['Potter & Sons'],
    'g:gtin': ['4006381333931'],
    'g:item_group_id': ['MUG'],
    'g:product_type': ['Home > Kitchen'],
    'g:mpn': ['P-1'],
  })
})

test('a reduced product has the current price as its sale price', () => {
  const item = itemOf({ compare_at_price: { amount: 1_590, currency: 'EUR' }, in_stock: false })
  assert.deepEqual(item['g:price'], ['15.90 EUR'])
  assert.deepEqual(item['g:sale_price'], ['12.90 EUR'])
  assert.deepEqual(item['g:sale_price_effective_date'], ['2026-11-27T08:00Z/2026-12-01T08:00Z'])
  assert.deepEqual(item['g:availability'], ['out_of_stock'])
})

test("the product's row decides which sale is current, whatever the time is", () => {
  const before = { amount: 1_590, currency: 'EUR' }
  for (const [amount, updated_at] of [
    [1_390, '2026-11-28T08:00:00.000Z'],
    [1_290, '2026-11-27T07:59:59.999Z'],
    [1_290, '2026-12-01T08:00:00.000Z'],
  ] as const) {
    const item = itemOf({ price: { amount, currency: 'EUR' }, compare_at_price: before, updated_at })
    assert.equal(item['g:sale_price_effective_date'], undefined)
  }
})

test('amounts have the decimals of their currency', () => {
  const prices = [
    ['JPY', 1_200, '1200 JPY'],
    ['KWD', 1_234, '1.234 KWD'],
    ['KWD', 5, '0.005 KWD'],
    ['EUR', 0, '0.00 EUR'],
    ['EUR', Number.MAX_SAFE_INTEGER, '90071992547409.91 EUR'],
  ] as const
  for (const [currency, amount, text] of prices) assert.deepEqual(itemOf({ price: { amount, currency } })['g:price'], [text])
})

test('missing parts are omitted, and the name replaces a missing description', () => {
  const item = itemOf({ images: [], image_url: null, brand: null, group: null, description: ' ' })
  assert.deepEqual(item.description, ['Blue mug'])
  for (const name of ['g:image_link', 'g:brand', 'g:item_group_id', 'g:gtin', 'g:mpn', 'g:sale_price']) assert.equal(item[name], undefined)
})

test('texts are escaped, and characters that XML forbids are removed', () => {
  const name = ']]><![CDATA[ <b>&amp;\u202e \u{1F9E6} "\'\r\n\t'
  const item = itemOf({ name: `${name}\u0000\u0001\u000b\u001f\ufffe\uffff`, description: 'half \ud83e of a pair' })
  assert.deepEqual(item.title, [name])
  assert.deepEqual(item.description, ['half \ufffd of a pair'])
})

test('long texts are cut between characters', () => {
  const item = itemOf({ name: 'é'.repeat(300), description: `${'a'.repeat(4_999)}\u{1F9E6}${'b'.repeat(5_000)}`, brand: 'b'.repeat(100) })
  assert.deepEqual(item.title, ['é'.repeat(150)])
  assert.deepEqual(item.description, ['a'.repeat(4_999)])
  assert.deepEqual(item['g:brand'], ['b'.repeat(70)])
  assert.equal(cut('a\u{1F9E6}', 3), 'a\u{1F9E6}')
  assert.equal(cut('a\u{1F9E6}', 2), 'a')
  // A reader sees one character: two people with a joiner between them, and then a letter with its accent.
  assert.equal(cut('ab\u{1F469}\u200d\u{1F469}', 6), 'ab')
  assert.equal(cut('abe\u0301', 3), 'ab')
  // There is no character boundary before the limit.
  assert.equal(cut(`\u{1F469}${'\u0301'.repeat(9)}`, 4), '\u{1F469}\u0301\u0301')
  assert.equal(cut('\u{1F469}\u200d\u{1F469}', 1), '')
})

test('only numbers with a correct check digit are GTINs', () => {
  for (const gtin of ['96385074', '012345678905', '4006381333931', '14006381333938', 4_006_381_333_931, '4-006381-333931']) {
    assert.deepEqual(itemOf({ attributes: { gtin } })['g:gtin'], [String(gtin).replaceAll('-', '')])
  }
  for (const gtin of ['4006381333932', '400638133393', '', 'none', true, 1.5, ['4006381333931', '96385074']]) {
    assert.equal(itemOf({ attributes: { gtin } })['g:gtin'], undefined, String(gtin))
  }
})

test('facts of the specification come from options and attributes', () => {
  const item = itemOf({
    options: { colour: 'blue', size: 'L', note: 'none' },
    attributes: { material: ['wool', 'silk'], age_group: 'adult', brand: 'no' },
  })
  assert.deepEqual([item['g:color'], item['g:size'], item['g:material'], item['g:age_group']], [['blue'], ['L'], ['wool/silk'], ['adult']])
  assert.equal(item['g:note'], undefined)
  assert.deepEqual(item['g:brand'], ['Potter & Sons'])
})

test('facts that feed readers would refuse are omitted', () => {
  const attributes = { gender: 'Female', condition: 'new', age_group: 'toddler', color: ['red', 'green', 'blue', 'black'] }
  const item = itemOf({ attributes })
  assert.deepEqual([item['g:gender'], item['g:condition'], item['g:age_group']], [['female'], ['new'], ['toddler']])
  assert.deepEqual(item['g:color'], ['red/green/blue'])
  assert.deepEqual(itemOf({ attributes: { color: 'red/green / blue/black' } })['g:color'], ['red/green / blue'])
  const refused = itemOf({ attributes: { gender: 'women', condition: 'mint', age_group: ['adult', 'kids'] } })
  for (const name of ['g:gender', 'g:condition', 'g:age_group']) assert.equal(refused[name], undefined, name)
})

test('an element whose text is empty after cleaning is omitted', () => {
  const item = itemOf({
    name: 'A lamp',
    description: '\u0001 ',
    brand: '\u0002',
    group: '\uffff',
    attributes: { mpn: '\u0000', color: '\u0001' },
  })
  assert.deepEqual(item.description, ['A lamp'])
  for (const name of ['g:brand', 'g:item_group_id', 'g:mpn', 'g:color']) assert.equal(item[name], undefined, name)
})

test('long group names are shortened and stay different', () => {
  const [one, two] = ['1', '2'].map((end) => itemOf({ group: `${'g'.repeat(60)}${end}` })['g:item_group_id']?.[0] ?? '')
  assert.ok(one !== two && one?.length === 50)
})

test('each of the first five categories is a product type with its ancestors', () => {
  const step = (name: string) => ({ id: product.id, slug: 'a', name })
  const categories = ['1', '2', '3', '4', '5', '6'].map((name) => ({ ...step(name), path: [step('Home & garden'), step(name)] }))
  assert.deepEqual(
    itemOf({ categories })['g:product_type'],
    ['1', '2', '3', '4', '5'].map((name) => `Home & garden > ${name}`),
  )
  assert.deepEqual(itemOf({ categories: [], category: 'Other' })['g:product_type'], ['Other'])
})

test('image addresses have the form that browsers send', () => {
  const item = itemOf({
    images: [image('https://images.example/größe xl.jpg?a=1&b=2'), ...Array.from({ length: 19 }, () => image('http://i.example/'))],
  })
  assert.deepEqual(item['g:image_link'], ['https://images.example/gr%C3%B6%C3%9Fe%20xl.jpg?a=1&b=2'])
  assert.equal(item['g:additional_image_link']?.length, 10)
})

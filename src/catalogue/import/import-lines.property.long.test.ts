import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { inPieces } from '../../../test/in-pieces.ts'
import { withGuard, withoutGuard } from '../../spreadsheet-guard.ts'
import type { SalePrice } from '../offered-prices.ts'
import { INVISIBLE } from '../product-input.ts'
import { MAX_STOCK } from '../product-rules.ts'
import { exportHeader, exportLine } from './export-catalogue.ts'
import { type ImportFormat, readImportLines } from './import-lines.ts'
import type { ImportedProduct, ImportLine } from './imported-product.ts'

const CONTENT = { withStock: true, languages: ['de', 'zh-Hant'], currencies: ['CHF', 'USD'] }
const HEADER = 'sku,name,description,category,image_url,price,currency,stock'

async function read(bytes: Uint8Array, format: ImportFormat | undefined, sizes: readonly number[]): Promise<ImportLine[]> {
  return Array.fromAsync(readImportLines(inPieces(bytes, sizes), { format, currency: 'EUR' }))
}

const HAS_INVISIBLE = new RegExp(`[${INVISIBLE}]`, 'u')
const HAS_VISIBLE = new RegExp(String.raw`[^\s\p{Z}\u2800${INVISIBLE}]`, 'u')
const label = (max: number) =>
  fc
    .string({
      unit: fc.oneof(fc.constantFrom(...`", ;é🫖{='@-`), fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 })),
      minLength: 1,
      maxLength: 12,
    })
    .map((text) => [...text.replace(/\p{Cc}/gu, '')].slice(0, max).join('').trim())
    .filter((text) => HAS_VISIBLE.test(text))
const identifier = (max: number) => label(max).filter((text) => !HAS_INVISIBLE.test(text))
const plain = { noNullPrototype: true }
// A product is stored in NFC, however its file spells it.
const inNfc = <T>(value: T): T => JSON.parse(JSON.stringify(value).normalize('NFC')) as T
const pixels = fc.option(fc.integer({ min: 1, max: 100_000 }))
const image = fc.record(
  { url: fc.webUrl().map((url) => new URL(url).href), alt: fc.oneof(fc.constant(''), label(60)), width: pixels, height: pixels },
  plain,
)
const texts = fc
  .record(
    { name: label(300), description: fc.string({ minLength: 1 }).map((text) => `${text.replaceAll('\0', '')}.`), seo_title: label(200) },
    { ...plain, requiredKeys: [] },
  )
  .filter((all) => Object.keys(all).length > 0)
const SALES: SalePrice[][] = [
  [{ amount: 0, currency: 'EUR', from: '2030-02-01T00:00:00.000Z', until: null }],
  [
    { amount: 0, currency: 'JPY', from: null, until: '2030-02-01T00:00:00.000Z' },
    { amount: 0, currency: 'JPY', from: '2030-02-01T00:00:00.000Z', until: '2030-02-01T00:00:00.001Z' },
  ],
]
const product: fc.Arbitrary<ImportedProduct> = fc
  .record(
    {
      slug: label(100),
      sku: identifier(64),
      name: label(300),
      description: fc
        .string({ unit: fc.oneof(fc.constantFrom(...'",\n\r a'), fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 })) })
        .map((text) => text.replaceAll('\0', '')),
      category: label(100),
      brand: fc.option(label(100)),
      images: fc.array(image, { maxLength: 3 }),
      group: fc.option(label(64)),
      options: fc.dictionary(label(40), label(100), { maxKeys: 3, noNullPrototype: true }),
      attributes: fc.dictionary(
        fc.stringMatching(/^[A-Za-z][A-Za-z0-9_.-]{0,9}$/),
        fc.oneof(label(60), fc.boolean(), fc.integer(), fc.constant(0.1)),
        {
          ...{ maxKeys: 3, noNullPrototype: true },
        },
      ),
      price: fc.record({ amount: fc.maxSafeNat(), currency: fc.constantFrom('EUR', 'JPY', 'KWD') }, { noNullPrototype: true }),
      compare_at_price: fc.constant(null),
      seo: fc.record({ title: fc.option(label(200)), description: fc.option(label(500)) }, plain),
      availability_text: fc.option(label(200)),
      stock: fc.option(fc.integer({ min: 0, max: MAX_STOCK })),
      prices: fc
        .uniqueArray(fc.record({ currency: fc.constantFrom('CHF', 'USD'), amount: fc.nat(), reduction: fc.nat() }, plain), {
          selector: ({ currency }) => currency,
        })
        .map((all) => all.sort((a, b) => (a.currency < b.currency ? -1 : 1)))
        .map((all) =>
          all.map(({ currency, amount, reduction }) => ({ amount, currency, compare_at: reduction === 0 ? null : amount + reduction })),
        ),
      translations: fc.dictionary(fc.constantFrom('de', 'zh-Hant'), texts, plain),
      status: fc.constantFrom('draft', 'active'),
      published_at: fc.constantFrom(null, '2030-01-01T00:00:00.000Z'),
      unpublished_at: fc.constantFrom(null, '2031-01-01T00:00:00.000Z'),
      sale_prices: fc.constantFrom([], ...SALES),
    },
    {
      ...plain,
      requiredKeys: [
        'sku',
        'name',
        'description',
        'category',
        'brand',
        'images',
        'group',
        'options',
        'attributes',
        'price',
        'compare_at_price',
        'seo',
        'availability_text',
        'stock',
        'translations',
        'prices',
        'status',
        'published_at',
        'unpublished_at',
        'sale_prices',
      ],
    },
  )
  .map(({ price, sale_prices: sales = [], ...each }) => ({
    ...each,
    price,
    sale_prices: price.amount === 0 ? [] : sales.filter(({ currency }) => currency === price.currency),
  }))
  .map((each) => inNfc({ ...each, image_url: each.images[0]?.url ?? null }))
const products = fc.uniqueArray(product, { selector: ({ sku }) => sku, maxLength: 8 })
const pieces = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 })

function withoutColumns({ columns: _, ...product }: ImportedProduct): ImportedProduct {
  return product
}

test('reads every valid product as it was written, in both formats, wherever the bytes are split', async () => {
  await fc.assert(
    fc.asyncProperty(products, pieces, fc.boolean(), async (all, sizes, forSpreadsheets) => {
      const content = { ...CONTENT, forSpreadsheets }
      const files = {
        ndjson: all.map((each) => exportLine(each, 'ndjson', content)).join('\n'),
        csv: [exportHeader('csv', content), ...all.map((each) => exportLine(each, 'csv', content))].join('\n'),
      }
      for (const format of ['ndjson', 'csv'] as const) {
        const lines = await read(Buffer.from(files[format]), format, sizes)
        assert.deepEqual(
          lines.map((line) => ('product' in line ? withoutColumns(line.product) : line)),
          all,
        )
      }
    }),
    { numRuns: 200 },
  )
})

test('reads arbitrary bytes as the same lines, wherever they are split', async () => {
  const part = fc.constantFrom(
    HEADER,
    '\n',
    '\r\n',
    '\r',
    '"',
    ',',
    '{"sku":"A","name":"Mug","category":"K","price":{"amount":1,"currency":"EUR"}}',
    'A,"x\ny",,K,,1,EUR,',
    'B,Mug,,K,,1,EUR,',
    '\ufeff',
    'é',
    '{"sku":',
  )
  await fc.assert(
    fc.asyncProperty(fc.array(part, { maxLength: 30 }), fc.uint8Array({ maxLength: 4 }), pieces, async (parts, bytes, sizes) => {
      const file = Buffer.concat([Buffer.from(parts.join('')), bytes])
      assert.deepEqual(await read(file, undefined, sizes), await read(file, undefined, []))
    }),
    { numRuns: 300 },
  )
})

test('a cell for spreadsheets contains no formula, wherever it is cut, and is read as it was written', () => {
  const cell = fc.string({ unit: fc.constantFrom(';', '\t', '\n', '=', '-', "'", ' ', 'a'), maxLength: 12 })
  fc.assert(
    fc.property(cell, fc.boolean(), (text, forSpreadsheets) => {
      const written = withGuard(text, forSpreadsheets)
      assert.equal(withoutGuard(written), text, JSON.stringify(written))
      if (forSpreadsheets) for (const part of written.split(/[;\t\n]/)) assert.doesNotMatch(part, /^ *[=-]/)
    }),
    { numRuns: 2_000 },
  )
})

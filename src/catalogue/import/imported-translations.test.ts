import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { findWaiting } from '../../../test/database.ts'
import { eventually } from '../../../test/eventually.ts'
import { registerOperator } from '../../../test/register-operator.ts'
import { startStore } from '../../../test/store.ts'
import { exportCatalogue } from './export-catalogue.ts'

const store = await startStore({ after })
const { token } = await registerOperator(store)

const LAMP = { name: 'A lamp', category: 'lamps', price: { amount: 1_999, currency: 'EUR' } }
const TRANSLATIONS = { de: { name: 'Eine "Lampe", hell', description: 'Zeile 1\nZeile 2' }, 'pt-BR': { seo_title: 'Luz' } }

async function importAs(type: 'application/x-ndjson' | 'text/csv', raw: string) {
  const { text } = await store.call('POST', '/admin/products/import', { token, raw, headers: { 'content-type': type } })
  const lines = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  return lines.slice(0, -1).map(({ outcome, error }) => outcome ?? error)
}
const importLines = (...lines: object[]) =>
  importAs('application/x-ndjson', lines.map((line) => JSON.stringify({ ...LAMP, ...line })).join('\n'))
const importCsv = (columns: string, ...rows: string[]) =>
  importAs('text/csv', [`sku,name,category,price,${columns}`, ...rows.map((row) => `C-1,A lamp,lamps,19.99,${row}`)].join('\n'))
const translationsOf = async (sku: string) => {
  const { rows } = await store.pool.query('select translations from products where sku = $1', [sku])
  return rows[0].translations
}
const exported = async (format: 'csv' | 'ndjson') => (await Array.fromAsync(exportCatalogue(store.pool, format))).join('')

test('an export without translations has no translation columns or properties', async () => {
  await importLines({ sku: 'T-0' })
  for (const format of ['csv', 'ndjson'] as const) assert.doesNotMatch(await exported(format), /translations|:de/)
})

test('a file can have translations, and importing an export changes nothing, in both formats', async () => {
  assert.deepEqual(await importLines({ sku: 'T-1', translations: TRANSLATIONS }, { sku: 'T-2' }), ['created', 'created'])
  assert.deepEqual(await translationsOf('T-1'), TRANSLATIONS)
  for (const [format, type] of [
    ['ndjson', 'application/x-ndjson'],
    ['csv', 'text/csv'],
  ] as const) {
    const file = await exported(format)
    assert.deepEqual(new Set(await importAs(type, file)), new Set(['unchanged']))
    const changed = await importAs(type, file.replaceAll('Luz', 'Luzes'))
    assert.equal(changed.filter((outcome) => outcome === 'updated').length, 1)
    assert.equal((await translationsOf('T-1'))['pt-BR'].seo_title, 'Luzes')
    await importAs(type, file)
    assert.deepEqual(await translationsOf('T-1'), TRANSLATIONS)
  }
})

test('a file without translations keeps them, NDJSON lines replace all of them, and CSV columns replace only those that they name', async () => {
  await importLines({ sku: 'C-1', translations: TRANSLATIONS })
  assert.deepEqual(await importLines({ sku: 'C-1' }), ['unchanged'])
  assert.deepEqual(await importLines({ sku: 'C-1', translations: null, name: 'B lamp' }), ['updated'])
  assert.deepEqual(await translationsOf('C-1'), TRANSLATIONS)
  assert.deepEqual(await importCsv('brand', 'X'), ['updated'])
  assert.deepEqual(await translationsOf('C-1'), TRANSLATIONS)
  const { de, 'pt-BR': pt } = TRANSLATIONS
  assert.deepEqual(await importCsv('name:de,description:fr', 'Lampe,'), ['updated'])
  assert.deepEqual(await translationsOf('C-1'), { de: { ...de, name: 'Lampe' }, 'pt-BR': pt }, 'texts without a column stay')
  assert.deepEqual(await importCsv('name:de,name:fr', ',Lampe'), ['updated'])
  assert.deepEqual(await translationsOf('C-1'), { de: { description: de.description }, fr: { name: 'Lampe' }, 'pt-BR': pt })
  assert.deepEqual(await importCsv('name:de,description:de,name:fr,seo_title:pt-BR', ',,,'), ['updated'])
  assert.deepEqual(await translationsOf('C-1'), {})
  await importLines({ sku: 'C-1', translations: TRANSLATIONS })
  assert.deepEqual(await importLines({ sku: 'C-1', translations: {} }), ['updated'])
  assert.deepEqual(await translationsOf('C-1'), {})
})

test('explains which translations a file may not have', async () => {
  const rule =
    'translations must be an object with at most 30 languages (BCP 47), each an object with some of name, description, seo_title, seo_description, availability_text'
  const tags = 'the languages of translations must be BCP 47 tags in canonical form such as de, pt-BR or zh-Hant'
  const cases: [unknown, string][] = [
    ['de', rule],
    [[], rule],
    [{ de: 'Lampe' }, rule],
    [{ de: { title: 'Lampe' } }, rule],
    [{ de: { name: 1 } }, rule],
    [{ DE_de: { name: 'Lampe' } }, tags],
    [{ 'x-klingon': { name: 'Lampe' } }, tags],
    [{ de: { name: 'x'.repeat(301) } }, 'name must have 1 to 300 characters'],
    [{ de: { seo_title: 'x'.repeat(201) } }, 'seo.title must have 1 to 200 characters'],
    [{ de: { seo_description: 'x'.repeat(501) } }, 'seo.description must have 1 to 500 characters'],
    [{ de: { availability_text: 'x'.repeat(201) } }, 'availability_text must have 1 to 200 characters'],
    [{ de: { description: 'x'.repeat(65_537) } }, 'description must have at most 65,536 bytes in UTF-8'],
    [{ de: { name: 'a\nb' } }, 'name must have no control characters and no line breaks'],
    [{ de: { description: '\ud800' } }, 'description has half of a surrogate pair, which is no character'],
  ]
  for (const [translations, error] of cases) {
    assert.deepEqual(await importLines({ sku: 'E-1', translations }), [error], JSON.stringify(translations).slice(0, 60))
  }
  for (const columns of ['name:', 'sku:de', 'name:de:at', 'name: de', ':de', `name:${'x'.repeat(36)}`]) {
    assert.match(
      (await importCsv(columns, 'x'))[0],
      /^the header has the unknown column .* translated texts such as name:de, and prices such as price:USD$/,
    )
  }
  assert.deepEqual(await importCsv('name:DE', 'x'), [tags])
  assert.deepEqual(await importCsv('name:constructor', 'x'), [tags])
  assert.match((await importCsv('name:de,name:de', 'x,y'))[0], /the column name:de twice/)
})

test('a CSV price without a currency does not change prices in other currencies', async () => {
  const price = { amount: 1_000, currency: 'JPY' }
  await importLines({ sku: 'C-1', price })
  const refusal = 'currency is missing: the price of this product is in JPY'
  assert.deepEqual(await importCsv('brand', 'X'), [refusal])
  assert.deepEqual(await importCsv('currency', ''), [refusal])
  assert.deepEqual(await importLines({ sku: 'C-1', price }), ['unchanged'])
  assert.deepEqual(await importCsv('currency', 'EUR'), ['updated'])
  assert.deepEqual(await importCsv('brand', 'X'), ['updated'])
})

const PRICES = [
  { amount: 900, currency: 'CHF', compare_at: null },
  { amount: 2_199, currency: 'USD', compare_at: 2_999 },
]
const pricesOf = async (sku: string) => {
  const { rows } = await store.pool.query('select prices from products where sku = $1', [sku])
  return rows[0].prices
}
const STORED = { CHF: { amount: 900 }, USD: { amount: 2_199, compare_at: 2_999 } }

test('a file can have prices in other currencies, and importing an export changes nothing, in both formats', async () => {
  assert.deepEqual(await importLines({ sku: 'P-1', prices: PRICES }, { sku: 'P-2' }), ['created', 'created'])
  assert.deepEqual(await pricesOf('P-1'), STORED)
  for (const [format, type] of [
    ['ndjson', 'application/x-ndjson'],
    ['csv', 'text/csv'],
  ] as const) {
    const file = await exported(format)
    assert.deepEqual(new Set(await importAs(type, file)), new Set(['unchanged']))
    const changed = await importAs(type, file.replace(/2199|21\.99/, format === 'csv' ? '20.99' : '2099'))
    assert.equal(changed.filter((outcome) => outcome === 'updated').length, 1)
    assert.equal((await pricesOf('P-1')).USD.amount, 2_099)
    await importAs(type, file)
    assert.deepEqual(await pricesOf('P-1'), STORED)
  }
  assert.deepEqual(await importLines({ sku: 'P-1' }), ['unchanged'])
  assert.deepEqual(await importLines({ sku: 'P-1', prices: [] }), ['updated'])
  assert.deepEqual(await pricesOf('P-1'), {})
})

test("a price in a currency that was the own price's meanwhile does not come back", async () => {
  const own = (amount: number, currency: string) => ({ sku: 'P-9', price: { amount, currency } })
  assert.deepEqual(await importLines({ ...own(2_000, 'EUR'), prices: [{ amount: 1_999, currency: 'USD' }] }), ['created'])
  assert.deepEqual(await importLines(own(2_500, 'USD')), ['updated'])
  assert.deepEqual(await pricesOf('P-9'), {})
  assert.deepEqual(await importLines(own(2_500, 'USD')), ['unchanged'])
  assert.deepEqual(await importLines(own(2_200, 'EUR')), ['updated'])
  assert.deepEqual(await pricesOf('P-9'), {})
})

test('reads price columns in major units of their currency, and explains which values they may not have', async () => {
  assert.deepEqual(await importCsv('price:JPY,price:USD,compare_at_price:USD', '1200,12.5,20'), ['updated'])
  assert.deepEqual(await pricesOf('C-1'), { JPY: { amount: 1_200 }, USD: { amount: 1_250, compare_at: 2_000 } })
  assert.deepEqual(await importCsv('brand', 'Y'), ['updated'])
  assert.deepEqual(Object.keys(await pricesOf('C-1')), ['JPY', 'USD'])
  assert.deepEqual(await importCsv('price:USD,price:CHF', '13,1'), ['updated'])
  const kept = { CHF: { amount: 100 }, JPY: { amount: 1_200 }, USD: { amount: 1_300, compare_at: 2_000 } }
  assert.deepEqual(await pricesOf('C-1'), kept, 'prices without a column stay')
  assert.deepEqual(await importCsv('price:USD,price:CHF', '20,'), ['updated'])
  assert.deepEqual(await pricesOf('C-1'), { JPY: { amount: 1_200 }, USD: { amount: 2_000 } }, 'no reduction from a price that is not above')
  for (const [columns, cells, error] of [
    ['compare_at_price:USD', '20', 'compare_at_price:USD must come with a price:USD'],
    ['price:USD,compare_at_price:USD', '20,20', 'compare_at must be above the amount of its price'],
    ['price:EUR', '20', 'prices must be in other currencies than price'],
    ['price:XXY', '20', 'the currency of each of the prices must be an ISO 4217 code such as USD'],
  ]) {
    assert.deepEqual(await importCsv(columns ?? '', cells ?? ''), [error])
  }
  for (const cell of ['-1', '1.234', 'x', '90071992547409.92'])
    assert.match((await importCsv('price:USD', cell))[0], /^price:USD must be a number such as 12.50/)
  assert.match((await importCsv('price:us', '1'))[0], /^the header has the unknown column "price:US"/)
  assert.deepEqual(await importLines({ sku: 'C-1', prices: [{ amount: 1.5, currency: 'USD' }] }), [
    'prices must be a list of at most 50 objects with amount in minor units, currency and, if reduced, compare_at',
  ])
  assert.deepEqual(await importCsv('price:USD,price:JPY', ','), ['updated'])
  assert.deepEqual(await pricesOf('C-1'), {})
})

test('a CSV file keeps the values for which it has no column, and an empty cell clears its value', async () => {
  const images = [
    { url: 'https://images.example/1.jpg', alt: 'The lamp', width: 800, height: 600 },
    { url: 'https://images.example/2.jpg', alt: '', width: null, height: null },
  ]
  const full = {
    ...{ sku: 'C-1', description: 'Long', brand: 'Lumen', group: 'lamps', options: { size: 'M' }, attributes: { watt: 5 }, images },
    ...{
      compare_at_price: { amount: 2_500, currency: 'EUR' },
      seo: { title: 'Lamp', description: 'A good one' },
      availability_text: 'Soon',
    },
  }
  await importLines(full)
  const { rows } = await store.pool.query(`select id from products where sku = 'C-1'`)
  const read = async () => {
    const { json } = await store.call('GET', `/admin/products/${rows[0].id}`, { token })
    const { description, brand, group, options, attributes, compare_at_price, seo, availability_text } = json
    return { sku: 'C-1', description, brand, group, options, attributes, images: json.images, compare_at_price, seo, availability_text }
  }
  assert.deepEqual(await read(), full)
  assert.deepEqual(await importAs('text/csv', 'sku,name,category,price\nC-1,A lamp,lamps,19.99\n'), ['unchanged'])
  assert.deepEqual(await importCsv('seo_title', ''), ['updated'])
  assert.deepEqual(await read(), { ...full, seo: { ...full.seo, title: null } })
  const other = { url: 'https://images.example/3.jpg', alt: '', width: null, height: null }
  assert.deepEqual(await importCsv('image_url,seo_title', `${other.url},Lamp`), ['updated'])
  assert.deepEqual(await read(), { ...full, images: [other, images[1]] })
  assert.deepEqual(await importAs('text/csv', 'sku,name,category,price\nC-1,A lamp,lamps,30\n'), ['updated'])
  assert.deepEqual(await read(), { ...full, images: [other, images[1]], compare_at_price: null })
  const columns = 'description,brand,group,options,attributes,image_url,images,seo_title,seo_description,availability_text'
  assert.deepEqual(await importCsv(columns, ',,,,,,,,,'), ['updated'])
  const cleared = { description: '', brand: null, group: null, options: {}, attributes: undefined, images: [], availability_text: null }
  assert.deepEqual(await read(), { sku: 'C-1', ...cleared, compare_at_price: null, seo: { title: null, description: null } })
})

test('a line is refused if its columns and the kept values are too much together', async () => {
  const texts = (count: number) =>
    Object.fromEntries(
      ['de', 'es', 'fr', 'it', 'nl', 'pl', 'pt', 'sv', 'da', 'fi', 'cs']
        .slice(0, count)
        .map((tag) => [tag, { description: 'x'.repeat(9_900) }]),
    )
  await importLines({ sku: 'C-1', translations: texts(10) })
  assert.deepEqual(await importCsv('description:cs', 'x'.repeat(9_900)), ['translations must have at most 100,000 characters together'])
  assert.equal(Object.keys(await translationsOf('C-1')).length, 10)
})

/**
 * Imports a line while another transaction, which has run `statement`, is about to commit. Returns the line's outcome.
 */
async function importBeside(statement: string, values: unknown[], line: object) {
  const other = await store.pool.connect()
  try {
    await other.query('begin')
    await other.query(statement, values)
    const imported = importLines(line)
    await eventually(async () => (await findWaiting(store.pool, other)).length === 1)
    await other.query('commit')
    return await imported
  } finally {
    // Closed: an open transaction would hold up other tests.
    other.release(true)
  }
}

test('a file keeps the translations and prices that an operator saves during its import', async () => {
  await importLines({ sku: 'W-1' }, { sku: 'W-2' })
  for (const sku of ['W-1', 'W-2']) {
    const saved = await importBeside('update products set translations = $2, prices = $3 where sku = $1', [sku, TRANSLATIONS, STORED], {
      sku,
      name: 'Other',
    })
    assert.deepEqual(saved, ['updated'])
    assert.deepEqual([await translationsOf(sku), await pricesOf(sku)], [TRANSLATIONS, STORED])
  }
})

test('a line creates another product if its sku is taken from a product during the import', async () => {
  await importLines({ sku: 'W-3', stock: 3 })
  assert.deepEqual(await importBeside(`update products set sku = 'W-4' where sku = 'W-3'`, [], { sku: 'W-3', stock: 5 }), ['created'])
  const { rows } = await store.pool.query(
    `select sku, available from products join inventory on product_id = id where sku in ('W-3', 'W-4') order by sku`,
  )
  assert.deepEqual(rows, [
    { sku: 'W-3', available: 5 },
    { sku: 'W-4', available: 3 },
  ])
})

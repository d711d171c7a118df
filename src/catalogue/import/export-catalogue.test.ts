import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { createTestDatabase } from '../../../test/database.ts'
import { registerOperator } from '../../../test/register-operator.ts'
import { startStore, type TestStore } from '../../../test/store.ts'
import type { Pool } from '../../db/pool.ts'
import { exportCatalogue } from './export-catalogue.ts'
import { importCatalogue } from './import-catalogue.ts'
import { type ImportFormat, readImportLines } from './import-lines.ts'

const FILE = [
  { sku: 'B', name: 'Tom\'s "big" mug, \\N', category: 'K\\tchen', price: { amount: 1250, currency: 'EUR' }, stock: 0 },
  { sku: 'A', name: 'Cup', description: 'Two\nlines,\tand "more"', category: 'Kitchen', price: { amount: 7, currency: 'JPY' } },
  {
    ...{ sku: 'C', name: 'Shirt', category: 'Clothes', price: { amount: 1999, currency: 'KWD' }, stock: 12, group: 'shirt' },
    ...{ options: { size: 'M', 'c"o,l': 'rëd' }, image_url: 'https://images.example/c.jpg' },
  },
]
  .map((product) => JSON.stringify(product))
  .join('\n')

async function exportAll(pool: Pool, format: ImportFormat): Promise<string> {
  return (await Array.fromAsync(exportCatalogue(pool, format, { withStock: true }))).join('')
}

async function importText(pool: Pool, text: string, format: ImportFormat) {
  const lines = readImportLines(Readable.from([Buffer.from(text)]), { format, currency: 'EUR' })
  return importCatalogue(pool, lines, (line, reason) => assert.fail(`${line}: ${reason}`))
}

for (const format of ['ndjson', 'csv'] as const) {
  test(`an export as ${format} with stock creates the same catalogue in another store, and changes nothing when imported again`, async (t) => {
    const [{ pool }, { pool: other }] = [await createTestDatabase(t), await createTestDatabase(t)]
    await importText(pool, FILE, 'ndjson')
    const text = await exportAll(pool, format)
    assert.deepEqual(await importText(pool, text, format), { created: 0, updated: 0, unchanged: 3, failed: 0 })
    assert.deepEqual(await importText(other, text, format), { created: 3, updated: 0, unchanged: 0, failed: 0 })
    assert.equal(await exportAll(other, format), text)
  })
}

for (const format of ['ndjson', 'csv'] as const) {
  test(`an export as ${format} has the new name of a renamed category, and importing it creates no category`, async (t) => {
    const { pool } = await createTestDatabase(t)
    const nested = { sku: 'N', name: 'Cap', categories: [['Clothes', 'Caps'], ['Sale']], price: { amount: 1, currency: 'EUR' } }
    await importText(pool, `${FILE}\n${JSON.stringify(nested)}`, 'ndjson')
    await pool.query(`update categories set name = 'New ' || name, renamed_at = now()`)
    const readTree = async () => (await pool.query('select id, name from categories order by id')).rows
    const [tree, text] = [await readTree(), await exportAll(pool, format)]
    await importText(pool, text, format)
    assert.deepEqual(await readTree(), tree)
    const { rows } = await pool.query('select category from products order by sku')
    assert.deepEqual(
      rows.map(({ category }) => category),
      ['New Kitchen', 'New K\\tchen', 'New Clothes', 'New Caps'],
    )
    assert.equal(await exportAll(pool, format), text)
  })
}

test('an export contains the translations and prices that only drafts have', async (t) => {
  const [{ pool }, { pool: other }] = [await createTestDatabase(t), await createTestDatabase(t)]
  const draft = { sku: 'D', name: 'Cap', category: 'Hats', price: { amount: 1, currency: 'EUR' }, status: 'draft' }
  const line = { ...draft, translations: { de: { name: 'Kappe' } }, prices: [{ amount: 2, currency: 'USD', compare_at: null }] }
  await importText(pool, `${FILE}\n${JSON.stringify(line)}`, 'ndjson')
  for (const format of ['ndjson', 'csv'] as const) {
    const text = await exportAll(pool, format)
    assert.match(text, /Kappe/)
    await importText(other, text, format)
    assert.equal(await exportAll(other, 'ndjson'), await exportAll(pool, 'ndjson'))
    await other.query(`update products set translations = '{}', prices = '{}'`)
  }
})

test('an export omits archived products, and importing one sells it again', async (t) => {
  const { pool } = await createTestDatabase(t)
  await importText(pool, FILE, 'ndjson')
  await pool.query(`update products set archived_at = now() where sku = 'B'`)
  assert.deepEqual(
    (await exportAll(pool, 'ndjson'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).sku),
    ['A', 'C'],
  )
  assert.deepEqual(await importText(pool, FILE, 'ndjson'), { created: 0, updated: 1, unchanged: 2, failed: 0 })
  assert.equal((await exportAll(pool, 'csv')).split('\n').length, 6)
})

const IMAGES = [
  { url: 'https://images.example/1.jpg', alt: 'A "blue" lamp, lit', width: 800, height: 600 },
  { url: 'https://images.example/%C3%BC?a=b,c', alt: '', width: null, height: null },
]
const LAMP = {
  ...{ sku: 'L-1', slug: 'the-lamp', name: 'Lamp, "big"', description: 'Two\r\nlines \n', brand: 'Lumen & Söhne', images: IMAGES },
  ...{ group: 'lamp', options: { size: 'M', 'c"o,l': 'rëd' }, price: { amount: 1_999, currency: 'EUR' } },
  attributes: { material: 'glass', watt: 7.5, dimmable: true, colours: ['red', 'dark "blue"'], old: false },
  ...{ compare_at_price: { amount: 2_499, currency: 'EUR' }, availability_text: 'In 3 days', stock: 12 },
  seo: { title: 'Lamps', description: 'The best, "really"' },
  translations: {
    de: { name: 'Lampe', description: 'Zeile 1\nZeile 2', seo_title: 'Lampen' },
    'pt-BR': { availability_text: 'Em 3 dias' },
  },
  prices: [
    { amount: 2_199, currency: 'USD', compare_at: 2_999 },
    { amount: 300, currency: 'JPY' },
  ],
  categories: [['Home', 'Lights', 'Table'], ['Sale']],
}
const EVERYTHING = [
  LAMP,
  {
    ...{
      sku: 'L-2',
      name: 'Lamp',
      categories: [['Sale'], ['Outdoor', 'Lights'], ['Home', 'Lights']],
      group: 'lamp',
      options: { size: 'L' },
    },
    ...{ price: { amount: 500, currency: 'KWD' }, translations: { de: { seo_description: 'Nur heute' } }, stock: 0 },
  },
  { sku: 'L-3', name: 'Lamp', category: 'Lights', image_url: 'https://images.example/3.jpg', price: { amount: 0, currency: 'EUR' } },
]

for (const format of ['ndjson', 'csv'] as const) {
  test(`importing an export as ${format} gives products the same pages in another store`, async (t) => {
    const [first, second] = [await startStore(t), await startStore(t)]
    await importText(first.pool, EVERYTHING.map((product) => JSON.stringify(product)).join('\n'), 'ndjson')
    await importText(second.pool, await exportAll(first.pool, format), format)
    for (const { slug, sku } of (await first.call('GET', '/products?limit=100')).json.data) {
      const [one, other] = [await readPages(first, slug), await readPages(second, slug)]
      assert.deepEqual(other, one, sku)
    }
    const [page] = await readPages(second, 'the-lamp')
    assert.deepEqual([page.images, page.attributes, page.translations], [IMAGES, LAMP.attributes, LAMP.translations])
  })
}

/** A product as operators and as shoppers see it, with its stock, without ids and times. */
async function readPages(store: TestStore, slug: string) {
  const { id } = (await store.call('GET', `/products/by-slug/${slug}`)).json
  const { token } = await registerOperator(store)
  const paths = [`/products/${id}?lang=de`, `/products/${id}?lang=pt-BR`, `/products/by-slug/${slug}`, `/products?ids=${id}&currency=USD`]
  const answers = [await store.call('GET', `/admin/products/${id}`, { token })]
  for (const path of paths) answers.push(await store.call('GET', path))
  const { rows } = await store.pool.query('select available from inventory where product_id = $1', [id])
  return [...answers.map(({ json }) => withoutIds(json)), rows]
}

function withoutIds(value: unknown) {
  const left = ['id', 'created_at', 'updated_at']
  return JSON.parse(JSON.stringify(value, (key, each) => (left.includes(key) ? undefined : each)))
}

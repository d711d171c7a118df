import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { registerOperator } from '../../../test/register-operator.ts'
import { startStore } from '../../../test/store.ts'
import { exportCatalogue } from './export-catalogue.ts'

const store = await startStore({ after })
const { token } = await registerOperator(store)

const LAMP = { name: 'A lamp', category: 'lamps', price: { amount: 1_999, currency: 'EUR' } }
const PAGE = {
  brand: 'Potter, "Sons"',
  compare_at_price: { amount: 2_500, currency: 'EUR' },
  images: [
    { url: 'https://images.example/a.jpg', alt: 'A, "b"', width: 800, height: null },
    { url: 'https://images.example/b.jpg', alt: '', width: null, height: null },
  ],
  seo: { title: 'Lamps', description: null },
  availability_text: 'Ships in 3 days',
}

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
const pageOf = async (sku: string) => {
  const { rows } = await store.pool.query('select id from products where sku = $1', [sku])
  return (await store.call('GET', `/products/${rows[0].id}`)).json
}
const exported = async (format: 'csv' | 'ndjson') => (await Array.fromAsync(exportCatalogue(store.pool, format))).join('')

test('a file contains everything that a page shows, and importing an export changes nothing, in both formats', async () => {
  assert.deepEqual(
    await importLines({ sku: 'P-1', slug: 'Lamp one', ...PAGE }, { sku: 'P-2', image_url: 'https://a.example/c' }, { sku: 'P-3' }),
    [...['created', 'created', 'created']],
  )
  const page = await pageOf('P-1')
  assert.deepEqual({ ...page, ...PAGE, slug: 'lamp-one' }, page)
  assert.deepEqual([(await pageOf('P-2')).slug, (await pageOf('P-3')).slug], ['a-lamp', 'a-lamp-p-3'])
  assert.deepEqual(new Set(await importAs('application/x-ndjson', await exported('ndjson'))), new Set(['unchanged']))
  const csv = await exported('csv')
  assert.deepEqual(new Set(await importAs('text/csv', csv)), new Set(['unchanged']))
  assert.deepEqual(new Set(await importAs('text/csv', csv.replaceAll('Potter', 'Porter'))), new Set(['updated', 'unchanged']))
  assert.equal((await pageOf('P-1')).brand, 'Porter, "Sons"')
  assert.equal((await pageOf('P-1')).updated_at > page.updated_at, true)
})

test('each part of a page alone is a change, and a line without it clears everything except the slug', async () => {
  await importLines({ sku: 'C-1', slug: 'c one' })
  for (const [name, value] of Object.entries(PAGE)) {
    assert.deepEqual(await importLines({ sku: 'C-1', [name]: value }), ['updated'], name)
    assert.deepEqual(await importLines({ sku: 'C-1', [name]: value }), ['unchanged'], name)
    assert.deepEqual(await importLines({ sku: 'C-1' }), ['updated'], name)
  }
  assert.deepEqual(await importLines({ sku: 'C-1', slug: 'c-two' }), ['updated'])
  const { slug, brand, images } = await pageOf('C-1')
  assert.deepEqual([slug, brand, images], ['c-two', null, []])
  assert.equal((await store.call('GET', '/products/by-slug/c-one')).json.moved_to, 'c-two')
  assert.deepEqual(await importLines({ sku: 'C-1', slug: 'C one' }), ['updated'])
  assert.equal((await store.pool.query('select from product_pages join products on id = product_id where sku = $1', ['C-1'])).rowCount, 0)
})

test("a line is refused if its slug is or was another product's, and the other lines are stored", async () => {
  await importLines({ sku: 'S-1', slug: 'first' }, { sku: 'S-2', slug: 'second' })
  await importLines({ sku: 'S-1', slug: 'moved' })
  assert.deepEqual(
    await importLines(
      ...[
        { sku: 'S-3', slug: 'first' },
        { sku: 'S-4', slug: 'Second!' },
        { sku: 'S-5', slug: 'fifth' },
        { sku: 'S-6', slug: 'FIFTH' },
      ],
      ...[{ sku: 'S-7', slug: '🙂' }, { sku: 'S-2', slug: 'second' }, { sku: 'S-8' }],
    ),
    [
      'slug first is or was that of the product with the sku S-1',
      'slug second is or was that of the product with the sku S-2',
      'created',
      'slug fifth is or was that of the product with the sku S-5',
      'slug must have a letter or a digit',
      'unchanged',
      'created',
    ],
  )
  assert.equal((await store.pool.query(`select from products where sku in ('S-3', 'S-4', 'S-6', 'S-7')`)).rowCount, 0)
})

test('two concurrent files with the same slugs leave each slug with one product', async () => {
  const file = (prefix: string) => Array.from({ length: 30 }, (_, number) => ({ sku: `${prefix}-${number}`, slug: `race ${number}` }))
  const [left, right] = await Promise.all([importLines(...file('L')), importLines(...file('R').reverse())])
  assert.equal([...left, ...right].filter((outcome) => outcome === 'created').length, 30)
  const { rows } = await store.pool.query(
    `select count(*) as products, count(product_slugs.slug) as slugs
     from products left join product_slugs on product_id = id and retired_at is null
     where sku ~ '^[LR]-'`,
  )
  assert.deepEqual(rows, [{ products: 30, slugs: 30 }])
})

test('the reason for a refusal names what is wrong', async () => {
  const reasons: Record<string, object> = {
    'slug must have 1 to 100 characters': { slug: 'x'.repeat(101) },
    'brand must have 1 to 100 characters': { brand: 'x'.repeat(101) },
    'seo.title must have 1 to 200 characters': { seo: { title: 'x'.repeat(201) } },
    'url of an image must be an absolute URL that starts with https:// or http://': {
      images: [{ url: 'https://a.example' }, { url: 'javascript:alert(1)' }],
    },
    'alt of an image must have at most 500 characters': { images: [{ url: 'https://a.example', alt: 'x'.repeat(501) }] },
    'compare_at_price must be above the price, in its currency': { compare_at_price: { amount: 1_999, currency: 'EUR' } },
    'image_url must be the url of the first of the images': { image_url: 'https://a.example', images: [{ url: 'https://b.example' }] },
  }
  assert.deepEqual(
    await importLines(...Object.values(reasons).map((line, index) => ({ sku: `R-${index}`, ...line }))),
    Object.keys(reasons),
  )
  for (const line of [{ images: 'x' }, { images: [{}] }, { images: ['x'] }, { images: [{ url: 'https://a.example', width: 0 }] }]) {
    assert.match((await importLines({ sku: 'R', ...line }))[0], /^images must be a list of at most 20 objects/, JSON.stringify(line))
  }
  for (const line of [{ seo: 'x' }, { seo: { more: 1 } }, { seo: { title: 1 } }]) {
    assert.match((await importLines({ sku: 'R', ...line }))[0], /^seo must be an object/, JSON.stringify(line))
  }
  for (const line of [
    { compare_at_price: 5 },
    { compare_at_price: { amount: 5 } },
    { compare_at_price: { amount: -1, currency: 'EUR' } },
  ]) {
    assert.match((await importLines({ sku: 'R', ...line }))[0], /^compare_at_price must be null or an object/, JSON.stringify(line))
  }
  const csv = 'sku,name,category,price,compare_at_price,images\nR-1,A,b,1.00,1.001,\nR-2,A,b,1.00,,https://a.example\n'
  const [price = '', images = ''] = await importAs('text/csv', csv)
  assert.match(price, /^compare_at_price must be a number such as 12\.50/)
  assert.match(images, /^images must be empty or a JSON list/)
})

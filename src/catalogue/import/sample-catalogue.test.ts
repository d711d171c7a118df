import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { createTestDatabase } from '../../../test/database.ts'
import { assertProblem } from '../../../test/problem.ts'
import { startStore } from '../../../test/store.ts'
import { createPool } from '../../db/pool.ts'
import { loadSampleCatalogue } from './sample-catalogue.ts'

const BASE_URL = 'https://shop.example/store'
const MAX_PICTURE_BYTES = 2_000
const MAX_ALL_PICTURES_BYTES = 2_000_000

test('loads the sample catalogue into an empty store', async (t) => {
  const { pool } = await createTestDatabase(t)
  assert.equal(await loadSampleCatalogue(pool, BASE_URL), true)
  const { rows } = await pool.query(
    `select count(*) as products, count(distinct category) as categories, count(distinct name) as names,
       count(distinct description) as descriptions, count(*) filter (where available = 0) as sold_out,
       count(*) filter (where available is null) as untracked, array_agg(distinct price_currency) as currencies,
       bool_and(in_stock = (available is null or available > 0)) as in_stock_is_true
     from products
     join inventory on inventory.product_id = products.id`,
  )
  assert.deepEqual(rows, [
    {
      ...{ products: 315, categories: 20, names: 315, descriptions: 300, sold_out: 11, untracked: 13 },
      ...{ currencies: ['EUR'], in_stock_is_true: true },
    },
  ])
})

test('contains what a front end shows: variants, a category tree, brands, attributes, reductions, languages and currencies', async (t) => {
  const store = await startStore(t)
  await loadSampleCatalogue(store.pool, BASE_URL)
  const list = async (query: string) => (await store.call('GET', `/products?limit=100&${query}`)).json.data

  const [jacket] = await list('q=rain jacket&collapse=group')
  assert.deepEqual(jacket.variants, {
    count: 6,
    options: { colour: ['Amber', 'Moss'], size: ['L', 'M', 'S'] },
    prices: [{ currency: 'EUR', min: 18_900, max: 22_900 }],
    in_stock: true,
  })
  const jackets = await list('group=rain-jacket')
  assert.equal(jackets.length, 6)
  assert.ok(
    jackets.some((variant: { in_stock: boolean }) => !variant.in_stock),
    'one variant is sold out',
  )

  for (const currency of ['EUR', 'USD']) {
    const reduced = await list(`category=sale&currency=${currency}`)
    assert.ok(reduced.length > 10)
    for (const { sku, compare_at_price, lowest_price_30_days } of reduced) {
      assert.equal(compare_at_price?.currency, currency, sku)
      assert.deepEqual([sku, lowest_price_30_days], [sku, compare_at_price])
    }
  }

  const { categories, brands, attributes } = (await store.call('GET', '/products/facets?include=attributes')).json
  assert.ok(categories.length > 10 && brands.length > 5 && attributes.length > 10)
  const tree = (await store.call('GET', '/categories')).json.data
  assert.ok(tree.some(({ depth }: { depth: number }) => depth === 1))
  const below = (await list('category=kitchen')).map(({ category }: { category: string }) => category)
  assert.ok(below.includes('Knives') && below.includes('Kitchen'))

  assert.ok((await list('q=skillet&lang=de'))[0].name.startsWith('Gusseiserne'))
  const german = async (slug: string) => (await store.call('GET', `/products/by-slug/${slug}?lang=de`)).json
  assert.match((await german('cast-iron-skillet-26-cm')).seo.title, /^Gusseiserne/)
  assert.equal((await german('springform-tin-26-cm')).availability_text, 'In zwei Wochen wieder da')
  const { rows } = await store.pool.query(
    `select count(*)::int as products, count(distinct translations -> 'de' ->> 'name')::int as german_names from products`,
  )
  assert.deepEqual(rows, [{ products: 315, german_names: 315 }])
  const counted = async (query: string) => (await store.call('GET', `/products?limit=1&include=count&${query}`)).json.count
  assert.deepEqual(await counted('currency=USD'), await counted(''))

  const document = readFileSync(new URL('../../../docs/shop/front-end.md', import.meta.url), 'utf8')
  const [, section = ''] = /### What to try in the sample catalogue\n([\s\S]*?)\n### /.exec(document) ?? []
  const calls = [...section.matchAll(/`(\/[^`]+)`/g)].map(([, call = '']) => call)
  assert.ok(calls.length > 8)
  for (const call of calls) {
    const { status, json, text } = await store.call('GET', call)
    assert.equal(status, 200, `${call}: ${text}`)
    assert.notEqual((json.data ?? [json]).length, 0, `${call} in docs/shop/front-end.md finds nothing`)
  }
})

test('every product has a picture in a colour, which is well-formed and has no script', async (t) => {
  const store = await startStore(t, { shopProductUrl: 'https://shop.example/{slug}' })
  await loadSampleCatalogue(store.pool, BASE_URL)
  const { rows } = await store.pool.query<{ sku: string; image_url: string; images: { url: string; width: number; height: number }[] }>(
    'select sku, image_url, images from products join product_pages on product_id = id',
  )
  assert.equal(rows.length, 315)
  for (const { sku, image_url: url, images } of rows) assert.deepEqual([sku, images], [sku, [{ url, alt: '', width: 800, height: 800 }]])
  const feed = (await store.call('GET', '/feeds/products.xml')).text
  assert.equal(feed.split(`<g:image_link>${BASE_URL}/sample-pictures/`).length - 1, 315)
  const addresses = [...new Set(rows.map(({ image_url }) => image_url))]
  assert.ok(addresses.length > 300, 'only sizes share one')
  let sizeBytes = 0
  for (const address of addresses) {
    assert.ok(address.startsWith(`${BASE_URL}/sample-pictures/`), address)
    const { status, headers, text } = await store.call('GET', address.slice(BASE_URL.length))
    assert.deepEqual([status, headers['content-type'], headers['cache-control']], [200, 'image/svg+xml', 'public, max-age=86400'])
    assert.equal(findFaultInSvg(text), null, address)
    assert.ok(Buffer.byteLength(text) <= MAX_PICTURE_BYTES, address)
    sizeBytes += Buffer.byteLength(text)
  }
  assert.ok(sizeBytes <= MAX_ALL_PICTURES_BYTES, `${sizeBytes} bytes`)
  for (const name of ['mug.svg', 'mug.none.svg', 'none.sage.svg', 'mug.sage.png', '..%2fsample-pictures.svg', '__proto__.sage.svg']) {
    assertProblem(await store.call('GET', `/sample-pictures/${name}`), 404, 'not_found', name)
  }
})

/** Reads tags strictly: each is closed in order, and is a shape with plain attributes. */
function findFaultInSvg(text: string): string | null {
  const open: string[] = []
  const tag = /<(\/?)(svg|g|path|rect|circle|ellipse)((?: [a-zA-Z-]+="[^"<&]*")*)(\/?)>/y
  const names = (attributes: string) => [...attributes.matchAll(/ ([a-zA-Z-]+)=/g)].map(([, name = '']) => name)
  while (tag.lastIndex < text.length) {
    const at = tag.lastIndex
    const [, closing, name = '', attributes = '', empty] = tag.exec(text) ?? []
    if (name === '') return `no shape: ${text.slice(at, at + 60)}`
    if (new Set(names(attributes)).size !== names(attributes).length || / (?:on|href|style)/.test(attributes)) return attributes
    if (closing === '/' && open.pop() !== name) return `</${name}> closes another tag`
    if (closing === '' && empty === '') open.push(name)
    if (open.length === 0 && tag.lastIndex < text.length) return 'something follows the end'
  }
  return open.length === 0 ? null : `${open.at(-1)} is open`
}

test('does nothing in a store that already has a product', async (t) => {
  const { pool } = await createTestDatabase(t)
  await pool.query(
    `insert into products (id, sku, name, category, price_amount, price_currency, in_stock)
     values (gen_random_uuid(), 'OWN-1', 'Own', 'Own', 1, 'EUR', true)`,
  )
  assert.equal(await loadSampleCatalogue(pool, BASE_URL), false)
  const { rows } = await pool.query('select sku from products')
  assert.deepEqual(rows, [{ sku: 'OWN-1' }])
})

test('loads once if many processes start together, even if each has only one connection', async (t) => {
  const { pool, url } = await createTestDatabase(t)
  const pools = Array.from({ length: 5 }, () => createPool({ url, size: 1, applicationName: 'test', onError: () => {} }))
  const loaded = await Promise.all(pools.map((each) => loadSampleCatalogue(each, BASE_URL))).finally(() =>
    Promise.all(pools.map((each) => each.end())),
  )
  assert.deepEqual(loaded.toSorted(), [false, false, false, false, true])
  const { rows } = await pool.query('select count(*) as products from products')
  assert.deepEqual(rows, [{ products: 315 }])
})

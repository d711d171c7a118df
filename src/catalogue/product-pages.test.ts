import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { findWaiting } from '../../test/database.ts'
import { ONLY_FOR_OPERATORS } from '../../test/edited-product.ts'
import { eventually } from '../../test/eventually.ts'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { type CallOptions, startStore } from '../../test/store.ts'

const store = await startStore({ after })
const { token } = await registerOperator(store)
let lastSku = 0

const call = (method: string, path: string, options: CallOptions = {}) => store.call(method, path, { token, ...options })
const eur = (amount: number) => ({ amount, currency: 'EUR' })
const create = (changes: object = {}) =>
  call('POST', '/admin/products', { body: { name: 'A lamp', category: 'lamps', price: eur(1_999), sku: `SKU-${++lastSku}`, ...changes } })
const patch = (id: string, body: object) => call('PATCH', `/admin/products/${id}`, { body, headers: { 'if-match': '*' } })
const url = (name: string) => `https://images.example/${name}.jpg`
const plain = (name: string) => ({ url: url(name), alt: '', width: null, height: null })
const PAGE = {
  brand: 'Potter & Sons',
  compare_at_price: eur(2_500),
  images: [{ url: url('a'), alt: 'A lamp', width: 800, height: 600 }, plain('b')],
  seo: { title: 'Lamps', description: 'The best lamp' },
  availability_text: 'Ships in 3 days',
}

test("a product's page has all properties, and a list only those that lists show", async () => {
  const { status, json, text } = await create(PAGE)
  assert.equal(status, 201, text)
  const page = (await store.call('GET', `/products/${json.id}`)).json
  assert.deepEqual({ ...page, ...ONLY_FOR_OPERATORS }, json)
  assert.deepEqual({ ...page, ...PAGE }, page)
  assert.equal(page.image_url, url('a'))
  const [listed] = (await store.call('GET', `/products?ids=${json.id}`)).json.data
  const { categories: _categories, images: _, seo: _seo, availability_text: _text, ...inLists } = page
  assert.deepEqual(listed, inLists)
})

test('a product without page properties has no row in `product_pages`', async () => {
  const { json } = await create()
  assert.deepEqual(
    [json.brand, json.compare_at_price, json.image_url, json.images, json.seo, json.availability_text],
    [null, null, null, [], { title: null, description: null }, null],
  )
  const plainImage = (await create({ image_url: url('x') })).json
  assert.deepEqual(plainImage.images, [plain('x')])
  const emptied = (await create(PAGE)).json
  await patch(emptied.id, { images: [], seo: {}, availability_text: null })
  const { rows } = await store.pool.query('select from product_pages where product_id = any($1)', [[json.id, plainImage.id, emptied.id]])
  assert.equal(rows.length, 0)
})

test('image addresses are stored as browsers write them, without characters that end an HTML attribute', async () => {
  for (const [given, stored] of [
    ['https://x.example/a"onerror=alert(1)//.png', 'https://x.example/a%22onerror=alert(1)//.png'],
    ["HTTPS://X.Example/<b>?q='1'#\"", 'https://x.example/%3Cb%3E?q=%271%27#%22'],
    ['https://x.example', 'https://x.example/'],
    ['https://bücher.example/größe.png', 'https://xn--bcher-kva.example/gr%C3%B6%C3%9Fe.png'],
    // The first letter is Cyrillic.
    ['https://аpple.com/a.png', 'https://xn--pple-43d.com/a.png'],
    ['https://例え.テスト/?q="><script>', 'https://xn--r8jz45g.xn--zckzah/?q=%22%3E%3Cscript%3E'],
  ] as const) {
    const { json } = await create({ image_url: given })
    assert.deepEqual([json.image_url, json.images[0].url], [stored, stored])
    assert.equal((await create({ images: [{ url: given }] })).json.image_url, stored)
    const lines = `${JSON.stringify({ sku: `IMAGE-${stored.length}`, name: 'Image', category: 'a', price: { amount: 1, currency: 'EUR' }, image_url: given })}\n`
    const imported = await call('POST', '/admin/products/import', { raw: lines, headers: { 'content-type': 'application/x-ndjson' } })
    assert.equal(imported.status, 200, imported.text)
    const { rows } = await store.pool.query('select image_url from products where sku = $1', [`IMAGE-${stored.length}`])
    assert.equal(rows[0]?.image_url, stored)
  }
})

test('image_url and the first image always agree', async () => {
  const { json } = await create({ images: PAGE.images })
  const same = await patch(json.id, { image_url: url('a') })
  assert.deepEqual(same.json.images, PAGE.images)
  const replaced = await patch(json.id, { image_url: url('c') })
  assert.deepEqual(replaced.json.images, [plain('c'), plain('b')])
  const moved = await patch(json.id, { images: [{ url: url('d'), alt: 'D' }] })
  assert.deepEqual([moved.json.image_url, moved.json.images], [url('d'), [{ ...plain('d'), alt: 'D' }]])
  assertProblem(await patch(json.id, { image_url: url('e'), images: [{ url: url('f') }] }), 422, 'invalid_body')
  assertProblem(await create({ image_url: url('e'), images: [] }), 422, 'invalid_body')
  assert.deepEqual((await patch(json.id, { image_url: null })).json.images, [])
})

test('if the previous release has changed image_url, that is the first image', async () => {
  const { json } = await create({ images: PAGE.images })
  await store.pool.query('update products set image_url = $2 where id = $1', [json.id, url('z')])
  const changed = await patch(json.id, { brand: 'B' })
  assert.deepEqual(changed.json.images, [plain('z'), plain('b')])
  await store.pool.query('update products set price_amount = 9_000, compare_at_amount = 8_000 where id = $1', [json.id])
  assert.equal((await patch(json.id, { brand: 'C' })).json.compare_at_price, null)
})

test('refuses images with hostile addresses', async () => {
  const { id } = (await create()).json
  const many = (count: number) => Array.from({ length: count }, (_, index) => ({ url: url(String(index)) }))
  assert.equal((await patch(id, { images: many(20) })).status, 200)
  assert.equal((await patch(id, { images: [{ url: ` ${url('a')}\n` }] })).json.images[0].url, url('a'))
  for (const image of [
    ...['javascript:alert(1)', 'data:image/png;base64,AA', '//images.example/a.jpg', '/a.jpg', 'ftp://images.example/a', 'https://', ''],
    ...['https://user@images.example/a', 'https://user:pw@images.example/a', 'https://:pw@images.example/a', 'javascript://a/%0aalert(1)'],
    ...['https://a b', 'https://a/\n/', 'https://a/\0', `https://a/${'x'.repeat(2_000)}`, 1, null],
    ...['JaVaScRiPt:alert(1)', '\tjavascript:alert(1)', 'java\nscript:alert(1)', 'vbscript:x', 'blob:https://a/b', 'file:///etc/passwd'],
    ...[
      'DATA:text/html,<script>',
      '//evil',
      '\\\\evil',
      '/\\evil',
      'https:evil',
      'https:/evil',
      'https:\\\\evil',
      '?a',
      '#a',
      'images.example/a',
    ],
    ...[
      'https://a/\u0001',
      'https://a/\u007f',
      'https://a/\u009f',
      'https://a/\r\nx: y',
      'https://a/\u2028b',
      'https://a/\ud800',
      'https://a:99999/',
    ],
    ...['https://user:password@', 'https://a:b@evil.example/', 'https://shop.example%40evil@a/', 'https://[::1', 'https://a%00b/'],
    `https://a/${'x'.repeat(5_000)}`,
  ].map((address) => ({ url: address }))) {
    assertProblem(await patch(id, { images: [image] }), 422, 'invalid_body', JSON.stringify(image))
  }
})

test('the price before a reduction must be above the price, and has its currency', async () => {
  const { id } = (await create({ compare_at_price: eur(2_000) })).json
  for (const compare_at_price of [eur(1_999), eur(0), { amount: 2_000, currency: 'USD' }]) {
    assertProblem(await patch(id, { compare_at_price }), 422, 'invalid_body', JSON.stringify(compare_at_price))
  }
  assertProblem(await patch(id, { price: eur(2_000), compare_at_price: eur(2_000) }), 422, 'invalid_body')
  assert.deepEqual((await patch(id, { price: eur(1_000) })).json.compare_at_price, eur(2_000))
  // A price alone is not refused: it ends the reduction.
  assert.equal((await patch(id, { price: eur(2_000) })).json.compare_at_price, null)
  await patch(id, { price: eur(1_000), compare_at_price: eur(2_000) })
  assert.equal((await patch(id, { price: { amount: 1, currency: 'JPY' } })).json.compare_at_price, null)
  const both = await patch(id, { price: eur(2_000), compare_at_price: eur(2_001) })
  assert.deepEqual([both.json.price, both.json.compare_at_price], [eur(2_000), eur(2_001)])
  assert.equal((await patch(id, { compare_at_price: null })).json.compare_at_price, null)
})

test('a change of a page text is a new state of the product', async () => {
  const { id } = (await create(PAGE)).json
  const tags = [(await store.call('GET', `/products/${id}`)).headers.etag]
  for (const body of [{ seo: { title: 'T' } }, { availability_text: 'Soon' }, { slug: 'soon' }, { images: [] }]) {
    const { headers, json } = await patch(id, body)
    const page = await store.call('GET', `/products/${id}`)
    assert.ok(page.headers.etag?.startsWith(headers.etag?.slice(0, -1) ?? '?'))
    assert.equal((await store.call('GET', `/products/by-slug/${json.slug}`)).headers.etag, page.headers.etag)
    tags.push(headers.etag)
  }
  assert.equal(new Set(tags).size, 5)
  assert.deepEqual((await store.call('GET', `/products/${id}`)).json.seo, { title: 'T', description: null })
})

test('a change that waits for another one keeps what that one saves in the page and the categories', async (t) => {
  const { id } = (await create()).json
  const other = await store.pool.connect()
  t.after(() => other.release(true))
  await other.query('begin')
  await other.query('select from products where id = $1 for update', [id])
  const changed = patch(id, { description: 'New' })
  await eventually(async () => (await findWaiting(store.pool, other)).length === 1)
  await other.query(`insert into product_pages (product_id, seo_title) values ($1, 'Saved')`, [id])
  await other.query(
    `insert into product_categories (product_id, category_id, position, is_listed, price_amount, created_at, name)
    select id, category_of_name('second'), 1, true, price_amount, created_at, name from products where id = $1`,
    [id],
  )
  await other.query('commit')
  const { seo, categories } = (await changed).json
  assert.deepEqual([seo.title, categories.length], ['Saved', 2])
})

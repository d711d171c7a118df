import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { startStore } from '../../test/store.ts'
import { productTag } from './events.ts'

const store = await startStore({ after })
const lamp = await store.addProduct({ name: 'A lamp', stock: 2 })
await store.addProduct({ name: 'A vase' })
const ada = await store.register()
const PATHS = ['/products', '/products?limit=1', `/products/${lamp.id}`]

test('answers 304 without a body to a client that already has the answer', async () => {
  for (const path of PATHS) {
    const first = await store.call('GET', path)
    const etag = first.headers.etag ?? ''
    assert.match(etag, /^"[\w-]+"$/)
    for (const condition of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
      const answer = await store.call('GET', path, { headers: { 'if-none-match': condition } })
      assert.equal(answer.status, 304, condition)
      assert.equal(answer.text, '')
      for (const header of ['etag', 'cache-control', 'cdn-cache-control', 'link', 'surrogate-key']) {
        assert.equal(answer.headers[header], first.headers[header], header)
      }
    }
    for (const condition of ['"other"', etag.replaceAll('"', ''), `${etag}x`, '']) {
      const answer = await store.call('GET', path, { headers: { 'if-none-match': condition } })
      assert.equal(answer.status, 200, condition)
      assert.equal(answer.text, first.text)
    }
  }
})

test('sends a changed list with another entity tag', async () => {
  for (const path of PATHS) {
    const before = await store.call('GET', path)
    await store.pool.query(`update products set name = name || '!'`)
    const afterwards = await eventually(async () => {
      const answer = await store.call('GET', path, { headers: { 'if-none-match': before.headers.etag ?? '' } })
      return answer.status === 200 && answer
    })
    assert.notEqual(afterwards.headers.etag, before.headers.etag)
  }
})

test('sends the same bytes with and without a token', async () => {
  for (const path of PATHS) {
    const anonymous = await store.call('GET', path)
    for (const authorization of [`Bearer ${ada.token}`, 'Bearer nonsense', 'Basic YTpi', '']) {
      const answer = await store.call('GET', path, { headers: { authorization, cookie: 'a=b' } })
      const ignored = { 'x-request-id': undefined, date: undefined }
      assert.equal(answer.text, anonymous.text)
      assert.deepEqual({ ...answer.headers, ...ignored }, { ...anonymous.headers, ...ignored })
    }
  }
})

test('any cache may store the answer, and can purge it by product', async () => {
  const { headers } = await store.call('GET', `/products/${lamp.id}`)
  assert.match(headers['cache-control'] ?? '', /^public, max-age=\d+, s-maxage=\d+, stale-while-revalidate=\d+, stale-if-error=\d+$/)
  assert.match(headers['cdn-cache-control'] ?? '', /max-age=\d+/)
  assert.equal(headers['surrogate-key'], `catalogue ${productTag(lamp.id)}`)
  assert.equal(productTag(lamp.id).length, 22)
  assert.equal(headers.vary, 'Accept-Encoding')
  assert.ok(Date.parse(headers['last-modified'] ?? '') > Date.now() - 60_000)
  const list = await store.call('GET', '/products')
  assert.equal(list.headers['surrogate-key'], 'catalogue products', 'any change of a product purges every list')
})

test('shows a product in full by its id in upper or lower case', async () => {
  const answer = await store.call('GET', `/products/${lamp.id.toUpperCase()}`)
  assert.equal(answer.status, 200)
  const { name, slug, created_at, updated_at, categories, ...rest } = answer.json
  assert.match(name, /^A lamp/)
  assert.match(slug, /^a-lamp/)
  const { path, ...category } = categories[0]
  assert.deepEqual([categories.length, category.slug, path], [1, 'lamps', [category]])
  for (const time of [created_at, updated_at]) assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  assert.deepEqual(rest, {
    id: lamp.id,
    sku: lamp.sku,
    description: '',
    category: 'lamps',
    brand: null,
    image_url: null,
    images: [],
    group: null,
    options: {},
    price: { amount: 1_250, currency: 'EUR' },
    compare_at_price: null,
    lowest_price_30_days: null,
    in_stock: true,
    seo: { title: null, description: null },
    availability_text: null,
  })
})

test('answers HEAD like GET, without the body', async () => {
  const get = await store.call('GET', '/products')
  const head = await store.server.inject({ method: 'HEAD', url: '/products' })
  assert.equal(head.statusCode, 200)
  assert.equal(head.body, '')
  assert.equal(head.headers.etag, get.headers.etag)
  assert.equal(head.headers['content-length'], get.headers['content-length'])
})

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { assertProblem, faults } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { type CallOptions, startStore } from '../../test/store.ts'
import { inTransaction } from '../db/transaction.ts'
import { groupTag, productTag, takeChangedTags } from './events.ts'

const store = await startStore({ after })
const { token } = await registerOperator(store)
const call = (method: string, path: string, options: CallOptions = {}) => store.call(method, path, { token, ...options })
const patch = async (id: string, body: object) => {
  const { status, text } = await call('PATCH', `/admin/products/${id}`, { body, headers: { 'if-match': '*' } })
  assert.equal(status, 200, text)
}
const eur = (amount: number) => ({ amount, currency: 'EUR' })
async function add(name: string, group: string | null, options: object, more: object = {}): Promise<{ id: string; slug: string }> {
  const body = { sku: name, name, category: 'shirts', price: eur(2_000), group, options, ...more }
  const { status, json, text } = await call('POST', '/admin/products', { body })
  assert.equal(status, 201, text)
  return json
}
const takeTags = () => inTransaction(store.pool, takeChangedTags)
const page = (slug: string, query = 'include=variants') => store.call('GET', `/products/by-slug/${slug}?${query}`)

const small = await add('Shirt S', 'shirt', { size: 'S' }, { prices: [{ amount: 2_200, currency: 'USD' }] })
const medium = await add('Shirt M', 'shirt', { size: 'M' }, { compare_at_price: eur(2_500), translations: { de: { name: 'Hemd M' } } })
const draft = await add('Shirt L', 'shirt', { size: 'L' }, { status: 'draft' })
const hat = await add('Hat', null, {})

test('include=variants answers a product with all variants that are in the shop, by slug and by id', async () => {
  const { status, json, text } = await page(small.slug)
  assert.equal(status, 200, text)
  const { variants, ...rest } = json
  assert.deepEqual(variants, [
    {
      ...{ id: small.id, slug: small.slug, sku: 'Shirt S', name: 'Shirt S', image_url: null, options: { size: 'S' }, price: eur(2_000) },
      ...{ compare_at_price: null, lowest_price_30_days: null, in_stock: true },
    },
    {
      ...{ id: medium.id, slug: medium.slug, sku: 'Shirt M', name: 'Shirt M', image_url: null, options: { size: 'M' }, price: eur(2_000) },
      ...{ compare_at_price: eur(2_500), lowest_price_30_days: null, in_stock: true },
    },
  ])
  assert.deepEqual((await store.call('GET', `/products/${small.id}?include=variants`)).json, json)
  assert.deepEqual((await page(small.slug, '')).json, rest)
  assert.equal((await page(hat.slug)).json.variants, undefined)
  assert.deepEqual(faults(assertProblem(await page(small.slug, 'include=all'), 400, 'invalid_query')), ['include'])
})

test('variants are in the language and the currency of the page', async () => {
  const { json } = await page(small.slug, 'include=variants&lang=de&currency=USD')
  assert.deepEqual(
    json.variants.map(({ name, price }: { name: string; price: object }) => [name, price]),
    [['Shirt S', { amount: 2_200, currency: 'USD' }]],
  )
  const german = await page(small.slug, 'include=variants&lang=de')
  assert.deepEqual(
    german.json.variants.map(({ name }: { name: string }) => name),
    ['Shirt S', 'Hemd M'],
  )
})

test('a former slug redirects to the page with variants', async () => {
  const { slug: former, id } = await add('Old shirt', 'old', {})
  await patch(id, { slug: 'new-shirt' })
  const { status, headers } = await page(former, 'include=variants&currency=EUR')
  assert.deepEqual([status, headers.location], [301, 'http://localhost:3000/products/by-slug/new-shirt?currency=EUR&include=variants'])
})

test('every change of a variant changes the entity tag and purges the pages with variants', async () => {
  await takeTags()
  const read = async () => {
    const { headers } = await page(small.slug)
    assert.deepEqual(headers['surrogate-key']?.split(' '), ['catalogue', productTag(small.id), groupTag('shirt')])
    return headers.etag
  }
  let previous = await read()
  const { headers } = await page(small.slug, '')
  assert.deepEqual(headers['surrogate-key']?.split(' '), ['catalogue', productTag(small.id)])
  const changes: [id: string, change: () => Promise<unknown>, groups: string[]][] = [
    [medium.id, () => patch(medium.id, { price: eur(1_900) }), ['shirt']],
    [medium.id, () => call('PUT', `/admin/products/${medium.id}/stock`, { body: { stock: 0, expected: null } }), ['shirt']],
    [draft.id, () => patch(draft.id, { status: 'active' }), ['shirt']],
    // A variant that leaves is missing on the pages of the others.
    [draft.id, () => patch(draft.id, { group: 'other' }), ['other', 'shirt']],
    [hat.id, () => patch(hat.id, { group: 'shirt' }), ['shirt']],
    [hat.id, () => call('DELETE', `/admin/products/${hat.id}`), ['shirt']],
  ]
  for (const [id, change, groups] of changes) {
    await change()
    assert.deepEqual(await takeTags(), ['products', ...[productTag(id), ...groups.map(groupTag)].sort()])
    const next = await read()
    assert.notEqual(next, previous)
    previous = next
  }
  const etag = String((await page(small.slug)).headers.etag)
  assert.equal(
    (await store.call('GET', `/products/by-slug/${small.slug}?include=variants`, { headers: { 'if-none-match': etag } })).status,
    304,
  )
  const { status } = await call('PATCH', `/admin/products/${small.id}`, { body: { brand: 'A' }, headers: { 'if-match': etag } })
  assert.equal(status, 200, 'the tag of the page is an If-Match, too')
})

test('one change of a group purges its products and its pages', async () => {
  const ids: string[] = []
  for (const size of ['S', 'M', 'L']) ids.push((await add(`Sock ${size}`, 'sock', { size }, { brand: 'A' })).id)
  await takeTags()
  await call('PATCH', '/admin/groups/sock', { body: { brand: 'B' }, headers: { 'if-match': '*' } })
  assert.deepEqual(await takeTags(), ['products', ...[...ids.map(productTag), groupTag('sock')].sort()])
})

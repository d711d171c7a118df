import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { assertProblem } from '../../test/problem.ts'
import { startStore } from '../../test/store.ts'
import { ADVERTISING_PARAMETERS, withoutAdvertisingParameters } from './advertising-parameters.ts'

const NAMES = ADVERTISING_PARAMETERS.replace('utm_[^=&]*', 'utm_source|utm_medium|utm_id|utm_').split('|')
const store = await startStore({ after }, { shopProductUrl: 'https://shop.example/{slug}' })
const lamp = await store.addProduct()
await store.addProduct()
const ada = await store.register()

test('removes the parameters that advertisers add, and the remaining address is the linked one', () => {
  for (const name of NAMES) {
    for (const [with_, without] of [
      [`/products?${name}=a.B-1%20`, '/products'],
      [`/products?${name}`, '/products'],
      [`/products?limit=1&${name}=x`, '/products?limit=1'],
      [`/products?${name}=x&limit=1`, '/products?limit=1'],
      [`/products?utm_source=a&limit=1&${name}=x&${name}=y&q=${name}`, `/products?limit=1&q=${name}`],
    ] as const) {
      assert.equal(withoutAdvertisingParameters(with_), without)
    }
  }
  for (const other of [
    '/products?xgclid=1&gclidx=gclid',
    '/gclid=1?gclid%3D=1',
    '/products?utm=1',
    '/utm_source=1',
    '/products?q=a?',
    '/products#q=chair?utm_source=1',
    '/products?q=a&',
  ])
    assert.equal(withoutAdvertisingParameters(other), other)
})

test('public reads ignore advertising parameters in the answer, its links and the page cache', async () => {
  const plain = await store.call('GET', '/products?limit=1')
  for (const name of NAMES) {
    const answer = await store.call('GET', `/products?${name}=A1&limit=1&${name}=A2`)
    assert.deepEqual([answer.status, answer.text, answer.headers.etag], [200, plain.text, plain.headers.etag], name)
    assert.equal(answer.headers.link, plain.headers.link)
    for (const path of [
      '/products/facets',
      '/categories',
      `/products/${lamp.id}`,
      '/feeds/products.xml',
      '/feeds/products.ndjson',
      '/openapi.json',
    ])
      assert.equal((await store.call('GET', `${path}?${name}=A1`)).status, 200, `${path} ${name}`)
  }
})

test("does not cache an address under another page's key when a value ends in such a parameter or a question mark", async () => {
  for (const [index, ending] of ['?utm_source=1', '?utm_source', '?gclid=1', '?', '&q=other'].entries()) {
    const address = `/products?q=lamp&limit=${index + 2}`
    const separate = `/products?limit=${index + 2}&q=lamp`
    assert.equal(withoutAdvertisingParameters(separate + ending), separate + ending)
    for (let times = 0; times < 2; times++) await store.call('GET', separate + ending)
    assert.equal((await store.call('GET', separate)).text, (await store.call('GET', address)).text, ending)
  }
  // The value of a filter is checked, because another product does not match it.
  const found = `/products?ids=${lamp.id}&q=${encodeURIComponent(lamp.name)}`
  for (let times = 0; times < 2; times++) await store.call('GET', `${found}?utm_source=1`)
  assert.equal((await store.call('GET', `${found}`)).json.data.length, 1)
})

test('other unknown parameters stay errors, and so do advertising parameters at addresses without public pages', async () => {
  for (const name of ['utmsource', 'gclidx', 'xgclid', 'page', 'GCLID', 'ga'])
    assertProblem(await store.call('GET', `/products?${name}=1`), 400, 'invalid_query', name)
  assertProblem(await ada.call('GET', '/orders?utm_source=mail'), 400, 'invalid_query')
})

test('Varnish removes the same parameters', () => {
  const vcl = readFileSync(new URL('../../deploy/varnish/default.vcl', import.meta.url), 'utf8')
  assert.ok(vcl.includes(`"&(?:${ADVERTISING_PARAMETERS})(?:=[^&]*)?(?=&|$)"`))
})

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { registerOperator } from './register-operator.ts'
import { startStore } from './store.ts'

const DOCUMENT = readFileSync(new URL('../docs/catalogue.md', import.meta.url), 'utf8')

test('the bodies of the document are accepted in their order, with what it says about the answers', async (t) => {
  const [newProduct, productChange, newCategory, categoryChange, ...others] = [...DOCUMENT.matchAll(/^```json\n([\s\S]*?)```/gm)].map(
    ([, text = '']) => JSON.parse(text),
  )
  assert.deepEqual(others, [])
  const store = await startStore(t)
  const { token } = await registerOperator(store)
  const call = (method: string, path: string, options: object = {}) => store.call(method, path, { token, ...options })

  const created = await call('POST', '/admin/products', { body: newProduct })
  assert.equal(created.status, 201, created.text)
  const { id, slug } = created.json
  assert.equal(slug, 'blue-mug')
  const path = `/admin/products/${id}`
  const change = (ifMatch?: string) =>
    call('PATCH', path, { body: productChange, headers: ifMatch === undefined ? {} : { 'if-match': ifMatch } })
  assert.equal((await change()).json.code, 'if_match_required')
  const changed = await change(String((await call('GET', path)).headers.etag))
  assert.equal(changed.status, 200, changed.text)
  assert.deepEqual([changed.json.slug, changed.json.attributes], [productChange.slug, newProduct.attributes])
  assert.equal((await change(String(created.headers.etag))).json.code, 'precondition_failed')
  assert.equal((await store.call('GET', `/products/by-slug/${slug}`)).status, 301)
  assert.equal((await call('GET', `${path}/prices`)).json.data.length, 2)

  const category = await call('POST', '/admin/categories', { body: newCategory })
  const categoryPath = `/admin/categories/${category.json.id}`
  const read = await call('GET', categoryPath)
  const renamed = await call('PATCH', categoryPath, { body: categoryChange, headers: { 'if-match': String(read.headers.etag) } })
  assert.deepEqual([renamed.status, renamed.json.name, renamed.json.position], [200, categoryChange.name, categoryChange.position])

  assert.equal((await call('DELETE', path)).status, 204)
  assert.equal((await store.call('GET', `/products/${id}`)).status, 404)
  const line = JSON.stringify({ ...newProduct, slug: productChange.slug })
  const imported = await call('POST', '/admin/products/import', { raw: line, headers: { 'content-type': 'application/x-ndjson' } })
  assert.match(imported.text, /"updated"/)
  assert.equal((await store.call('GET', `/products/${id}`)).status, 200)
})

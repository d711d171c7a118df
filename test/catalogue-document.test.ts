import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { registerOperator } from './register-operator.ts'
import { startStore } from './store.ts'
import { makeTestFolder } from './test-folder.ts'

const DOCUMENT = readFileSync(new URL('../docs/shop/catalogue.md', import.meta.url), 'utf8')

const BODIES = [...DOCUMENT.matchAll(/^```json\n([\s\S]*?)```/gm)].map(([, text = '']) => JSON.parse(text))
const CURLS = [...DOCUMENT.matchAll(/^curl (?:.*\\\n)*.*$/gm)].map(([line]) => line)

test('the bodies of the document are accepted in their order, with what it says about the answers', async (t) => {
  const [newProduct, productChange, publication, sales, newCategory, categoryChange, order, variant, groupChange, ...others] = BODIES
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
  const planned = await call('PATCH', path, { body: publication, headers: { 'if-match': '*' } })
  assert.deepEqual([planned.status, planned.json.status], [200, 'active'], planned.text)
  await call('PATCH', path, { body: { published_at: null }, headers: { 'if-match': '*' } })
  assert.equal((await call('GET', `${path}/prices`)).json.data.length, 2)
  const onSale = await call('PATCH', path, { body: sales, headers: { 'if-match': '*' } })
  assert.deepEqual([onSale.status, onSale.json.price], [200, productChange.price], onSale.text)

  const category = await call('POST', '/admin/categories', { body: newCategory })
  const categoryPath = `/admin/categories/${category.json.id}`
  const read = await call('GET', categoryPath)
  const renamed = await call('PATCH', categoryPath, { body: categoryChange, headers: { 'if-match': String(read.headers.etag) } })
  assert.deepEqual([renamed.status, renamed.json.name, renamed.json.position], [200, categoryChange.name, categoryChange.position])

  await call('PATCH', path, { body: { categories: [[renamed.json.name]] }, headers: { 'if-match': '*' } })
  assert.deepEqual(Object.keys(order), ['product_ids'])
  const placed = await call('PUT', `${categoryPath}/products`, { body: { product_ids: [id] }, headers: { 'if-match': '*' } })
  assert.equal(placed.status, 200, placed.text)
  const [shown] = (await store.call('GET', `/products?category=${category.json.slug}&sort=position`)).json.data
  assert.equal(shown.id, id)

  const { json: boot } = await call('POST', '/admin/products', { body: variant })
  const group = await call('PATCH', `/admin/groups/${variant.group}`, { body: groupChange, headers: { 'if-match': '*' } })
  assert.equal(group.status, 200, group.text)
  const { attributes, description } = (await call('GET', `/admin/products/${boot.id}`)).json
  assert.deepEqual([attributes, description], [{ lining: 'wool' }, groupChange.description])

  assert.equal((await call('DELETE', path)).status, 204)
  assert.equal((await store.call('GET', `/products/${id}`)).status, 404)
  const line = JSON.stringify({ ...newProduct, slug: productChange.slug })
  const imported = await call('POST', '/admin/products/import', { raw: line, headers: { 'content-type': 'application/x-ndjson' } })
  assert.match(imported.text, /"updated"/)
  assert.equal((await store.call('GET', `/products/${id}`)).status, 200)
})

test('the calls of the document by curl work as they are written', async (t) => {
  const folder = makeTestFolder(t, 'storefront-catalogue-')
  const store = await startStore(t)
  const { token: KEY } = await registerOperator(store)
  const [newProduct, productChange] = BODIES
  const [post = '', patch = '', importFile = '', ...others] = CURLS
  assert.deepEqual(others, [])
  const run = async (line: string, more: Record<string, string> = {}) => {
    const env = { PATH: process.env.PATH, STORE: store.server.listeningOrigin, KEY, ...more }
    return (await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', line], { cwd: folder, env, timeout: 30_000 })).stdout
  }
  const write = (name: string, body: object) => writeFileSync(join(folder, name), JSON.stringify(body))
  write('body.json', newProduct)
  const created = await run(post)
  assert.match(created, /^HTTP\/1\.1 201 /)
  write('body.json', productChange)
  const { id } = JSON.parse(created.slice(created.lastIndexOf('\r\n\r\n')))
  assert.match(await run(patch, { ID: id, ETAG: /^etag: (.*)\r$/im.exec(created)?.[1] ?? '' }), /^HTTP\/1\.1 200 /)
  write('products.ndjson', { ...newProduct, sku: 'MUG-RED' })
  assert.match(await run(importFile), /"outcome":"created"[\s\S]*"failed":0/)
})

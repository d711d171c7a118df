import assert from 'node:assert/strict'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import { ONLY_FOR_OPERATORS } from '../../test/edited-product.ts'
import { eventually } from '../../test/eventually.ts'
import { placeOrder } from '../../test/guests.ts'
import { assertProblem, faults } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { type Answer, type CallOptions, startStore } from '../../test/store.ts'

const store = await startStore({ after })
const ada = await store.register()
const { token: operator } = await registerOperator(store)
const LAMP = { name: 'A lamp', category: 'lamps', price: { amount: 1_999, currency: 'EUR' } }
let lastSku = 0

const call = (method: string, path: string, options: CallOptions = {}) => store.call(method, path, { token: operator, ...options })
const create = async (changes: object = {}): Promise<Answer> => {
  const answer = await call('POST', '/admin/products', { body: { ...LAMP, sku: `SKU-${++lastSku}`, ...changes } })
  assert.equal(answer.status, 201, answer.text)
  return answer
}
const patch = (id: string, etag: string | undefined, body: object) =>
  call('PATCH', `/admin/products/${id}`, { body, headers: etag === undefined ? {} : { 'if-match': etag } })

async function readStock(id: string): Promise<{ available: number | null; in_stock: boolean }> {
  const { rows } = await store.pool.query('select available, in_stock from products join inventory on product_id = id where id = $1', [id])
  return rows[0]
}

test('adds a product that is visible at once', async () => {
  const answer = await create({ group: 'lamp', options: { colour: 'red' }, stock: 3 })
  const { json, headers } = answer
  assert.equal(headers.location, `http://localhost:3000/products/${json.id}`)
  const seen = await store.call('GET', `/products/${json.id}`)
  assert.deepEqual({ ...seen.json, ...ONLY_FOR_OPERATORS }, json)
  assert.ok(seen.headers.etag?.startsWith(headers.etag?.slice(0, -1) ?? '?'), 'the tag of the page begins with that of an edit')
  assert.deepEqual([json.group, json.options, json.in_stock], ['lamp', { colour: 'red' }, true])
  assert.deepEqual(await readStock(json.id), { available: 3, in_stock: true })
  assert.deepEqual(await readStock((await create({ stock: 0 })).json.id), { available: 0, in_stock: false })
  assert.deepEqual(await readStock((await create()).json.id), { available: null, in_stock: true })
})

test('refuses a product that an import would refuse, and a sku that another product has', async () => {
  const { sku } = (await create()).json
  assertProblem(await call('POST', '/admin/products', { body: { ...LAMP, sku } }), 409, 'sku_taken')
  for (const [changes, pointer] of [
    [{ sku: 'a\tb' }, '#/sku'],
    [{ sku: 'a\u200bb' }, '#/sku'],
    [{ name: '\u200b\u2060' }, '#/name'],
    [{ name: '  ' }, '#/name'],
    [{ image_url: 'javascript:alert(1)' }, '#/image_url'],
  ] as const) {
    const answer = await call('POST', '/admin/products', { body: { ...LAMP, sku: 'NEW', ...changes } })
    const found = faults(assertProblem(answer, 422, 'invalid_body', JSON.stringify(changes)))
    assert.ok(found.includes(pointer), `${pointer} in ${found}`)
  }
  const { rowCount } = await store.pool.query(`select from products where sku = 'NEW'`)
  assert.equal(rowCount, 0)
})

test('a patch changes the properties if the product is in the state that If-Match names', async () => {
  const created = await create({ description: 'Bright.', stock: 2 })
  const { id } = created.json
  const changed = await patch(id, created.headers.etag, { name: 'B', price: { amount: 5, currency: 'EUR' } })
  assert.equal(changed.status, 200, changed.text)
  const { updated_at } = changed.json
  assert.deepEqual(changed.json, { ...created.json, name: 'B', price: { amount: 5, currency: 'EUR' }, updated_at })
  assert.ok(updated_at > created.json.updated_at)
  assertProblem(await patch(id, created.headers.etag, { name: 'C' }), 412, 'precondition_failed')
  assert.equal((await store.call('GET', `/products/${id}`)).json.name, 'B')
  // A compressing cache forwards the tag like this.
  const weak = `W/${changed.headers.etag?.replace(/"$/, '-gzip"')}`
  assert.equal((await patch(id, weak, { name: 'C' })).status, 200)
})

test('selling the last unit and setting stock keep the edit tag and change the page tag', async () => {
  const { json, headers } = await create({ stock: 1 })
  const page = async () => (await store.call('GET', `/products/${json.id}`)).headers.etag
  const tags = [await page()]
  await placeOrder(store, ada.token, json)
  await eventually(async () => (await page()) !== tags[0], { what: 'the page of a product that is sold out' })
  tags.push(await page())
  assert.equal((await call('GET', `/admin/products/${json.id}`)).headers.etag, headers.etag)
  await call('PUT', `/admin/products/${json.id}/stock`, { body: { stock: 5 }, headers: { 'if-match': '*' } })
  await eventually(async () => (await page()) !== tags[1], { what: 'the page of a product that is sold again' })
  assert.equal((await patch(json.id, headers.etag, { name: 'B' })).status, 200)
  for (const tag of [headers.etag, ...tags, await store.call('GET', '/products').then((list) => list.headers.etag)]) {
    assertProblem(await patch(json.id, tag, { name: 'C' }), 412, 'precondition_failed')
  }
})

test('a patch replaces options and price as a whole, and accepts null for properties that may be null', async () => {
  const created = await create({ group: 'lamps', image_url: 'https://img.example/1.png', options: { size: 'M', colour: 'red' } })
  const { id } = created.json
  const changed = await patch(id, created.headers.etag, { options: { size: 'L' }, group: null, image_url: null })
  assert.deepEqual([changed.json.options, changed.json.group, changed.json.image_url], [{ size: 'L' }, null, null])
  assert.deepEqual((await store.call('GET', `/products/${id}`)).json.options, { size: 'L' })
})

test('refuses a patch with a sku that another product has, and a patch of an unknown product', async () => {
  const [first, second] = [await create(), await create()]
  const { id } = second.json
  assertProblem(await patch(id, '*', { sku: first.json.sku }), 409, 'sku_taken')
  assertProblem(await patch('01900000-0000-7000-8000-000000000000', '*', { name: 'B' }), 404, 'not_found')
})

test('an archived product is in no list and cannot be ordered, and existing orders keep it', async () => {
  const { id, sku } = (await create({ stock: 5 })).json
  const placed = await store.call('POST', '/orders', { token: ada.token, body: { items: [{ product_id: id, quantity: 1 }] } })
  assert.equal((await call('DELETE', `/admin/products/${id}`)).status, 204)
  assertProblem(await store.call('GET', `/products/${id}`), 404, 'not_found')
  for (const query of ['limit=100', 'q=lamp&limit=100', `ids=${id}`, 'sort=price&category=lamps&limit=100']) {
    assert.ok(!(await store.call('GET', `/products?${query}`)).text.includes(id), query)
  }
  const again = await store.call('POST', '/orders', { token: ada.token, body: { items: [{ product_id: id, quantity: 1 }] } })
  assertProblem(again, 422, 'unknown_product')
  const order = await store.call('GET', `/orders/${placed.json.id}`, { token: ada.token })
  assert.equal(order.json.items[0].sku, sku)
  assertProblem(await call('DELETE', `/admin/products/${id}`), 404, 'not_found')
  assertProblem(await patch(id, '*', { name: 'B' }), 404, 'not_found')
  assertProblem(await call('PUT', `/admin/products/${id}/stock`, { body: { stock: 1, expected: 4 } }), 404, 'not_found')
  // The cancelled order still returns its unit.
  assert.equal((await store.call('POST', `/orders/${placed.json.id}/cancel`, { token: ada.token })).status, 200)
  assert.equal((await readStock(id)).available, 5)
})

test('imports lines while they arrive, and returns the outcome of each line', async () => {
  const { address, port } = store.server.server.address() as AddressInfo
  const good = (sku: string, changes: object = {}) => JSON.stringify({ ...LAMP, sku, stock: 1, ...changes })
  const lines = [
    good('IMPORT-1'),
    '{"sku":',
    good('IMPORT-2', { sku: undefined }),
    good('IMPORT-3', { price: { amount: -1, currency: 'EUR' } }),
    good('IMPORT-4', { price: { amount: 1, currency: 'XXQ' } }),
    good('x'.repeat(300)),
    good('IMPORT-1'),
    good('IMPORT-5'),
  ]
  const send = async () => {
    const answer = await fetch(`http://${address}:${port}/admin/products/import`, {
      method: 'POST',
      headers: { authorization: `Bearer ${operator}`, 'content-type': 'application/x-ndjson' },
      body: lines.join('\n'),
    })
    assert.equal(answer.status, 200)
    return (await answer.text())
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
  }
  const results = await send()
  assert.deepEqual(results.at(-1), { created: 2, updated: 0, unchanged: 0, failed: 6 })
  assert.deepEqual(
    results.slice(0, -1).map(({ line, outcome, error }) => [line, outcome ?? error]),
    [
      [1, 'created'],
      [2, 'the line is not valid JSON'],
      [3, 'sku must be a text'],
      [4, 'price.amount must be a whole number of minor units from 0 to 9007199254740991'],
      [5, 'price.currency must be an ISO 4217 code such as EUR'],
      [6, 'sku must have 1 to 64 characters'],
      [7, 'sku IMPORT-1 was already on line 1'],
      [8, 'created'],
    ],
  )
  assert.deepEqual((await send()).at(-1), { created: 0, updated: 0, unchanged: 2, failed: 6 })
  assert.equal((await store.call('GET', '/products?q=IMPORT-5')).json.data.length, 1)
  const untyped = assertProblem(await call('POST', '/admin/products/import', { body: {} }), 415, 'unsupported_media_type')
  assert.match(untyped.detail, /application\/x-ndjson/)
  assertProblem(await call('POST', '/admin/products/import'), 415, 'unsupported_media_type')
})

test('imports CSV like the command does, and reports each record under its first line', async () => {
  const send = (text: string, type = 'text/csv; charset=utf-8') =>
    call('POST', '/admin/products/import', { raw: text, headers: { 'content-type': type } })
  const results = ({ text }: Answer) =>
    text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
  const answer = await send(
    'sku,name,category,price,stock\nCSV-1,"A ""lamp""",lamps,12.50,4\nCSV-2,"A\nvase",vases,1.00,\nCSV-3,A vase,vases,1.005,\n',
  )
  assert.equal(answer.status, 200, answer.text)
  assert.deepEqual(results(answer), [
    { line: 2, sku: 'CSV-1', outcome: 'created' },
    { line: 3, error: 'name must have no control characters and no line breaks (lines 3 to 4)' },
    { line: 5, error: results(answer)[2].error },
    { created: 1, updated: 0, unchanged: 0, failed: 2 },
  ])
  assert.match(results(answer)[2].error, /price/)
  const [product] = (await store.call('GET', '/products?q=CSV-1')).json.data
  assert.deepEqual([product.name, product.price], ['A "lamp"', { amount: 1_250, currency: 'EUR' }])
  assert.match(results(await send('sku,name\nCSV-4,A lamp'))[0].error, /the header/)
  assert.match(results(await send('sku,name\n', 'application/x-ndjson'))[0].error, /not valid JSON/)
  for (const type of ['Text/CSV', 'TEXT/CSV;Charset="UTF-8"', 'text/csv ; header=present; charset=us-ascii']) {
    assert.match(results(await send('sku,name\n', type))[0].error, /the header/, type)
  }
  for (const type of ['text/csv; charset=klingon', 'application/x-ndjson; charset=utf-16', 'application/x-ndjson; charset=iso-8859-1']) {
    assertProblem(await send('sku,name\n', type), 415, 'unsupported_media_type')
  }
})

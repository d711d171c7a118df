import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { assertProblem, faults } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { type CallOptions, startStore } from '../../test/store.ts'

const store = await startStore({ after })
const { token } = await registerOperator(store)
const LAMP = { name: 'A lamp', category: 'lamps', price: { amount: 1_999, currency: 'EUR' } }
const ATTRIBUTES = { material: 'brass & <b>glass</b>', 'care.wash': '', weight_g: 340, rating: -0.5, dimmable: true, constructor: 'x' }
let lastSku = 0

const call = (method: string, path: string, options: CallOptions = {}) => store.call(method, path, { token, ...options })
const create = (changes: object = {}) => call('POST', '/admin/products', { body: { ...LAMP, sku: `SKU-${++lastSku}`, ...changes } })

test('keeps attributes as they are sent, in the product and in lists', async () => {
  const { status, json } = await create({ attributes: ATTRIBUTES })
  assert.equal(status, 201)
  assert.deepEqual(json.attributes, ATTRIBUTES)
  assert.deepEqual((await store.call('GET', `/products/${json.id}`)).json.attributes, ATTRIBUTES)
  const listed = (await store.call('GET', '/products?limit=100')).json.data.find(({ id }: { id: string }) => id === json.id)
  assert.deepEqual(listed.attributes, ATTRIBUTES)
})

test('an answer omits `attributes` if the product has none', async () => {
  for (const changes of [{}, { attributes: {} }]) {
    const { json } = await create(changes)
    assert.equal('attributes' in json, false)
    assert.doesNotMatch((await store.call('GET', `/products?ids=${json.id}`)).text, /attributes/)
  }
})

test('a change replaces all attributes, and keeps them if it does not name them', async () => {
  const { json, headers } = await create({ attributes: ATTRIBUTES })
  const patch = (etag: string | undefined, body: object) =>
    call('PATCH', `/admin/products/${json.id}`, { body, headers: { 'if-match': String(etag) } })
  const renamed = await patch(headers.etag, { name: 'Lamp' })
  assert.deepEqual(renamed.json.attributes, ATTRIBUTES)
  const replaced = await patch(renamed.headers.etag, { attributes: { colour: 'red' } })
  assert.deepEqual(replaced.json.attributes, { colour: 'red' })
  assert.notEqual(replaced.headers.etag, renamed.headers.etag)
  const emptied = await patch(replaced.headers.etag, { attributes: {} })
  assert.equal('attributes' in emptied.json, false)
  assertProblem(await patch(emptied.headers.etag, { attributes: null }), 422, 'invalid_body')
})

const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`key-${index}`, index]))
const ofBytes = (bytes: number) => ({
  ...Object.fromEntries([...'abcdefgh'].map((key) => [key, 'x'.repeat(490)])),
  z: 'x'.repeat(bytes - 3_984),
})

test('accepts attributes up to the limits, and refuses those beyond them', async () => {
  assert.equal(Buffer.byteLength(JSON.stringify(ofBytes(4_096))), 4_096)
  for (const attributes of [many(50), { ['k'.repeat(50)]: 'é'.repeat(500) }, ofBytes(4_096), { n: Number.MAX_SAFE_INTEGER }]) {
    const { status, json, text } = await create({ attributes })
    assert.equal(status, 201, text)
    assert.deepEqual(json.attributes, attributes)
  }
  const { rows: before } = await store.pool.query('select count(*) from products')
  for (const attributes of [
    ...[many(51), ofBytes(4_097), { ['k'.repeat(200_000)]: 1 }, { a: 'é'.repeat(501) }, { 'a\n': 1 }, { a: 1e300 }],
  ]) {
    const answer = await create({ attributes })
    assertProblem(answer, 422, 'invalid_body', JSON.stringify(attributes).slice(0, 80))
    assert.ok(
      faults(answer.json).every((pointer) => pointer?.startsWith('#/attributes')),
      answer.text,
    )
  }
  for (const raw of ['{"__proto__": 1}', '{"__proto__": {"a": 1}}', '{"a": 1, "__proto__": "x"}']) {
    const body = JSON.stringify({ ...LAMP, sku: 'PROTO', attributes: '-' }).replace('"-"', raw)
    assertProblem(
      await call('POST', '/admin/products', { raw: body, headers: { 'content-type': 'application/json' } }),
      422,
      'invalid_body',
      raw,
    )
  }
  assert.deepEqual((await store.pool.query('select count(*) from products')).rows, before)
})

test('imports attributes from both formats, and a line without attributes removes them', async () => {
  const importAs = async (type: string, raw: string) => {
    const { text } = await call('POST', '/admin/products/import', { raw, headers: { 'content-type': type } })
    return text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
  }
  const attributesOf = async (sku: string) =>
    (await store.pool.query('select attributes from products where sku = $1', [sku])).rows[0].attributes
  const line = (sku: string, more: object = {}) => JSON.stringify({ ...LAMP, sku, ...more })
  await importAs('application/x-ndjson', `${line('I-1', { attributes: ATTRIBUTES })}\n${line('I-2')}\n`)
  assert.deepEqual([await attributesOf('I-1'), await attributesOf('I-2')], [ATTRIBUTES, {}])
  const repeated = await importAs('application/x-ndjson', `${line('I-1', { attributes: ATTRIBUTES })}\n`)
  assert.deepEqual(repeated.map(({ outcome }) => outcome).filter(Boolean), ['unchanged'])
  await importAs('application/x-ndjson', `${line('I-1')}\n`)
  assert.deepEqual(await attributesOf('I-1'), {})

  const csv = 'sku,name,category,price,attributes\nI-3,Lamp,lamps,1.00,"{""weight_g"": 5, ""dimmable"": false}"\nI-4,Lamp,lamps,1.00,\n'
  await importAs('text/csv', csv)
  assert.deepEqual([await attributesOf('I-3'), await attributesOf('I-4')], [{ weight_g: 5, dimmable: false }, {}])
  const refused = await importAs(
    'text/csv',
    'sku,name,category,price,attributes\nI-5,Lamp,lamps,1.00,weight\nI-6,Lamp,lamps,1.00,"{""_a"": 1}"\nI-7,Lamp,lamps,1.00,[]\n',
  )
  assert.match(JSON.stringify(refused), /attributes must be empty or a JSON object/)
  assert.match(JSON.stringify(refused), /attributes must be an object of at most 50 texts/)
  assert.equal((await store.pool.query(`select from products where sku in ('I-5', 'I-6', 'I-7')`)).rowCount, 0)
  const proto = await importAs('application/x-ndjson', line('I-8', { attributes: '-' }).replace('"-"', '{"__proto__": 1}'))
  assert.match(JSON.stringify(proto), /attributes must be an object/)
})

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { assertProblem } from '../../test/problem.ts'
import { startStore } from '../../test/store.ts'

const store = await startStore({ after })
const ada = await store.register()
const lamp = await store.addProduct({ stock: 14 })

/** Numbers of unknown properties: around the length at which TypeBox ends its list of errors, and far above it. */
const COUNTS = [1, 2, 6, 7, 8, 9, 15, 16, 17, 64, 100, 200]

const unknownNames = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`unknown_${index}`, index]))
const unknownQuery = (count: number) => new URLSearchParams(unknownNames(count) as never).toString()

async function readState() {
  const { rows } = await store.pool.query(
    `select (select count(*) from orders) as orders, (select count(*) from users) as users,
      (select count(*) from products) as products, (select sum(available) from inventory) as stock`,
  )
  return rows[0]
}

test('refuses a query whatever the number of unknown names beside a bad value', async () => {
  const injected = "(select 1 from users where email like 'a%')"
  for (const count of COUNTS) {
    for (const value of ['-1', '0', '101', 'x', injected]) {
      const query = `${unknownQuery(count)}&limit=${encodeURIComponent(value)}`
      for (const path of ['/products', '/orders']) {
        const answer = await ada.call('GET', `${path}?${query}`)
        const problem = assertProblem(answer, 400, 'invalid_query', `${path} ${count} ${value}`)
        assert.ok(problem.errors.length > 0, 'an explanation')
      }
    }
    assertProblem(await store.call('GET', `/products?${unknownQuery(count)}`), 400, 'invalid_query', String(count))
  }
})

test('refuses a body whatever the number of unknown names beside a bad value, and changes nothing', async () => {
  const before = await readState()
  for (const count of COUNTS) {
    const more = unknownNames(count)
    const order = (body: unknown) => ada.call('POST', '/orders', { body })
    for (const quantity of [1, 0, -1, 1.5, '1', 10_001]) {
      const line = { product_id: lamp.id, quantity }
      assertProblem(await order({ ...more, items: [line] }), 422, 'invalid_body', `body ${count} ${quantity}`)
      assertProblem(await order({ items: [{ ...more, ...line }] }), 422, 'invalid_body', `line ${count} ${quantity}`)
      assertProblem(await order({ items: [{ ...line, ...more }, line] }), 422, 'invalid_body', `line first ${count} ${quantity}`)
    }
    const address = { ...more, name: 'A', line1: '1', city: 'C', postal_code: '1', country: 'DE' }
    assertProblem(await order({ items: [{ product_id: lamp.id, quantity: 1 }], shipping_address: address }), 422, 'invalid_body')
    for (const password of ['x', 'a long enough passphrase']) {
      const account = { ...more, email: `flood-${count}@example.com`, password }
      assertProblem(await store.call('POST', '/auth/register', { body: account }), 422, 'invalid_body', `register ${count}`)
    }
  }
  assert.deepEqual(await readState(), before)
})

test('names the unknown properties when nothing else is wrong', async () => {
  const answer = await ada.call('POST', '/orders', {
    body: { items: [{ product_id: lamp.id, quantity: 1, ...unknownNames(20) }] },
  })
  const { errors } = assertProblem(answer, 422, 'invalid_body')
  assert.deepEqual(errors[0], { pointer: '#/items/0/unknown_0', detail: 'is not a known property' })
  const query = assertProblem(await store.call('GET', `/products?${unknownQuery(20)}`), 400, 'invalid_query')
  assert.deepEqual(query.errors[0], { parameter: 'unknown_0', detail: 'is not a known property' })
})

test('refuses a query with more parameters than any call has, even if one is repeated or every value is valid', async () => {
  for (const query of ['a&'.repeat(7_000), 'limit=1&'.repeat(1_500), `limit=1${'&'.repeat(101)}sort=name`, unknownQuery(101)]) {
    for (const path of ['/products', '/orders']) {
      const answer = await ada.call('GET', `${path}?${query}`)
      const { errors } = assertProblem(answer, 400, 'invalid_query', query.slice(0, 20))
      assert.match(errors[0].detail, /comes after 100 others/)
    }
  }
  const twice = assertProblem(await store.call('GET', `/products?${'limit=1&'.repeat(99)}`), 400, 'invalid_query')
  assert.deepEqual(twice.errors[0].parameter, 'limit')
})

test('refuses a body that is too deep or has too many values before parsing it, and names the reason', async () => {
  const order = (raw: string) => ada.call('POST', '/orders', { raw })
  const many = (value: string) => Array(6_000).fill(value).join()
  for (const raw of [`[${many('0')}]`, `[${many('[]')}]`, `{${many('"a":1')}}`, `{"items":[${many('{"a":1}')}]}`]) {
    const { errors } = assertProblem(await order(raw), 422, 'invalid_body', raw.slice(0, 20))
    assert.deepEqual(errors, [{ pointer: '#', detail: 'has more than 5000 values' }])
  }
  const deep = `${'['.repeat(3_000)}${']'.repeat(3_000)}`
  assert.deepEqual(assertProblem(await order(deep), 422, 'invalid_body').errors, [{ pointer: '#', detail: 'is nested more than 32 deep' }])
  // Brackets and commas inside a text are not counted.
  const text = JSON.stringify({
    items: [{ product_id: lamp.id, quantity: 1 }],
    note: '[{",\\"'.repeat(160),
    client_reference: '{'.repeat(90),
  })
  assert.equal((await order(`${text}${' '.repeat(5_000)}`)).status, 201)
})

test('accepts the largest possible order, indented and with every character escaped', async () => {
  const escaped = (length: number) => '\\ud83d\\udca1'.repeat(length)
  const lines = Array.from({ length: 1_000 }, () => ({ product_id: lamp.id.toUpperCase(), quantity: 1 }))
  const address = { line1: 200, line2: 200, city: 100, region: 100, postal_code: 20, phone: 40, name: 200 }
  const texts = Object.entries(address).map(([name, length]) => `"${name}": "${escaped(length)}"`)
  const more = `"note": "${escaped(1_000)}", "client_reference": "${escaped(100)}", "shipping_address": {${texts.join()}, "country": "DE"}`
  const raw = JSON.stringify({ items: lines }, null, 4).replace(/\}$/, `, ${more}}`)
  assert.ok(raw.length > 130_000)
  // Fourteen units are in stock, so this refusal proves that the body was read.
  assertProblem(await ada.call('POST', '/orders', { raw }), 409, 'insufficient_stock')
})

test('limits the body of each call to what the call needs', async () => {
  for (const [method, path, limit] of [
    ['POST', '/auth/login', 16_384],
    ['POST', '/auth/register', 16_384],
    ['PATCH', '/me', 16_384],
    ['POST', `/orders/${lamp.id}/cancel`, 1_024],
    ['POST', '/orders', 262_144],
  ] as const) {
    const send = (length: number) => ada.call(method, path, { raw: `{"a":1}${' '.repeat(length - 7)}` })
    assert.notEqual((await send(limit)).status, 413, path)
    assertProblem(await send(limit + 1), 413, 'payload_too_large', path)
  }
})

test('truncates long names in an error', async () => {
  const name = 'n'.repeat(10_000)
  const body = { ...Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`${name}${index}`.slice(-200), 1])), [name]: 1 }
  const answer = await ada.call('POST', '/orders', { body })
  const { errors } = assertProblem(answer, 422, 'invalid_body')
  assert.ok(errors.length > 0)
  assert.ok(answer.text.length < 10_000, String(answer.text.length))
})

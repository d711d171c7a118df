import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { assertProblem, faults } from '../../test/problem.ts'
import { type CallOptions, startStore } from '../../test/store.ts'

const store = await startStore({ after })
const ada = await store.register()
const lamp = await store.addProduct({ stock: null })
const UNKNOWN_ID = '01900000-0000-7000-8000-000000000000'

const order = (options: CallOptions) => store.call('POST', '/orders', { token: ada.token, ...options })
const goodBody = JSON.stringify({ items: [{ product_id: lamp.id, quantity: 1 }] })

async function countOrders(): Promise<number> {
  const { rows } = await store.pool.query<{ count: number }>('select count(*) from orders')
  return rows[0]?.count ?? -1
}

test('refuses a body that is not JSON and places no order', async () => {
  const before = await countOrders()
  for (const raw of ['{', '{"items":[}', "{'items':[]}", 'null,', '{"a":1}{"b":2}', '{"items":[NaN]}', '']) {
    assertProblem(await order({ raw }), 400, 'malformed_json', raw)
  }
  assert.equal(await countOrders(), before)
})

test('refuses a body that is not UTF-8', async () => {
  const before = await countOrders()
  const latin1 = Buffer.from(goodBody.replace('}]}', '}],"note":"caf\u00e9"}'), 'latin1')
  assertProblem(await order({ raw: latin1 }), 400, 'malformed_json')
  assertProblem(await order({ raw: Buffer.from(goodBody, 'utf16le') }), 400, 'malformed_json')
  assert.equal(await countOrders(), before)
})

test('a call without a body accepts {} and refuses properties, which it would drop silently', async () => {
  const customer = await store.register()
  const logOut = (options: CallOptions) => store.call('POST', '/auth/logout', { token: customer.token, ...options })
  assert.deepEqual(faults(assertProblem(await logOut({ body: { session_id: 'another' } }), 422, 'invalid_body')), ['#/session_id'])
  for (const raw of ['null', '[]', '"now"']) assert.deepEqual(faults(assertProblem(await logOut({ raw }), 422, 'invalid_body', raw)), ['#'])
  assert.equal((await customer.call('GET', '/me')).status, 200, 'nothing was done')
  const forgotten = await customer.call('DELETE', `/me/addresses/${UNKNOWN_ID}`, { body: { reason: 'moved' } })
  assert.deepEqual(faults(assertProblem(forgotten, 422, 'invalid_body')), ['#/reason'])
  assertProblem(await customer.call('DELETE', `/me/addresses/${UNKNOWN_ID}`, { body: {} }), 404, 'not_found')
  assert.equal((await logOut({ body: {} })).status, 204)
  await store.ok('POST', '/auth/logout', { token: (await store.register()).token, raw: '' })
})

test('refuses JSON that is not an object, at any depth, and names the body itself', async () => {
  for (const raw of ['null', '1', '"text"', '[]', 'true', '['.repeat(100_000) + ']'.repeat(100_000)]) {
    assert.deepEqual(faults(assertProblem(await order({ raw }), 422, 'invalid_body', raw.slice(0, 20))), ['#'])
  }
})

test('refuses a body without the JSON content type, and a missing body', async () => {
  const before = await countOrders()
  for (const type of [
    'text/plain',
    'application/xml',
    'application/jsonx',
    'application/problem+json',
    'text/plain, application/json',
    'a',
  ]) {
    assertProblem(await order({ raw: goodBody, headers: { 'content-type': type } }), 415, 'unsupported_media_type', type)
  }
  assertProblem(await order({}), 415, 'unsupported_media_type', 'no body')
  const headers = { authorization: `Bearer ${ada.token}` }
  const untyped = await store.server.inject({ method: 'POST', url: '/orders', headers, payload: Buffer.from(goodBody) })
  assert.equal(untyped.statusCode, 415, untyped.body)
  assert.equal(await countOrders(), before)
})

test('accepts JSON with a charset parameter and in any case', async () => {
  for (const type of ['application/json; charset=utf-8', 'Application/JSON']) {
    assert.equal((await order({ raw: goodBody, headers: { 'content-type': type } })).status, 201, type)
  }
})

test('refuses a body over the limit and places no order', async () => {
  const before = await countOrders()
  assertProblem(await order({ raw: goodBody + ' '.repeat(1_048_576) }), 413, 'payload_too_large')
  assert.equal(await countOrders(), before)
})

test('answers 404 at an unknown address, whatever is sent', async () => {
  for (const path of [
    '/',
    '/nope',
    '/orderx',
    '/orders/x/y/z',
    '/products/a/b',
    '/openapiXjson',
    '/me/',
    '/orders//',
    '//',
    '/%E2%82%AC',
  ]) {
    assertProblem(await ada.call('GET', path), 404, 'not_found', path)
    assertProblem(await store.call('DELETE', path), 404, 'not_found', path)
  }
  assertProblem(await store.call('POST', '/nope', { raw: '{' }), 404, 'not_found')
  assertProblem(await store.call('POST', '/nope', { raw: ' '.repeat(1_100_000) }), 404, 'not_found')
  assertProblem(await store.call('POST', '/nope', { raw: '<a/>', headers: { 'content-type': 'text/xml' } }), 404, 'not_found')
})

test('answers 405 with the methods that a path has', async () => {
  for (const [method, path, allow] of [
    ['POST', '/products', 'GET, HEAD'],
    ['PUT', '/products?limit=1', 'GET, HEAD'],
    ['DELETE', `/products/${lamp.id}`, 'GET, HEAD'],
    ['DELETE', '/orders', 'GET, HEAD, POST'],
    ['PATCH', `/orders/${UNKNOWN_ID}`, 'GET, HEAD'],
    ['GET', `/orders/${UNKNOWN_ID}/cancel`, 'POST'],
    ['GET', '/auth/login', 'POST'],
    ['TRACE', '/readyz', 'GET, HEAD'],
    ['PROPFIND', '/orders', 'GET, HEAD, POST'],
    ['OPTIONS', '/openapi.json', 'GET, HEAD'],
  ] as const) {
    const answer = await store.call(method, path)
    assertProblem(answer, 405, 'method_not_allowed', `${method} ${path}`)
    assert.equal(answer.headers.allow, allow, `${method} ${path}`)
  }
  assertProblem(await store.call('POST', '/products', { raw: '{' }), 405, 'method_not_allowed', 'before the body is read')
})

test('refuses unknown, repeated and out-of-range query parameters, naming each', async () => {
  for (const [query, parameter] of [
    ['page=2', 'page'],
    ['__proto__=1', '__proto__'],
    ['constructor=1', 'constructor'],
    ['limit=1&limit=2', 'limit'],
    ['limit=1&limit=1', 'limit'],
    ...['0', '-1', '1.5', 'abc', '1e9', '0x10', '', '101', '%2B1', '01', '99999999999999999999'].map((n) => [`limit=${n}`, 'limit']),
    ['limit', 'limit'],
    ['cursor=', 'cursor'],
    ['li%6Dit=0', 'limit'],
    ['limit[]=1', 'limit[]'],
  ] as [string, string][]) {
    for (const path of ['/products', '/orders']) {
      const problem = assertProblem(await ada.call('GET', `${path}?${query}`), 400, 'invalid_query', `${path}?${query}`)
      assert.deepEqual(faults(problem), [parameter], query)
    }
  }
})

test('refuses text that PostgreSQL cannot store', async () => {
  for (const text of ['%00', 'a%00b', '%ED%A0%80', '%FF', '%', '%zz']) {
    const problem = assertProblem(await store.call('GET', `/products?q=${text}`), 400, 'invalid_query', text)
    assert.deepEqual(faults(problem), ['q'], text)
  }
  const before = await countOrders()
  for (const text of ['\\u0000', 'a\\u0000b', '\\ud800', '\\udc00\\ud800', 'x\\udfff']) {
    const note = await order({ raw: goodBody.replace('}]}', `}],"note":"${text}"}`) })
    assert.deepEqual(faults(assertProblem(note, 422, 'invalid_body', text)), ['#/note'])
    const address = `{"name":"A","line1":"1","city":"${text}","postal_code":"1","country":"DE"}`
    const nested = await order({ raw: goodBody.replace('}]}', `}],"shipping_address":${address}}`) })
    assert.deepEqual(faults(assertProblem(nested, 422, 'invalid_body', text)), ['#/shipping_address/city'])
  }
  assert.equal(await countOrders(), before)
})

test('refuses properties named like built-in properties of objects', async () => {
  const before = await countOrders()
  for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
    const top = await order({ raw: goodBody.replace('{', `{"${name}":{"quantity":1},`) })
    assert.deepEqual(faults(assertProblem(top, 422, 'invalid_body', name)), [`#/${name}`])
    const line = await order({ raw: goodBody.replace('"quantity"', `"${name}":1,"quantity"`) })
    assert.deepEqual(faults(assertProblem(line, 422, 'invalid_body', name)), [`#/items/0/${name}`])
  }
  assert.equal(await countOrders(), before)
})

test('names unknown properties by a JSON pointer in a URI fragment', async () => {
  const answer = await order({ raw: goodBody.replace('{', '{"a/b~c d\\ud800":1,"":2,') })
  assert.deepEqual(faults(assertProblem(answer, 422, 'invalid_body')).sort(), ['#/', '#/a~1b~0c%20d%EF%BF%BD'])
})

test('refuses an invalid path', async () => {
  for (const path of ['/products/%zz', '/products/%', '/products/%FF', '/orders/%ED%A0%80', '/%C0%AF']) {
    assertProblem(await ada.call('GET', path), 400, 'malformed_request', path)
  }
})

test('answers 404 for invalid ids', async () => {
  for (const id of [
    UNKNOWN_ID,
    'x',
    '%00',
    "'--",
    `urn:uuid:${lamp.id}`,
    `{${lamp.id}}`,
    lamp.id.replaceAll('-', ''),
    'a'.repeat(5_000),
    '..%2f',
  ]) {
    assertProblem(await store.call('GET', `/products/${id}`), 404, 'not_found', id)
    assertProblem(await ada.call('GET', `/orders/${id}`), 404, 'not_found', id)
    assertProblem(await ada.call('POST', `/orders/${id}/cancel`), 404, 'not_found', id)
  }
})

test('a problem has every property and is not cached', async () => {
  const answer = await store.call('GET', '/products?limit=0')
  assert.equal(answer.headers['content-type'], 'application/problem+json')
  assert.equal(answer.headers['cache-control'], 'no-store')
  const problem = answer.json ?? JSON.parse(answer.text)
  assert.match(problem.trace_id, /^[0-9a-f]{32}$/)
  assert.deepEqual(problem, {
    type: 'http://localhost:3000/problems/invalid_query',
    title: 'A query parameter is not valid',
    status: 400,
    detail: 'A query parameter is not valid.',
    code: 'invalid_query',
    request_id: answer.headers['x-request-id'],
    trace_id: problem.trace_id,
    errors: [{ parameter: 'limit', detail: 'must be >= 1' }],
  })
})

test('echoes a plain request id and replaces any other', async () => {
  const path = '/products?limit=1'
  for (const id of ['a', 'trace-1.2_3', 'x'.repeat(128)]) {
    assert.equal((await store.call('GET', path, { headers: { 'x-request-id': id } })).headers['x-request-id'], id)
  }
  for (const id of ['', 'a b', 'x'.repeat(129), '<script>', '$\u007bjndi:ldap://x}', 'caf\u00e9', '../../etc']) {
    const answer = await store.call('GET', path, { headers: { 'x-request-id': id } })
    assert.match(answer.headers['x-request-id'] ?? '', /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/, id)
  }
})

test('reveals nothing about the body to a caller without a token', async () => {
  for (const raw of ['{}', '{', goodBody, ' '.repeat(1_100_000)]) {
    const answer = await store.call('POST', '/orders', { raw })
    assert.equal(assertProblem(answer, 401, 'unauthenticated').errors, undefined)
    assert.equal(answer.headers['www-authenticate'], 'Bearer realm="storefront"')
    assertProblem(await store.call('POST', '/orders', { raw, token: `${ada.token}x` }), 401, 'invalid_token')
  }
  assertProblem(await store.call('GET', '/orders?limit=0'), 401, 'unauthenticated')
  assertProblem(await store.call('POST', '/orders/x/cancel'), 401, 'unauthenticated')
})

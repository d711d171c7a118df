import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { assertProblem } from '../../test/problem.ts'
import { startStore } from '../../test/store.ts'

const SHOP = 'https://shop.example'
const ADMIN = 'http://localhost:5173'
const listed = await startStore({ after }, { corsOrigins: [SHOP, ADMIN] })
const everybody = await startStore({ after }, { corsOrigins: '*' })
const nobody = await startStore({ after })

const preflight = { 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization,content-type' }
const corsHeaders = (headers: Record<string, string | undefined>) =>
  Object.keys(headers).filter((name) => name.startsWith('access-control'))

test('a preflight of a listed origin answers what is allowed, and for how long', async () => {
  for (const origin of [SHOP, ADMIN]) {
    const { status, headers, text } = await listed.call('OPTIONS', '/orders', { headers: { ...preflight, origin } })
    assert.deepEqual([status, text], [204, ''])
    assert.equal(headers['access-control-allow-origin'], origin)
    assert.equal(headers.vary, 'Origin')
    assert.equal(headers['access-control-max-age'], '7200')
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'])
      assert.match(headers['access-control-allow-methods'] ?? '', new RegExp(method))
    for (const name of ['authorization', 'content-type', 'idempotency-key', 'if-match']) {
      assert.match(headers['access-control-allow-headers'] ?? '', new RegExp(`\\b${name}\\b`, 'i'))
    }
    assert.match(headers['x-request-id'] ?? '', /./)
    assert.equal(headers['access-control-allow-credentials'], undefined)
  }
})

test('a listed origin can read answers, refusals and their headers', async () => {
  const ada = await listed.register()
  for (const options of [{ token: ada.token }, {}]) {
    const { status, headers } = await listed.call('GET', '/orders', { ...options, headers: { origin: SHOP } })
    assert.equal(status, 'token' in options ? 200 : 401)
    assert.deepEqual([headers['access-control-allow-origin'], headers.vary], [SHOP, 'Origin'])
    for (const name of ['Link', 'ETag', 'Location', 'Idempotency-Replayed', 'Retry-After', 'RateLimit', 'X-Request-Id']) {
      assert.ok(headers['access-control-expose-headers']?.split(', ').includes(name), name)
    }
  }
  for (const path of ['/nowhere', '/%zz']) {
    assert.equal((await listed.call('GET', path, { headers: { origin: SHOP } })).headers['access-control-allow-origin'], SHOP, path)
  }
})

test('no other origin is allowed, however similar', async () => {
  for (const origin of [
    ...['https://evil.example', 'null', '', 'https://shop.example.evil.example', 'https://evil-shop.example', 'https://shop.examplee'],
    ...[
      'http://shop.example',
      'https://shop.example:8443',
      'https://shop.example/',
      'https://SHOP.example',
      'https://shop.example, https://evil',
    ],
    ...[
      `${SHOP}@evil.example`,
      `https://evil.example/${SHOP}`,
      'https://shop.example%00',
      `${SHOP},${ADMIN}`,
      '*',
      'https://sub.shop.example',
    ],
  ]) {
    const asked = await listed.call('OPTIONS', '/orders', { headers: { ...preflight, origin } })
    assertProblem(asked, 405, 'method_not_allowed', origin)
    const read = await listed.call('GET', '/me', { headers: { origin } })
    for (const { headers } of [asked, read]) assert.deepEqual([corsHeaders(headers), headers.vary], [[], 'Origin'], origin)
  }
  const plain = await listed.call('GET', '/me')
  assert.deepEqual([corsHeaders(plain.headers), plain.headers.vary], [[], 'Origin'], 'a cache must not keep it for a browser either')
  assertProblem(await listed.call('OPTIONS', '/orders', { headers: { origin: SHOP } }), 405, 'method_not_allowed', 'no preflight')
})

test('every origin, and a request without one, gets the same catalogue, from memory and Fastify, whole and as 304', async () => {
  const lamp = await listed.addProduct()
  const { port } = listed
  for (const path of [
    '/products?limit=2',
    `/products/${lamp.id}`,
    `/products/${crypto.randomUUID()}`,
    '/products?limit=0',
    '/openapi.json',
  ]) {
    const seen = new Set<string>()
    let etag = ''
    for (const origin of [undefined, SHOP, 'https://evil.example', 'null']) {
      for (const condition of [{}, { 'if-none-match': etag }]) {
        const { status, headers } = await fetch(`http://127.0.0.1:${port}${path}`, {
          headers: { ...(origin === undefined ? {} : { origin }), ...(Object.values(condition)[0] === '' ? {} : condition) },
        })
        etag = headers.get('etag') ?? ''
        assert.ok([200, 304, 404, 400].includes(status))
        assert.match(headers.get('access-control-expose-headers') ?? '', /ETag/)
        seen.add(`${headers.get('access-control-allow-origin')} ${headers.get('vary')}`)
      }
    }
    const expected = path === '/openapi.json' ? '* null' : etag === '' ? '* null' : '* Accept-Encoding'
    assert.deepEqual([...seen], [expected], path)
  }
})

test('with * every origin is allowed, and no answer depends on the origin', async () => {
  const origin = 'https://anybody.example'
  const asked = await everybody.call('OPTIONS', '/orders', { headers: { ...preflight, origin } })
  const read = await everybody.call('GET', '/me', { headers: { origin } })
  assert.deepEqual([asked.status, read.status], [204, 401])
  for (const { headers } of [asked, read]) {
    assert.deepEqual(
      [headers['access-control-allow-origin'], headers.vary, headers['access-control-allow-credentials']],
      ['*', undefined, undefined],
    )
  }
})

test('without the setting no answer has a CORS header', async () => {
  assertProblem(await nobody.call('OPTIONS', '/orders', { headers: { ...preflight, origin: SHOP } }), 405, 'method_not_allowed')
  for (const path of ['/products', '/me']) {
    const { headers } = await nobody.call('GET', path, { headers: { origin: SHOP } })
    assert.deepEqual(corsHeaders(headers), [])
    assert.doesNotMatch(headers.vary ?? '', /Origin/)
  }
})

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { assertProblem } from '../../test/problem.ts'
import { sendRaw } from '../../test/raw-http.ts'
import { startStore } from '../../test/store.ts'
import { isOwnHost } from './host.ts'

const store = await startStore({ after })
await store.addProduct()

const PATHS = ['/livez', '/products?limit=1', '/nope', '/orders']
/** Sends a request twice, because the second answer for a catalogue page comes from memory. */
async function sendTwice(target: string, headers: readonly string[], version = '1.1') {
  const bytes = `GET ${target} HTTP/${version}\r\n${[...headers, 'Connection: close'].join('\r\n')}\r\n\r\n`
  await sendRaw(store, bytes)
  return sendRaw(store, bytes)
}

test('refuses a request with more than one Host, even if they are equal', async () => {
  for (const path of PATHS) {
    await sendTwice(path, ['Host: a'])
    for (const headers of [
      ['Host: a', 'Host: b'],
      ['Host: a', 'hOST: a'],
      ['Host: a', 'X: y', 'Host:'],
    ]) {
      assertProblem(await sendTwice(path, headers), 400, 'malformed_request', `${path} ${headers}`)
    }
  }
})

test('refuses a request without a Host, except in HTTP/1.0', async () => {
  for (const path of PATHS) assertProblem(await sendTwice(path, []), 400, 'malformed_request', path)
  assert.equal((await sendTwice('/livez', [], '1.0')).status, 200)
})

test('refuses an invalid Host', async () => {
  for (const host of ['a b', 'a/b', 'user@a', 'a, b', 'a:80:80', 'http://a', '[::1', 'a#b', 'a?b']) {
    assertProblem(await sendTwice('/livez', [`Host: ${host}`]), 400, 'malformed_request', host)
  }
  for (const host of ['a', 'shop.example:3000', '127.0.0.1', '[::1]:3000', 'a_b.example', '']) {
    assert.equal((await sendTwice('/livez', [`Host: ${host}`])).status, 200, host)
  }
})

test('accepts a target in absolute form that names the same host, and refuses one that names another host', async () => {
  for (const path of ['/livez', '/products?limit=1']) {
    assert.equal((await sendTwice(`http://shop.example${path}`, ['Host: shop.example'])).status, 200, path)
    assert.equal((await sendTwice(`HTTPS://Shop.Example${path}`, ['Host: shop.example'])).status, 200, path)
    for (const target of ['other.example', 'shop.example:81', 'user@shop.example', 'shop.example.other.example', '']) {
      const answer = await sendTwice(`http://${target}${path}`, ['Host: shop.example'])
      assertProblem(answer, 400, 'malformed_request', target)
    }
  }
  assertProblem(await sendTwice('http://shop.example', ['Host: shop.example']), 404, 'not_found')
})

const OWN = [
  'localhost',
  'LOCALHOST:3000',
  'shop.localhost:3000',
  'localhost.',
  '127.0.0.1',
  '10.1.2.3:81',
  '[::1]:3000',
  '[fd00::1]',
  'store.example',
]
const FOREIGN = [
  'evil.example',
  'evil.example:3000',
  'localhost.evil.example',
  '127.0.0.1.nip.io',
  'xlocalhost',
  'store.example.evil.example',
  'api-1',
  '1',
  '',
]

test("distinguishes the store's hosts from those of other sites", () => {
  const own = { baseUrl: 'https://store.example/v1', allowedHosts: ['api-2'] }
  for (const host of [...OWN, 'API-2:9464', 'store.example:8443', undefined]) assert.equal(isOwnHost(host, own), true, String(host))
  for (const host of FOREIGN) assert.equal(isOwnHost(host, own), false, host)
})

test("the console and its session answer only at the store's hosts, the API at every name that leads to it", async (t) => {
  const shop = await startStore(t, { baseUrl: 'https://store.example', allowedHosts: ['api-2'] })
  const call = (method: string, path: string, host: string) => shop.call(method, path, { headers: { host, origin: `http://${host}` } })
  for (const host of FOREIGN.filter((name) => name !== '')) {
    for (const path of ['/console', '/console/', '/console/main.ts'])
      assertProblem(await call('GET', path, host), 421, 'misdirected_request', host)
    for (const path of ['/console/session', '/console/session/refresh', '/console/session/second-factor', '/console/session/passkey'])
      assertProblem(await call('POST', path, host), 421, 'misdirected_request', `${path} ${host}`)
    assertProblem(await call('DELETE', '/console/session', host), 421, 'misdirected_request', host)
    for (const path of ['/products', '/livez', '/openapi.json', '/docs']) assert.equal((await call('GET', path, host)).status, 200, path)
    assertProblem(await call('GET', '/admin/orders', host), 401, 'unauthenticated', host)
  }
  for (const host of [...OWN, 'api-2:3000']) {
    assert.equal((await call('GET', '/console', host)).status, 200, host)
    assert.equal((await call('POST', '/console/session/refresh', host.toLowerCase())).status, 204, host)
  }
})

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { assertProblem } from '../../test/problem.ts'
import { sendRaw } from '../../test/raw-http.ts'
import { startStore } from '../../test/store.ts'

const store = await startStore({ after })
await store.addProduct()

const PATHS = ['/livez', '/products?limit=1', '/nope', '/orders']
/** Sent twice: the second answer for a page of the catalogue comes from memory. */
async function sendTwice(target: string, headers: readonly string[], version = '1.1') {
  const bytes = `GET ${target} HTTP/${version}\r\n${[...headers, 'Connection: close'].join('\r\n')}\r\n\r\n`
  await sendRaw(store, bytes)
  return sendRaw(store, bytes)
}

test('refuses a request with more than one Host, also when they are the same', async () => {
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

test('accepts a target in absolute form when it names the same host, and refuses it when it names another', async () => {
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

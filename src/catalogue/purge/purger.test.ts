import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { onCleanup } from '../../../test/cleanup.ts'
import { readConfig } from '../../config.ts'
import { createPurgers } from './purger.ts'

interface Heard {
  method: string | undefined
  url: string | undefined
  headers: Record<string, string | string[] | undefined>
  body: string
}

/** A server that records the requests, and replies with `status` and `answer`. */
async function listen(t: TestContext, answer = '{"status":"ok"}', status = 200) {
  const heard: Heard[] = []
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await Array.fromAsync(request)).toString()
    heard.push({ method: request.method, url: request.url, headers: request.headers, body })
    response.writeHead(status, { 'content-type': 'application/json', ...(status === 302 ? { location: '/elsewhere' } : {}) }).end(answer)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onCleanup(t, () => {
    server.closeAllConnections()
    server.close()
  })
  return { heard, port: (server.address() as AddressInfo).port }
}

async function purge(url: string, tags: readonly string[]): Promise<void> {
  for (const purger of createPurgers([url])) await purger.purge(tags)
}

test('asks Varnish to ban all tags at once', async (t) => {
  const { heard, port } = await listen(t)
  await purge(`varnish://127.0.0.1:${port}`, ['products', 'product-1'])
  assert.equal(heard.length, 1)
  assert.deepEqual([heard[0]?.method, heard[0]?.url, heard[0]?.body], ['PURGE', '/', ''])
  assert.equal(heard[0]?.headers['surrogate-key'], 'products product-1')
})

test('asks Fastly for a soft purge by keys, with the token in its header', async (t) => {
  const { heard, port } = await listen(t)
  await purge(`fastly://:to%2Fken@SU1Z0isxPaozGVKXdv0eY?api=http://127.0.0.1:${port}`, ['products', 'product-1'])
  assert.deepEqual([heard[0]?.method, heard[0]?.url], ['POST', '/service/SU1Z0isxPaozGVKXdv0eY/purge'])
  const { 'fastly-key': key, 'fastly-soft-purge': soft, 'content-type': type } = heard[0]?.headers ?? {}
  assert.deepEqual([key, soft, type], ['to/ken', '1', 'application/json'])
  assert.deepEqual(JSON.parse(heard[0]?.body ?? ''), { surrogate_keys: ['products', 'product-1'] })
})

test('asks Cloudflare to purge by tags, with the token in its header', async (t) => {
  const { heard, port } = await listen(t, '{"success":true}')
  await purge(`cloudflare://:token@023e105f4ecef8ad9ca31a8372d0c353?api=http://127.0.0.1:${port}`, ['products', 'product-1'])
  assert.deepEqual([heard[0]?.method, heard[0]?.url], ['POST', '/client/v4/zones/023e105f4ecef8ad9ca31a8372d0c353/purge_cache'])
  assert.equal(heard[0]?.headers.authorization, 'Bearer token')
  assert.equal(heard[0]?.headers['content-type'], 'application/json')
  assert.deepEqual(JSON.parse(heard[0]?.body ?? ''), { tags: ['products', 'product-1'] })
})

test('splits many tags into calls that every cache accepts', async (t) => {
  const { heard, port } = await listen(t)
  const tags = Array.from({ length: 250 }, (_, index) => `product-${index}`)
  await purge(`varnish://127.0.0.1:${port}`, tags)
  const sent = heard.map(({ headers }) => String(headers['surrogate-key']).split(' '))
  assert.deepEqual(
    sent.map(({ length }) => length),
    [100, 100, 50],
  )
  assert.deepEqual(sent.flat(), tags)
})

test('fails, so that it is retried, unless the cache confirms the purge', async (t) => {
  for (const [answer, status] of [
    ['{"success":false}', 200],
    ['{"success":true}', 403],
    ['{"success":true}', 429],
    ['{"success":true}', 503],
    ['<html>', 200],
  ] as const) {
    const { port } = await listen(t, answer, status)
    await assert.rejects(purge(`cloudflare://:token@zone?api=http://127.0.0.1:${port}`, ['a']), `${status} ${answer}`)
  }
  const { port } = await listen(t, '', 302)
  await assert.rejects(purge(`varnish://127.0.0.1:${port}`, ['a']), 'a redirect would lose the method')
})

test('refuses a setting without a known cache, and does not show its token', () => {
  const read = (url: string) => readConfig({ CDN_PURGE_URL: url }).cdnPurgeUrls
  assert.deepEqual(read('varnish://a:6081, fastly://:t@s'), ['varnish://a:6081', 'fastly://:t@s'])
  assert.deepEqual(readConfig({}).cdnPurgeUrls, [])
  for (const url of ['http://a', 'fastly://secret', 'cloudflare://zone', 'varnish:', 'x', 'akamai://:secret@a']) {
    assert.throws(() => read(url), { name: 'ConfigError', message: /^CDN_PURGE_URL must be (?!.*secret)/ }, url)
  }
})

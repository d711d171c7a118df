import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { after, test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { assertProblem } from '../../test/problem.ts'
import { startStore } from '../../test/store.ts'

const store = await startStore({ after })

test('the page runs scripts of this store only, and is in no frame', async () => {
  const { status, headers, text } = await store.call('GET', '/console')
  assert.equal(status, 200)
  assert.match(String(headers['content-security-policy']), /^default-src 'none'; script-src 'self'; .*frame-ancestors 'none'$/)
  assert.doesNotMatch(text, /https?:/)
})

test('serves each module without its types, and 304 while it is unchanged', async () => {
  const modules = readdirSync(new URL('page/', import.meta.url)).filter((name) => name.endsWith('.ts'))
  assert.ok(modules.includes('main.ts'))
  for (const name of [
    ...modules,
    'currency.ts',
    'order-status.ts',
    'product-rules.ts',
    'scopes.ts',
    'shop-time.ts',
    'spreadsheet-guard.ts',
    'uplot.js',
    'uplot.css',
    'console.css',
  ]) {
    const answer = await store.server.inject(`/console/${name}`)
    assert.equal(answer.statusCode, 200, name)
    assert.doesNotMatch(gunzipSync(answer.rawPayload).toString(), /^import type|^interface/m, name)
    const again = await store.server.inject({ url: `/console/${name}`, headers: { 'if-none-match': String(answer.headers.etag) } })
    assert.equal(again.statusCode, 304, name)
  }
})

test('serves no other file', async () => {
  for (const name of [
    'tsconfig.json',
    'index.html',
    '..%2Fpage-routes.ts',
    '%2e%2e%2fsession-routes.ts',
    'none.ts',
    'constructor',
    '__proto__',
  ]) {
    assertProblem(await store.call('GET', `/console/${name}`), 404, 'not_found', name)
  }
})

test('/console/ leads to /console, whatever the prefix', async () => {
  const { status, headers } = await store.call('GET', '/console/')
  assert.deepEqual([status, headers.location], [308, '../console'])
})

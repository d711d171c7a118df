import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { assertProblem } from '../../test/problem.ts'
import { startStore } from '../../test/store.ts'

const store = await startStore({ after })

/** The files that a page loads. */
const filesOf = (html: string) => [...html.matchAll(/(?:src|href)="([^"]+\.(?:js|css))"/g)].map(([, path = '']) => `/${path}`)

test('the page runs only scripts of this store, and cannot be framed', async () => {
  const { status, headers, text } = await store.call('GET', '/console')
  assert.equal(status, 200)
  assert.match(String(headers['content-security-policy']), /^default-src 'none'; script-src 'self'; .*frame-ancestors 'none'$/)
  assert.doesNotMatch(text, /https?:/)
})

for (const page of ['/console', '/order']) {
  test(`a browser requests three files for ${page}, and after a reload only its unchanged HTML`, async () => {
    const { text, headers } = await store.call('GET', page)
    const files = filesOf(text)
    assert.equal(files.length, 2)
    for (const file of files) {
      const answer = await store.server.inject(file)
      assert.equal(answer.statusCode, 200, file)
      assert.match(file, /main-[A-Z0-9]{8}\.(js|css)$/)
      assert.equal(answer.headers['cache-control'], 'public, max-age=31536000, immutable')
      assert.ok(gunzipSync(answer.rawPayload).length > 500, file)
      assert.ok(answer.rawPayload.length < 150_000, `${file} has ${answer.rawPayload.length} bytes`)
    }
    const again = await store.server.inject({ url: page, headers: { 'if-none-match': String(headers.etag) } })
    assert.equal(again.statusCode, 304)
  })
}

test('a file of another release redirects to the current one, and no cache keeps the redirection', async () => {
  const { headers, text } = await store.call('GET', '/console')
  assert.match(text, /If this stays, reload the page/, 'until the script runs')
  assert.ok(headers.etag)
  for (const [old, own] of [
    ['main-ABCDEFGH.js', /^main-[A-Z0-9]{8}\.js$/],
    ['main-ABCDEFGH.css', /^main-[A-Z0-9]{8}\.css$/],
  ] as const) {
    const answer = await store.server.inject(`/console/${old}`)
    assert.equal(answer.statusCode, 307, old)
    assert.match(String(answer.headers.location), own)
    assert.equal(answer.headers['cache-control'], 'no-store')
  }
  assertProblem(await store.call('GET', '/console/other-ABCDEFGH.js'), 404, 'not_found')
})

test('serves no other file', async () => {
  for (const name of [
    'tsconfig.json',
    'index.html',
    'main.ts',
    '..%2Fpage-routes.ts',
    '%2e%2e%2fpackage.json',
    'constructor',
    '__proto__',
  ]) {
    assertProblem(await store.call('GET', `/console/${name}`), 404, 'not_found', name)
  }
})

test('/console/ redirects to /console, whatever the prefix', async () => {
  const { status, headers } = await store.call('GET', '/console/')
  assert.deepEqual([status, headers.location], [308, '../console'])
})

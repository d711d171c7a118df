import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { assertProblem } from '../../test/problem.ts'
import { startStore } from '../../test/store.ts'
import { PROBLEMS } from './problem.ts'

const store = await startStore({ after })

test('the type of a problem is the address of a page that explains it', async () => {
  const { json } = await store.call('GET', '/products?limit=no')
  assert.equal(json.type, 'http://localhost:3000/problems/invalid_query')
  const page = await store.call('GET', new URL(json.type).pathname)
  assert.equal(page.status, 200)
  assert.match(page.headers['content-type'] ?? '', /^text\/html/)
  assert.match(page.text, /<h1>A query parameter is not valid<\/h1>.*<dd>400<\/dd>.*<dt>What a client does<\/dt><dd>\w/)
})

test('each code has a page, which loads nothing and runs no scripts', async () => {
  for (const [code, { title }] of Object.entries(PROBLEMS)) {
    const { status, text, headers } = await store.call('GET', `/problems/${code}`)
    assert.equal(status, 200, code)
    assert.ok(text.includes(`<h1>${title}</h1>`), code)
    assert.doesNotMatch(text, /<script|`|\]\(/, code)
    assert.match(headers['content-security-policy'] ?? '', /^default-src 'none'; style-src 'sha256-[^']+'/)
  }
})

test('an unknown code has no page', async () => {
  for (const code of ['nothing', 'toString', '%3Cscript%3E', '..%2Ferrors']) {
    assertProblem(await store.call('GET', `/problems/${code}`), 404, 'not_found', code)
  }
})

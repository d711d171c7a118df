import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'

const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')

test('docs/inside/asvs.md names only tests that exist', () => {
  const named = [...read('docs/inside/asvs.md').matchAll(/`([\w/.-]+\.test\.ts)`: "([^"]+)"/g)]
  assert.ok(named.length > 30)
  for (const [, path = '', wrapped = ''] of named) {
    const title = wrapped.replaceAll(/\s+/g, ' ')
    // The source has the title in either kind of quotes.
    const isThere = [`test('${title}'`, `test("${title}"`].some((text) => read(path).includes(text))
    assert.ok(isThere || read(path).replaceAll('\n', '').includes(`'${title}'`), `${path} has no test "${title}"`)
  }
})

test('docs/inside/security.md names every security event', () => {
  const [, events = ''] = /type SecurityEvent =([^\n]*\n(?: {2}\| '\w+'\n)+)/.exec(read('src/auth/client.ts')) ?? []
  const names = [...events.matchAll(/'(\w+)'/g)].map(([, name = '']) => name)
  assert.ok(names.length > 15)
  const document = read('docs/inside/security.md')
  for (const name of names) assert.ok(document.includes(`\`${name}\``), name)
})

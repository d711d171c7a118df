import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { PROBLEM_SCHEMAS, PROBLEMS } from './problem.ts'

const DOCUMENT = readFileSync(new URL('../../docs/shop/errors.md', import.meta.url), 'utf8')

test('lists the same codes, with the same statuses, in the table and in docs/shop/errors.md', () => {
  const documented = [...DOCUMENT.matchAll(/^\| `(\w+)` \| (\d{3}) \| [^|]+ \| [^|]+ \|$/gm)].map(([, code, status]) => [
    code,
    Number(status),
  ])
  const known = Object.entries(PROBLEMS).map(([code, { status }]) => [code, status])
  assert.deepEqual(documented.sort(), known.sort())
})

test('lists the same codes in the OpenAPI schema', () => {
  assert.deepEqual(PROBLEM_SCHEMAS.flatMap(({ properties }) => properties.code.enum).toSorted(), Object.keys(PROBLEMS).sort())
})

test('gives each code its own title', () => {
  const titles = Object.values(PROBLEMS).map(({ title }) => title)
  assert.equal(new Set(titles).size, titles.length)
})

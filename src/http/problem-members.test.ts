import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { findProblemFaults } from '../../test/problem.ts'
import { PROBLEM_MEMBERS } from './problem-members.ts'

const PROBLEM = {
  ...{ type: 'https://shop.example/problems/x', title: 'x', status: 409, detail: 'x', request_id: 'x', trace_id: 'x' },
}

test('docs/shop/errors.md lists the properties of each code', () => {
  const page = readFileSync(new URL('../../docs/shop/errors.md', import.meta.url), 'utf8')
  const [, table = ''] = /^## Members beyond the standard ones$([\s\S]*)/m.exec(page) ?? []
  const rows = [...table.matchAll(/^\| (.+?) \| (.+?) \|/gm)]
  const wordsOf = (cell = '') => [...cell.matchAll(/`(\w+)`/g)].map(([, word = '']) => word)
  for (const [code, members] of Object.entries(PROBLEM_MEMBERS)) {
    for (const member of Object.keys(members)) {
      const isListed = rows.some(([, names, codes]) => wordsOf(names).includes(member) && wordsOf(codes).includes(code))
      assert.ok(isListed, `${member} of ${code}`)
    }
  }
})

test("a problem with an unknown property, or without a required one, violates the document's schema", () => {
  const shortages = [{ product_id: crypto.randomUUID(), requested: 2, available: 1 }]
  assert.deepEqual(findProblemFaults({ ...PROBLEM, code: 'insufficient_stock', shortages } as never), [])
  assert.deepEqual(findProblemFaults({ ...PROBLEM, code: 'sku_taken', shortages } as never), ['shortages is not in the schema'])
  assert.equal(findProblemFaults({ ...PROBLEM, code: 'insufficient_stock' } as never).length, 1)
})

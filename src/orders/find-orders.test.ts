import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createTestDatabase } from '../../test/database.ts'
import { createPool } from '../db/pool.ts'
import { findOrders } from './find-orders.ts'
import { readSearchText } from './search-text.ts'

const { url } = await createTestDatabase({ after })
const pool = createPool({ url, size: 1, applicationName: 'test', onError: () => {} })
after(() => pool.end())
const NOBODY = { findPeople: null, findProducts: async () => [] }

/** Replaces all texts. Each sixth order has the name Legion. Returns the numbers of those orders, newest first. */
async function addTexts(count: number, numberOf: (place: number) => number): Promise<number[]> {
  const numbers = Array.from({ length: count }, (_, place) => numberOf(place + 1))
  await pool.query('truncate order_search_texts')
  await pool.query(
    `insert into order_search_texts (number, words)
    select number, case when place % 6 = 0 then ' legion of orders' else ' somebody else' end
    from unnest($1::bigint[]) with ordinality as given (number, place)`,
    [numbers],
  )
  await pool.query('analyze order_search_texts')
  return numbers.filter((_, index) => (index + 1) % 6 === 0).reverse()
}

async function walk(q: string, most: number): Promise<number[]> {
  const text = await readSearchText(pool, q)
  const found: number[] = []
  for (;;) {
    const last = found.at(-1)
    const page = await findOrders(pool, text, NOBODY, { most, ...(last === undefined ? {} : { before: last }) })
    found.push(...page)
    if (page.length < most) return found
  }
}

test('pages more than a thousand orders that resemble the search text without gaps, newest first', async () => {
  const all = await addTexts(7_000, (place) => place)
  assert.deepEqual(await walk('legiom', 101), all)
  assert.deepEqual(await walk('legiom', 500), all)
  assert.deepEqual(await walk('legion', 101), all)
})

test('gaps between numbers hide no order and cost no time', async () => {
  const restored = await addTexts(7_000, (place) => place + (place > 3_000 ? 18_000_000 : 0) + (place > 5_000 ? 900_000_000_000_000 : 0))
  assert.deepEqual(await walk('legiom', 101), restored)
  assert.deepEqual(await walk('legion', 101), restored)
  // These numbers put each order into a separate era.
  const imported = await addTexts(7_000, (place) => place * 100_000_000_000)
  assert.deepEqual(await walk('legion', 101), imported)
  const resembling = await walk('legiom', 101)
  assert.ok(resembling.length > 0)
  assert.deepEqual(resembling, imported.slice(0, resembling.length))
})

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { assertProblem, faults } from '../../../test/problem.ts'
import { registerOperator } from '../../../test/register-operator.ts'
import { startStore } from '../../../test/store.ts'

const store = await startStore({ after })
const { token } = await registerOperator(store)
const ROOM = 5
const FULL = 'the store would have more than 10,000 categories'

const line = (sku: string, rest: object) => ({ sku, name: 'A mug', price: { amount: 1, currency: 'EUR' }, ...rest })
const post = (path: string, body: object) => store.call('POST', path, { token, body })
async function importLines(...lines: object[]): Promise<string[]> {
  const raw = lines.map((each) => JSON.stringify(each)).join('\n')
  const answer = await store.call('POST', '/admin/products/import', { token, raw, headers: { 'content-type': 'application/x-ndjson' } })
  const results = answer.text.trim().split('\n')
  return results.slice(0, -1).map((each) => {
    const { outcome, error } = JSON.parse(each)
    return outcome ?? error
  })
}
const countAll = async () => (await store.pool.query('select count(*) as count from categories')).rows[0].count
const fill = (count: number) =>
  store.pool.query(
    `insert into categories (id, slug, name) select gen_random_uuid(), 'c-' || place, 'C ' || place from generate_series(1, $1) as place`,
    [count],
  )

test('a store has at most 10,000 categories: lines that would add more are refused, and lines that need no new one are not', async () => {
  await fill(10_000 - ROOM)
  const outcomes = await importLines(
    line('A', { categories: [['C 1'], ['New', 'Shoes'], ['New', 'Hats']] }),
    line('B', { categories: [['C 2'], ['New', 'Shoes'], ['x', 'y', 'z']] }),
    line('C', { category: 'Hats' }),
    line('D', {
      categories: [
        ['New', 'Shoes'],
        ['New', 'Ties'],
      ],
    }),
    line('E', { category: 'Text' }),
    line('F', { category: 'Another' }),
    line('G', { category: 'Text' }),
    line('H', { categories: [['Another']] }),
  )
  const refused = [`categories 2: ${FULL}`, `category: ${FULL}`, `categories 0: ${FULL}`]
  assert.deepEqual(outcomes, ['created', refused[0], 'created', 'created', 'created', refused[1], 'created', refused[2]])
  assert.equal(await countAll(), 10_000)
  const tree = (await store.call('GET', '/categories')).json
  assert.deepEqual([tree.data.length, tree.is_complete], [10_000, true])
  assert.deepEqual(await importLines(line('A', { categories: [['C 3'], 'c-4'] })), ['updated'])
})

test('neither a category request nor a product request adds another one', async () => {
  assertProblem(await post('/admin/categories', { name: 'More' }), 409, 'too_many_categories')
  for (const body of [{ category: 'More' }, { categories: [['C 1', 'More']] }]) {
    const answer = await post('/admin/products', line('More', body))
    const [pointer] = faults(assertProblem(answer, 422, 'invalid_body'))
    assert.equal(pointer, 'category' in body ? '#/category' : '#/categories/0')
  }
  assert.equal((await post('/admin/products', line('Known', { category: 'C 5' }))).status, 201)
  assert.equal(await countAll(), 10_000)
})

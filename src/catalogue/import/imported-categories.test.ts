import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { registerOperator } from '../../../test/register-operator.ts'
import { startStore } from '../../../test/store.ts'
import { exportCatalogue } from './export-catalogue.ts'

const store = await startStore({ after })
const { token } = await registerOperator(store)

async function importText(raw: string, type = 'application/x-ndjson'): Promise<string[]> {
  const answer = await store.call('POST', '/admin/products/import', { token, raw, headers: { 'content-type': type } })
  return answer.text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
    .slice(0, -1)
    .map(({ outcome, error }) => outcome ?? error)
}
const importLines = (...lines: object[]) => importText(lines.map((line) => JSON.stringify(line)).join('\n'))
const line = (sku: string, rest: object) => ({ sku, name: 'A shoe', price: { amount: 1, currency: 'EUR' }, ...rest })
async function pathsOf(sku: string): Promise<string[][]> {
  const { rows } = await store.pool.query('select id from products where sku = $1', [sku])
  const { json } = await store.call('GET', `/products/${rows[0].id}`)
  return json.categories.map(({ path }: { path: { name: string }[] }) => path.map(({ name }) => name))
}

test('lines create missing categories of their paths, keep categories that they do not name, and are unchanged if nothing differs', async () => {
  const both = line('A', { categories: [['Men', 'Shoes'], ['Sale']] })
  assert.deepEqual(await importLines(both, line('B', { categories: [['Women', 'Shoes']] })), ['created', 'created'])
  assert.deepEqual(await pathsOf('A'), [['Men', 'Shoes'], ['Sale']])
  assert.deepEqual(await pathsOf('B'), [['Women', 'Shoes']])
  assert.deepEqual(await importLines(both, line('B', { category: 'Shoes' })), ['unchanged', 'unchanged'])
  assert.deepEqual(await pathsOf('B'), [['Women', 'Shoes']])
  assert.deepEqual(await importLines(line('A', { category: 'New' })), ['updated'])
  assert.deepEqual(await pathsOf('A'), [['New'], ['Sale']])
  assert.deepEqual(await importLines(line('A', { categories: ['sale', ['Men', 'Shoes']] })), ['updated'])
  assert.deepEqual(await pathsOf('A'), [['Sale'], ['Men', 'Shoes']])
})

test('only the line is refused that has an unknown slug, or a `category` that is not the first of its categories', async () => {
  const outcomes = await importLines(
    line('C', { categories: ['nowhere'] }),
    line('D', { category: 'X', categories: [['Men', 'Shoes']] }),
    line('E', { categories: [] }),
    line('F', {}),
    line('G', { category: 'Good' }),
  )
  assert.deepEqual(outcomes.slice(0, 2), [
    'categories 0: there is no category with the slug nowhere',
    'category: category must be the name of the first of the categories',
  ])
  assert.match(outcomes[2] ?? '', /^categories must be a list of 1 to 20 categories/)
  assert.match(outcomes[3] ?? '', /^category must have|^category must be/)
  assert.equal(outcomes[4], 'created')
})

test('a line with an unknown slug leaves no new categories behind', async () => {
  const [outcome] = await importLines(line('R', { categories: [['Only', 'There'], 'nowhere'] }))
  assert.equal(outcome, 'categories 1: there is no category with the slug nowhere')
  assert.equal((await store.pool.query(`select from categories where name in ('Only', 'There')`)).rowCount, 0)
})

test('CSV has categories as JSON, and importing an export changes nothing', async () => {
  const csv = 'sku,name,price,currency,categories\nH,A hat,1,EUR,"[[""Men"",""Hats""],""sale""]"\n'
  assert.deepEqual(await importText(csv, 'text/csv'), ['created'])
  assert.deepEqual(await pathsOf('H'), [['Men', 'Hats'], ['Sale']])
  for (const [format, type] of [
    ['ndjson', 'application/x-ndjson'],
    ['csv', 'text/csv'],
  ] as const) {
    const text = (await Array.fromAsync(exportCatalogue(store.pool, format))).join('')
    assert.match(text, /Hats/)
    assert.deepEqual([...new Set(await importText(text, type))], ['unchanged'], text)
  }
})

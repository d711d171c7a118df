import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startStore } from '../../../test/store.ts'

const store = await startStore({ after })
const PRODUCTS = 6_000
const ATTRIBUTES = 50

await store.pool.query(
  `insert into products (id, sku, name, category, price_amount, price_currency, in_stock, attributes)
  select gen_random_uuid(), 'SKU-' || n, 'Lamp ' || n, 'Lamps', 1000, 'EUR', true,
    (select jsonb_object_agg('attribute ' || a, 'value ' || (n + a) % 10) from generate_series(1, $2) as a)
  from generate_series(1, $1) as n`,
  [PRODUCTS, ATTRIBUTES],
)
await store.pool.query('analyze products')

test('counts 300,000 attributes by a sample, in time and close to the exact numbers', async () => {
  const { status, json, text } = await store.call('GET', '/products/facets?include=attributes&min_price=1')
  assert.equal(status, 200, text)
  assert.equal(json.exact, false)
  assert.equal(json.attributes.length, 20)
  for (const { count, values } of json.attributes) {
    assert.ok(Math.abs(count - PRODUCTS) < PRODUCTS / 2, String(count))
    assert.equal(values.length, 10)
  }
})

test('reads each attribute of the sample once, instead of counting the values again for each name', async () => {
  const plans: string[] = []
  const { countAttributes } = await import('./attribute-facets.ts')
  const { sql } = await import('../../db/sql.ts')
  const query = async ({ text, values }: { text: string; values: unknown[] }) => {
    const explained = await store.pool.query<{ 'QUERY PLAN': string }>(`explain (analyze, timing off, costs off) ${text}`, values)
    plans.push(...explained.rows.map((row) => row['QUERY PLAN']))
    return { rows: [] }
  }
  await countAttributes({ query } as never, { from: sql`products as product`, conditions: [] }, 1)
  const scans = plans.filter((line) => /CTE Scan on attribute\b/.test(line))
  assert.ok(scans.length > 0, plans.join('\n'))
  for (const line of scans) assert.match(line, /loops=1\)/, plans.join('\n'))
})

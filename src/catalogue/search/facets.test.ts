import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startStore } from '../../../test/store.ts'
import { readFilters } from '../product-query.ts'
import { countFacets } from './facets.ts'

const store = await startStore({ after })
const LAMPS = 11_000
const CHAIRS = 8_000

// Each steel product is of brand A and each of brand A is steel: the planner expects that only some are both.
await store.pool.query(
  `insert into products (id, sku, name, category, price_amount, price_currency, in_stock, brand, attributes)
  select gen_random_uuid(), 'A' || n, 'Lamp ' || n, 'Lamps', 100 + n, 'EUR', true, 'A', '{"material": "steel"}'::jsonb
  from generate_series(1, ${LAMPS}) as n
  union all
  select gen_random_uuid(), 'B' || n, 'Chair ' || n, 'Chairs ' || n % 5, 100 + n, 'EUR', true, 'B', '{"material": "wood"}'::jsonb
  from generate_series(1, ${CHAIRS}) as n`,
)

const QUERIES = [
  { brand: 'A', attr: ['material=steel'] },
  { brand: 'A', attr: ['material=steel'], in_stock: true },
  { brand: 'A', category: 'Lamps', attr: ['material=steel'] },
  { category: 'Lamps' },
  {},
]
for (const statistics of ['none', 'fresh']) {
  for (const query of QUERIES) {
    test(`facets of ${JSON.stringify(query)} are exact or say that they are not, with ${statistics} statistics`, async () => {
      if (statistics === 'fresh') await store.pool.query('vacuum (analyze) products, product_categories')
      const { exact, price_ranges, brands, attributes } = await countFacets(store.pool, readFilters(query), { hasAttributes: true })
      const total = Object.keys(query).length === 0 ? LAMPS + CHAIRS : LAMPS
      const sums = [price_ranges, brands, attributes ?? []].map((facet) => facet.reduce((sum, { count }) => sum + count, 0))
      for (const sum of sums) {
        if (exact) assert.equal(sum, total)
        else assert.ok(Math.abs(sum - total) < total / 2, `${sum} of ${total}`)
      }
    })
  }
}

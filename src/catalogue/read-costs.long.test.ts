import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { EXTREMES, fillCatalogue } from '../../bench/catalogue/fill-catalogue.ts'
import { startStore } from '../../test/store.ts'
import type { Queryable } from '../db/pool.ts'
import { listProducts } from './list-products.ts'
import { readFilters, readListing } from './product-query.ts'
import { countFacets } from './search/facets.ts'

const store = await startStore({ after })
const PRODUCTS = 120_000
await fillCatalogue(store.pool, PRODUCTS)

const { currency, attribute, category, brand, word } = EXTREMES
/** Blocks of a page of a list, its look-ups included. The table has 13,000. */
const OF_A_PAGE = 2_000
/** Blocks of a page of groups, one of which has 1,200 variants. */
const OF_GROUPS = 4_000
/** Blocks of a page with a count: see `MAX_COST` in count-products.ts. */
const OF_A_COUNT = 16_000
/**
 * Blocks of a sample of 20,000 rows, 5,000 of whose matches are counted, or of 10,000 matches that are counted exactly.
 */
const OF_A_SAMPLE = 26_000

type Query = Parameters<typeof readListing>[0]
type FacetsQuery = Parameters<typeof readFilters>[0]

/** The blocks that the statements of `read` touch; each runs a second time, explained. */
async function blocksOf(read: (db: Queryable) => Promise<unknown>): Promise<number> {
  let blocks = 0
  const query = async (statement: string | { text: string; values: unknown[] }) => {
    const { text, values } = typeof statement === 'string' ? { text: statement, values: [] } : statement
    if (!text.startsWith('explain')) {
      const { rows } = await store.pool.query(`explain (analyze, buffers, format json) ${text}`, values)
      const { Plan } = rows[0]['QUERY PLAN'][0]
      blocks += Plan['Shared Hit Blocks'] + Plan['Shared Read Blocks']
    }
    return store.pool.query(text, values)
  }
  await read({ query } as unknown as Queryable)
  return blocks
}

const LISTS: Query[] = [
  ...[currency.few, currency.none, currency.half].flatMap((code) => [
    { currency: code },
    { currency: code, sort: 'name' } as const,
    { currency: code, min_price: 99_999 },
    { currency: code, category: category.nearlyAll },
    { currency: code, brand: brand.nearlyAll },
    { currency: code, attr: [attribute.nearlyAll] },
    { currency: code, q: word.nearlyAll },
    { currency: code, collapse: 'group' } as const,
    { currency: code, include: 'count' } as const,
  ]),
  { in_stock: false, brand: brand.nearlyAll, include: 'count' },
  { in_stock: false, category: category.nearlyAll, include: 'count' },
  { min_price: 99_500, sort: 'name' },
  { min_price: 99_500, sort: 'created_at', brand: brand.nearlyAll },
]
for (const query of LISTS) {
  test(`a page of ${JSON.stringify(query)} reads no more blocks of a large catalogue than of a small one`, async () => {
    const blocks = await blocksOf((db) => listProducts(db, readListing(query)))
    const most = query.include === 'count' ? OF_A_COUNT : query.collapse === 'group' ? OF_GROUPS : OF_A_PAGE
    assert.ok(blocks <= most, `${blocks} blocks`)
  })
}

const FACETS: FacetsQuery[] = [
  {},
  ...[currency.half, currency.few, currency.none].map((code) => ({ currency: code })),
  { attr: [attribute.nearlyAll] },
  { attr: ['material=wood', 'width_cm>=150'] },
  { q: word.nearlyAll },
  { in_stock: false },
  { category: category.nearlyAll },
  { q: word.nearlyAll, attr: [attribute.nearlyAll], category: category.nearlyAll, currency: currency.nearlyAll, in_stock: true },
]
for (const query of FACETS) {
  test(`facets of ${JSON.stringify(query)} read a sample`, async () => {
    const blocks = await blocksOf((db) => countFacets(db, readFilters(query), { hasAttributes: true }))
    assert.ok(blocks <= 2 * OF_A_SAMPLE, `${blocks} blocks`)
  })
}

test('facets of many matches are estimates that are close to the exact numbers', async () => {
  const sold = 0.95 * PRODUCTS
  const { brands, categories, price_ranges, exact } = await countFacets(store.pool, readFilters({ attr: [attribute.nearlyAll] }))
  assert.equal(exact, false)
  const total = price_ranges.reduce((sum, { count }) => sum + count, 0)
  assert.ok(total > 0.8 * sold && total < 1.2 * sold, String(total))
  assert.equal(brands[0]?.brand, brand.nearlyAll)
  assert.equal(categories[0]?.category, category.nearlyAll)
})

test('a list of few products by currency is complete in every sort', async () => {
  for (const sort of ['created_at', '-created_at', 'name', '-name', 'price', '-price'] as const) {
    const { page } = await listProducts(store.pool, readListing({ currency: currency.few, sort, include: 'count' }))
    assert.equal(page.data.length, 10)
    assert.deepEqual(page.count, { value: 10, exact: true })
  }
})

test('if the planner expects matches everywhere and there are none, or only at the other end, a page reads at most what one condition matches', async () => {
  const each = 20_000
  // Many have each condition, and none has both; they are the dearest, and not the newest.
  await store.pool.query(
    `set session_replication_role = replica;
    insert into products (id, sku, name, category, price_amount, price_currency, in_stock, brand, attributes, description, created_at, search)
    select gen_random_uuid(), 'SIDE-' || n, 'Side ' || n, 'Sides', 90000000 + n, 'EUR', true, case when n % 2 = 0 then 'Left' else 'Right' end,
      jsonb_build_object('side', case when n % 2 = 0 then 'right' else 'left' end), repeat('x ', 300), '2001-01-01', 'side:1'
    from generate_series(1, ${2 * each}) as n;
    set session_replication_role = origin;
    analyze products`,
  )
  for (const [query, found] of [
    [{ brand: 'Left', attr: ['side=left'] }, 0],
    [{ brand: 'Left', attr: ['side=left'], sort: 'price' }, 0],
    [{ brand: 'Left', sort: 'price' }, 20],
    [{ attr: ['side=left'], sort: 'price' }, 20],
    [{ attr: ['side=left'] }, 20],
    [{ min_price: 90_000_000 }, 20],
  ] satisfies [Query, number][]) {
    const blocks = await blocksOf(async (db) => assert.equal((await listProducts(db, readListing(query))).page.data.length, found))
    assert.ok(blocks <= 1.5 * each, `${JSON.stringify(query)}: ${blocks} blocks`)
  }
})

test('compares the variants of a group once, whatever their order and the table statistics', async () => {
  const variants = 600
  // The worst order: the newest is stored last.
  await store.pool.query(
    `insert into products (id, sku, name, category, price_amount, price_currency, in_stock, brand, variant_group, description, created_at)
    select gen_random_uuid(), 'ORDERED-' || n, 'Name', 'Ordered', 100, 'EUR', true, 'Ordered', 'GROUP-ORDERED', repeat('x ', 1000), now() + make_interval(secs => n)
    from generate_series(1, $1::integer) as n`,
    [variants],
  )
  for (const statistics of ['fresh', 'none']) {
    if (statistics === 'none')
      await store.pool.query(`delete from pg_statistic where starelid = any('{products,product_categories}'::regclass[])`)
    for (const query of [{ brand: 'Ordered' }, { category: 'Ordered' }, { group: 'GROUP-ORDERED' }]) {
      const listing = readListing({ ...query, collapse: 'group' })
      const blocks = await blocksOf(async (db) => assert.equal((await listProducts(db, listing)).page.data.length, 1))
      assert.ok(blocks <= 20 * variants, `${JSON.stringify(query)}, statistics ${statistics}: ${blocks} blocks`)
    }
  }
})

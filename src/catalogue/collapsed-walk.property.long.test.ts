import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { KEY_SORTS } from '../../test/catalogue-model.ts'
import { startStore } from '../../test/store.ts'
import { listProducts } from './list-products.ts'
import { readListing } from './product-query.ts'

const store = await startStore({ after })

interface Row {
  id: string
  name: string
  variant_group: string | null
  brand: string
  in_stock: boolean
  amount: number
  /** The price in a second currency. Null if the product is not sold in it. */
  francs: number | null
  created_at: string
}
type Query = Parameters<typeof readListing>[0]

/** `later`: places between the first variants of all groups and the others, so that whole windows have no first one. */
async function fill(groups: number, variants: number, later: number, singles: number): Promise<Row[]> {
  await store.pool.query('delete from products')
  const { rows } = await store.pool.query<Row>(
    `insert into products
       (id, sku, name, category, brand, in_stock, variant_group, options, price_amount, price_currency, prices, created_at)
     select gen_random_uuid(), 'S' || n, 'Name ' || lpad(place::text, 7, '0'), 'Things', 'Brand ' || n % 2, n % 3 > 0, name_of_group,
       jsonb_build_object('n', n), place, 'EUR',
       case when n % 4 = 0 then '{}' else jsonb_build_object('CHF', jsonb_build_object('amount', (place * 7) % 1000)) end,
       '2026-01-01Z'::timestamptz + make_interval(mins => place)
     from (
       select n, (random() * 300)::integer + case when n >= $1 and n < $1 * $2 then $3::integer else 0 end as place,
         case when n < $1 * $2 then 'g' || n % $1 end as name_of_group
       from generate_series(0, $1::integer * $2::integer + $4::integer - 1) as n
     ) as product
     returning id, name, variant_group, brand, in_stock, price_amount::integer as amount,
       (prices -> 'CHF' ->> 'amount')::integer as francs, created_at::text`,
    [groups, variants, later, singles],
  )
  return rows
}

/** The pages of the list, by sorting in memory. */
function pagesOf(rows: readonly Row[], { brand, in_stock, currency, min_price, sort = '-created_at', limit = 20 }: Query): string[][] {
  const amountOf = (row: Row) => (currency === 'CHF' ? row.francs : row.amount)
  const keyOf = (row: Row) => (sort.endsWith('name') ? row.name : sort.endsWith('price') ? Number(amountOf(row)) : row.created_at)
  const sign = sort.startsWith('-') ? -1 : 1
  const sorted = rows
    .filter((row) => brand === undefined || row.brand === brand)
    .filter((row) => in_stock === undefined || row.in_stock === in_stock)
    .filter((row) => amountOf(row) !== null && Number(amountOf(row)) >= (min_price ?? 0))
    .sort((a, b) => sign * (keyOf(a) < keyOf(b) || (keyOf(a) === keyOf(b) && a.id < b.id) ? -1 : 1))
  const seen = new Set<string>()
  const entries = sorted.filter(({ id, variant_group }) => {
    const entry = variant_group ?? id
    return !seen.has(entry) && seen.add(entry)
  })
  return Array.from({ length: Math.ceil(entries.length / limit) }, (_, page) =>
    entries.slice(page * limit, (page + 1) * limit).map(({ id }) => id),
  )
}

async function walk(query: Query, direction: 'on' | 'back', cursor?: string): Promise<{ pages: string[][]; last: string | undefined }> {
  const pages: string[][] = []
  let last = cursor
  for (let at = cursor; ; ) {
    const listing = readListing(at === undefined ? query : { ...query, cursor: at })
    const { page, previousCursor } = await listProducts(store.pool, listing)
    pages.push(page.data.map(({ id }) => id))
    last = previousCursor ?? undefined
    at = (direction === 'on' ? page.next_cursor : previousCursor) ?? undefined
    if (at === undefined || pages.length > 1_000) return { pages, last }
  }
}

const FILTERS: Query[] = [
  {},
  { brand: 'Brand 1' },
  { in_stock: false },
  { currency: 'CHF' },
  { currency: 'CHF', min_price: 100 },
  { category: 'Things' },
]

test('pages of groups, to the end and back to the beginning, equal the products sorted in memory', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 20 }),
      fc.integer({ min: 1, max: 20 }),
      fc.constantFrom(0, 200, 1_000),
      fc.integer({ min: 0, max: 40 }),
      fc.constantFrom(3, 7, 20),
      async (groups, variants, later, singles, limit) => {
        const rows = await fill(groups, variants, later, singles)
        for (const sort of KEY_SORTS) {
          for (const filters of FILTERS) {
            const query: Query = { ...filters, sort, limit, collapse: 'group' }
            const expected = pagesOf(rows, query)
            const { pages, last } = await walk(query, 'on')
            assert.deepEqual(pages, expected.length === 0 ? [[]] : expected, JSON.stringify(query))
            if (last === undefined) continue
            const back = await walk(query, 'back', last)
            assert.deepEqual(back.pages.toReversed(), expected.slice(0, -1), `back: ${JSON.stringify(query)}`)
          }
        }
      },
    ),
    {
      numRuns: 3,
      examples: [
        [10, 21, 0, 10, 5],
        [60, 15, 1_000, 10, 20],
      ],
    },
  )
})

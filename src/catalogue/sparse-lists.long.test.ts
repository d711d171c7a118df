import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { KEY_SORTS } from '../../test/catalogue-model.ts'
import { startStore } from '../../test/store.ts'
import { listProducts } from './list-products.ts'
import { readListing } from './product-query.ts'

const store = await startStore({ after })
const LIMIT = 7
type Query = Parameters<typeof readListing>[0]

interface Row {
  id: string
  name: string
  brand: string
  in_stock: boolean
  amount: number
  material: string
  created_at: string
}

/** Products without events and members of categories: thousands are added at once. */
async function fill(products: number): Promise<Row[]> {
  const client = await store.pool.connect()
  try {
    await client.query('set session_replication_role = replica')
    const { rows } = await client.query<Row>(
      `insert into products (id, sku, name, category, brand, in_stock, attributes, price_amount, price_currency, created_at, search)
       select gen_random_uuid(), 'S' || n, 'Name ' || lpad((n * 7919 % 3001)::text, 4, '0'), 'Things',
         case when n % 293 = 0 or n < 40 then 'Rare' else 'Common' end, n % 307 > 0,
         jsonb_build_object('material', case when n % 2 = 0 then 'wood' else 'steel' end), n * 31 % 2003, 'EUR',
         '2026-01-01Z'::timestamptz + make_interval(mins => n / 2), 'name:1'
       from generate_series(1, $1::integer) as n
       returning id, name, brand, in_stock, price_amount::integer as amount, attributes ->> 'material' as material, created_at::text`,
      [products],
    )
    await client.query('reset session_replication_role')
    await client.query('analyze products')
    return rows
  } finally {
    client.release()
  }
}

function sorted(rows: readonly Row[], { brand, in_stock, attr, min_price = 0, sort = '-created_at' }: Query): string[] {
  const keyOf = (row: Row) => (sort.endsWith('name') ? row.name : sort.endsWith('price') ? row.amount : row.created_at)
  const sign = sort.startsWith('-') ? -1 : 1
  return rows
    .filter((row) => (brand ?? row.brand) === row.brand && (in_stock ?? row.in_stock) === row.in_stock && row.amount >= min_price)
    .filter((row) => attr === undefined || attr.includes(`material=${row.material}`))
    .toSorted((a, b) => sign * (keyOf(a) < keyOf(b) || (keyOf(a) === keyOf(b) && a.id < b.id) ? -1 : 1))
    .map(({ id }) => id)
}

/** The ids of all pages from the first to the last, and of those back again. */
async function walk(query: Query): Promise<{ on: string[]; back: string[] }> {
  const on: string[] = []
  const back: string[] = []
  const read = (cursor?: string) =>
    listProducts(store.pool, readListing({ ...query, limit: LIMIT, ...(cursor === undefined ? {} : { cursor }) }))
  let { page, previousCursor } = await read()
  on.push(...page.data.map(({ id }) => id))
  while (page.next_cursor !== null) {
    ;({ page, previousCursor } = await read(page.next_cursor))
    on.push(...page.data.map(({ id }) => id))
  }
  back.push(...page.data.map(({ id }) => id))
  while (previousCursor !== null) {
    ;({ page, previousCursor } = await read(previousCursor))
    back.unshift(...page.data.map(({ id }) => id))
  }
  return { on, back }
}

test('lists of products that are thousands of places apart are complete and in order, forwards and backwards', async () => {
  const rows = await fill(9_000)
  const filters: Query[] = [
    { brand: 'Rare' },
    { in_stock: false },
    { brand: 'Rare', in_stock: false },
    { brand: 'Rare', attr: ['material=wood'] },
    { attr: ['material=wood'], min_price: 1_990 },
    { min_price: 1_985 },
  ]
  for (const sort of KEY_SORTS) {
    for (const filter of filters) {
      const query: Query = { ...filter, sort }
      const expected = sorted(rows, query)
      const { on, back } = await walk(query)
      assert.deepEqual(on, expected, JSON.stringify(query))
      assert.deepEqual(back, expected, `back: ${JSON.stringify(query)}`)
    }
  }
})

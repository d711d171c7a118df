import { inSnapshot } from '../src/catalogue/catalogue-version.ts'
import { listProducts } from '../src/catalogue/list-products.ts'
import { cursorScope, readListing } from '../src/catalogue/product-query.ts'
import { readConfig } from '../src/config.ts'
import { openExistingDatabase } from '../src/db/open-database.ts'
import { createPool, type Pool } from '../src/db/pool.ts'
import { COMMAND_BOUNDS } from '../src/db/session-settings.ts'
import { encodeCursor } from '../src/http/pagination.ts'
import { wordOfRank } from './generate-products.ts'
import { percentile } from './rig/measurement.ts'

type Query = Parameters<typeof readListing>[0]

const ROUNDS = 200
const PAGE = 40_000
const LIMIT = 20
/** Ranks of words, from the most frequent to one of the rarest. */
const RANKS = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 19_000]
const SORTS = ['created_at', 'name', 'price'] as const

/**
 * Measures pages of a large catalogue that are not in memory: page 1 beside page 40,000 and a filtered page, and
 * searches for words of every frequency. It uses the catalogue of DATA_DIR or DATABASE_URL, into which this was
 * imported before: `node bench/generate-products.ts 1000000 > products.ndjson && ./storefront catalogue import
 * products.ndjson`.
 */
export async function run(): Promise<void> {
  const database = await openExistingDatabase(readConfig())
  const pool = createPool({ url: database.addresses.api, size: 2, applicationName: 'bench', onError: () => {}, bounds: COMMAND_BOUNDS })
  try {
    const { rows } = await pool.query<{ count: number }>('select count(*) as count from products')
    console.log(`${rows[0]?.count.toLocaleString('en')} products, ${ROUNDS} rounds, milliseconds`)
    await pages(pool)
    await searches(pool)
  } finally {
    await pool.end()
    await database.close()
  }
}

async function pages(pool: Pool): Promise<void> {
  for (const sort of SORTS) {
    const queries: Record<string, Query> = {
      'page 1': { sort },
      [`page ${PAGE}`]: { sort, cursor: await cursorOfPage(pool, sort, PAGE) },
      'category, price and stock': { sort, category: 'Category 7', min_price: 5_000, max_price: 60_000, in_stock: true },
    }
    const times: Record<string, number[]> = Object.fromEntries(Object.keys(queries).map((name) => [name, []]))
    // The queries take turns, so other load on the machine affects all of them.
    for (let round = 0; round < ROUNDS; round++) {
      for (const [name, query] of Object.entries(queries)) times[name]?.push(await time(pool, query))
    }
    const first = percentile(times['page 1'] ?? [], 0.5)
    console.log(`\nsort=${sort}`)
    console.table(
      Object.fromEntries(
        Object.entries(times).map(([name, all]) => [name, { ...summary(all), 'p50 / page 1': (percentile(all, 0.5) / first).toFixed(2) }]),
      ),
    )
  }
}

async function searches(pool: Pool): Promise<void> {
  for (const sort of ['relevance', 'price'] as const) {
    const all: number[] = []
    const table: Record<string, object> = {}
    for (const rank of RANKS) {
      const q = wordOfRank(rank)
      const { count } = await read(pool, { q, include: 'count', limit: 1 })
      const times: number[] = []
      for (let round = 0; round < ROUNDS / 10; round++) times.push(await time(pool, { q, sort }))
      all.push(...times)
      table[`word ${rank}`] = { matches: count?.value, ...summary(times) }
    }
    table['all words'] = summary(all)
    console.log(`\nq, sort=${sort}`)
    console.table(table)
  }
}

async function cursorOfPage(pool: Pool, sort: (typeof SORTS)[number], page: number): Promise<string> {
  const column = { created_at: 'created_at', name: 'name collate "C"', price: 'price_amount' }[sort]
  const { rows } = await pool.query<{ key: Date | string | number; id: string }>(
    `select ${column} as key, id from products where archived_at is null order by ${column}, id offset $1 limit 1`,
    [(page - 1) * LIMIT - 1],
  )
  const { key = '', id = '' } = rows[0] ?? {}
  return encodeCursor(cursorScope(readListing({ sort })), ['next', false, key instanceof Date ? key.toISOString() : key, id])
}

async function read(pool: Pool, query: Query) {
  const { page } = (await inSnapshot(pool, (tx) => listProducts(tx, readListing(query)))).found
  if (page.data.length === 0) throw new Error(`no product for ${JSON.stringify(query)}: is this the generated catalogue?`)
  return page
}

async function time(pool: Pool, query: Query): Promise<number> {
  const beganAt = performance.now()
  await read(pool, query)
  return performance.now() - beganAt
}

function summary(times: readonly number[]) {
  return { p50: percentile(times, 0.5).toFixed(2), p99: percentile(times, 0.99).toFixed(2), max: Math.max(...times).toFixed(2) }
}

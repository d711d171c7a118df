// Pages and searches of the catalogue that are not in memory, beside bare `node:http` and `pg` with the same
// statements. Options: --products 1000,1000000
import { listProducts } from '../src/catalogue/list-products.ts'
import { readListing } from '../src/catalogue/product-query.ts'
import type { Queryable } from '../src/db/pool.ts'
import { type Cleanup, withCleanup } from '../test/cleanup.ts'
import type { BareList } from './catalogue/bare-list.ts'
import { importCatalogue } from './catalogue/import-catalogue.ts'
import { wordOfRank } from './generate-products.ts'
import { type Child, startChild } from './rig/child.ts'
import { loadHttp } from './rig/load-http.ts'
import { gettingConnections } from './rig/shop.ts'
import { openStore, type Running, type Store } from './rig/store.ts'
import { inTurns, type Options, type Row, readOptions } from './row.ts'

type Query = Parameters<typeof readListing>[0]

const POOL_SIZE = 10
const CONNECTIONS = 16
/** A price above all others. The filter changes the address, so no page is in memory, and excludes no product. */
const MARKER = 7_777_777_777
/** A word that about one product in a hundred contains. */
const WORD = wordOfRank(100)
const CASES: Record<string, Query> = { 'a page by name': { sort: 'name' }, 'a search': { q: WORD } }

export async function run(args: string[]): Promise<Row[]> {
  const { more, ...options } = readOptions(args, { products: '' })
  const sizes = more.products || (options.isQuick ? '1000,50000' : '1000,1000000')
  const rows: Row[] = []
  for (const products of sizes.split(',').map(Number)) {
    await withCleanup(async (cleanup) => {
      // The page cache would be filled but never used, so it is small.
      const store = await openStore(cleanup, { env: { DATABASE_POOL_SIZE: String(POOL_SIZE), PAGE_CACHE_MB: '1' } })
      await importCatalogue(cleanup, store, products)
      const api = await store.start('api')
      const client = startChild(cleanup, 'rig/http-load.ts')
      for (const [what, query] of Object.entries(CASES)) {
        rows.push(await compare(cleanup, { store, api, client }, { what, query, products, options }))
      }
    })
  }
  return rows
}

interface Case {
  what: string
  query: Query
  products: number
  options: Options
}

async function compare(
  cleanup: Cleanup,
  { store, api, client }: { store: Store; api: Running; client: Child },
  { what, query, products, options }: Case,
): Promise<Row> {
  const seconds = options.isQuick ? 1 : 3
  const statements = await recordStatements(store, { ...query, max_price: MARKER })
  const floor = startChild(cleanup, 'catalogue/bare-list.ts')
  const bare = await floor.ask<number>({ url: store.url, poolSize: POOL_SIZE, statements, marker: MARKER } satisfies BareList)
  const filters = Object.entries(query).map(([name, value]) => `&${name}=${value}`)
  const connections = gettingConnections(CONNECTIONS, `/products?limit=20${filters.join('')}&max_price={number}`)
  const load = async (port: number) => (await loadHttp(client, { port, warmUpSeconds: 0.5, seconds, status: 200, connections })).perSecond
  await load(api.port)
  await load(bare)
  const rounds = await inTurns(
    options.rounds,
    () => load(api.port),
    () => load(bare),
  )
  const [ours, theirs] = await Promise.all(
    [api.port, bare].map((port) => sizeOf(port, `/products?limit=20${filters.join('')}&max_price=${MARKER}`)),
  )
  await floor.stop()
  return {
    work: `${what} that is not in memory, ${products.toLocaleString('en')} products`,
    heldAgainst: 'bare `node:http` and `pg`, the same statement',
    goal: { atLeast: 0.8 },
    unit: 'requests/s',
    rounds,
    note: `${CONNECTIONS} connections, ${statements.length} statement${statements.length === 1 ? '' : 's'} besides the snapshot's own, ${ours} bytes, bare ${theirs}.`,
  }
}

/** The statements of a list, with their values. */
async function recordStatements({ pool }: Store, query: Query): Promise<BareList['statements']> {
  const statements: BareList['statements'] = []
  const recorder = {
    query: (statement: BareList['statements'][number]) => {
      const { name, text, values } = statement
      statements.push({ ...(name === undefined ? {} : { name }), text, values })
      return pool.query(statement)
    },
  }
  const { page } = await listProducts(recorder as unknown as Queryable, readListing({ ...query, limit: 20 }))
  if (page.data.length === 0) throw new Error(`no product for ${JSON.stringify(query)}`)
  return statements
}

async function sizeOf(port: number, path: string): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { 'accept-encoding': 'identity' } })
  return (await answer.arrayBuffer()).byteLength
}

import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { wordOfRank } from '../bench/generate-products.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { makeDataFolder } from './data-folders.ts'
import { startOwnServer } from './own-server.ts'
import { listProducts, register, startShopping } from './shopping.ts'
import { runStorefront, serve } from './store-process.ts'
import { versions } from './versions.ts'

const AT_ONCE = 5_000
const CATEGORIES = 200
const PROCESSES = 2
/** Locks of these modes keep customers out of a table. */
const KEEPING_OUT = `('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')`

export const [, release] = versions

/** A store of release 0.1.0 with products and orders, sold by two processes. */
export async function openEarlierStore(
  t: Cleanup,
  { products, orders }: { products: number; orders: number },
  settings?: Record<string, string>,
) {
  const server = await startOwnServer(t, settings)
  const bin = release.earlier(t)
  const env = { ...server.settings, DATA_DIR: makeDataFolder(t).path, MAX_PENDING_ORDERS_PER_USER: 'off', PAGE_CACHE_MB: '0' }
  const migrated = await runStorefront(t, ['migrate'], { env, bin })
  if (migrated.status !== 0) throw new Error(migrated.stderr)
  const admin = new pg.Client({ connectionString: `${server.address}/shop` })
  await admin.connect()
  onCleanup(t, () => admin.end())
  await addProducts(admin, products)
  await addOrders(admin, orders)
  await admin.query('vacuum analyze')
  return { server, bin, env, admin }
}

async function addProducts(admin: pg.Client, count: number): Promise<void> {
  const words = Array.from({ length: 20_000 }, (_, rank) => wordOfRank(rank))
  for (let first = 1; first <= count; first += AT_ONCE) {
    await admin.query(
      // The n-th most frequent word comes about 1/n as often as the first.
      `insert into products (id, sku, name, description, category, image_url, attributes, price_amount, price_currency, in_stock)
       select ('01997a5e-1f20-7c11-b4d2-' || lpad(to_hex(n), 12, '0'))::uuid, 'SKU-' || n,
         (select string_agg(($3::text[])[floor(20001 ^ random())::integer], ' ') from generate_series(1, 3 + n % 3)),
         (select string_agg(($3::text[])[floor(20001 ^ random())::integer], ' ') from generate_series(1, 2 + n % 4)),
         'Category ' || floor(random() ^ 2 * ${CATEGORIES}), 'https://images.example/' || n || '.jpg',
         jsonb_build_object('material', (array['wood', 'steel', 'glass'])[1 + n % 3], 'width_cm', n % 300),
         100 + floor(random() ^ 3 * 100000), 'EUR', n % 10 > 0
       from generate_series($1::integer, $2::integer) as n`,
      [first, Math.min(first + AT_ONCE - 1, count), words],
    )
  }
  await admin.query('insert into inventory (product_id, available) select id, case when in_stock then 1000000 else 0 end from products')
}

async function addOrders(admin: pg.Client, count: number): Promise<void> {
  await admin.query('set session_replication_role = replica')
  await admin.query(
    `insert into orders (id, number, user_id, status, items, product_ids, total_amount, currency, status_history, created_at, updated_at)
     select gen_random_uuid(), nextval('order_numbers'), md5((n % 1000)::text)::uuid, 'delivered',
       json_build_array(json_build_object('product_id', product.id, 'sku', sku, 'name', name, 'quantity', 1)), array[product.id], price_amount, 'EUR',
       '[{"status": "pending"}, {"status": "delivered"}]', at, at
     from generate_series(1, $1::integer) as n
     join products as product on product.sku = 'SKU-' || 1 + n % (select count(*) from products)
     cross join lateral (select now() - n * interval '10 minutes' as at) as placed`,
    [count],
  )
  await admin.query('reset session_replication_role')
}

/** Starts the API of a version in two processes, and shopping at both: orders, lists by price and lists of a category, `perSecond` of each. */
export async function shopAt(t: Cleanup, { bin, env }: { bin?: string; env: Record<string, string> }, perSecond: number) {
  const apis = []
  for (let number = 0; number < PROCESSES; number++)
    apis.push(await serve(t, { env, args: ['--role', 'api'], ...(bin !== undefined && { bin }) }))
  const [url = ''] = apis.map((api) => api.url)
  const sold = await listProducts(url)
  const shoppers = await Promise.all(apis.map(async (api) => ({ url: api.url, shopper: await register(api.url) })))
  let turn = 0
  const next = () => shoppers[turn++ % shoppers.length] ?? Promise.reject(new Error('nobody'))
  const read = async (query: string) => {
    const answer = await fetch(`${(await next()).url}/products?limit=20&${query}`)
    await answer.arrayBuffer()
    return answer.ok
  }
  const orders: string[] = []
  const shopping = startShopping(
    {
      order: async () => {
        const id = await (await next()).shopper.order(sold[turn % sold.length] ?? '')
        if (id !== null) orders.push(id)
        return id !== null
      },
      list: () => read(`sort=price&min_price=${100 + Math.floor(Math.random() * 1_000)}`),
      category: () => read(`category=Category%20${Math.floor(Math.random() * CATEGORIES)}`),
    },
    1_000 / perSecond,
  )
  return { apis, orders, shopping }
}

/** Watches the locks of `migrate` that keep customers out of existing tables with rows, until it is stopped. */
export async function watchLocks(t: Cleanup, address: string) {
  const client = new pg.Client({ connectionString: address, application_name: 'watch' })
  await client.connect()
  onCleanup(t, () => client.end())
  const { rows: tables } = await client.query<{ oid: number }>(
    `select oid from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace and reltuples > 0`,
  )
  let longest = { ms: 0, table: '' }
  let isStopped = false
  const running = (async () => {
    while (!isStopped) {
      const { rows } = await client.query<{ ms: number; table: string }>(
        `select max(extract(epoch from clock_timestamp() - xact_start))::float8 * 1000 as ms, relation::regclass::text as table
         from pg_locks join pg_stat_activity using (pid)
         where granted and relation = any($1) and mode in ${KEEPING_OUT} and application_name = 'storefront-migrate'
         group by relation`,
        [tables.map(({ oid }) => oid)],
      )
      for (const row of rows) if (row.ms > longest.ms) longest = row
      await delay(20)
    }
  })()
  return {
    async stop() {
      isStopped = true
      await running
      return longest
    },
  }
}

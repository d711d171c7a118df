// POST /orders beside bare `pg` that writes the same rows, one transaction each, and GET /orders beside bare
// `node:http` with bare `pg`. Options: --seconds 3 --clients 64 --lines 1,20 --only place|list --hot one product in
// every order --console with its screens open --postgres embedded|defaults|debian
import { withCleanup } from '../test/cleanup.ts'
import type { BareOrdersLoad } from './orders/bare-pg-orders.ts'
import { openConsole } from './orders/open-console.ts'
import { type Child, startChild } from './rig/child.ts'
import { loadHttp } from './rig/load-http.ts'
import { type Measurement, median } from './rig/measurement.ts'
import { processorSeconds } from './rig/processor-time.ts'
import {
  type Account,
  addProducts,
  type Basket,
  gettingConnections,
  makeBaskets,
  placingConnections,
  registerCustomers,
} from './rig/shop.ts'
import { openStore, type Running, type Server, type Store } from './rig/store.ts'
import { inTurns, type Row, readOptions } from './row.ts'

const POOL_SIZE = 10
const MAX_ACCOUNTS = 64
const WARM_UP_SECONDS = 1
/**
 * The warm-up of each side before the measurement, because V8 compiles the store's code only after some thousands of
 * requests.
 */
const UNMEASURED_SECONDS = 5
const LISTED_ORDERS = 10_000
const GOALS: Record<number, number> = { 1: 4, 20: 3 }

interface Bench {
  store: Store
  api: Running
  http: Child
  bare: Child
  accounts: Account[]
  seconds: number
  rounds: number
}

export async function run(args: string[]): Promise<Row[]> {
  const own = { seconds: '', clients: '64', lines: '1,20', only: '', hot: 'no', console: 'no', postgres: 'embedded' }
  const { rounds, isQuick, more } = readOptions(args, own)
  const numbers = (text: string) => text.split(',').map(Number)
  const rows: Row[] = []
  await withCleanup(async (cleanup) => {
    const store = await openStore(cleanup, { server: more.postgres as Server, isTcp: true, env: { DATABASE_POOL_SIZE: String(POOL_SIZE) } })
    const api = await store.start('api')
    const [http, bare] = [startChild(cleanup, 'rig/http-load.ts'), startChild(cleanup, 'orders/bare-pg-orders.ts')]
    const accounts = await registerCustomers(api.port, MAX_ACCOUNTS)
    const products = await addProducts(store.pool)
    const bench: Bench = { store, api, http, bare, accounts, seconds: Number(more.seconds || (isQuick ? 1 : 3)), rounds }
    const close = more.console === 'no' ? async () => {} : await openConsole(api.port, store.pool)
    if (more.only !== 'list') {
      for (const lines of numbers(more.lines)) {
        for (const clients of numbers(more.clients)) {
          for (const isHot of more.hot === 'no' ? [false] : [false, true]) {
            rows.push(await comparePlacing(bench, makeBaskets(products, { lines, isHot, clients }), { lines, isHot }))
          }
        }
      }
    }
    await close()
    const listing = startChild(cleanup, 'orders/bare-order-list.ts')
    if (more.only !== 'place') for (const clients of numbers(more.clients)) rows.push(await compareListing(bench, listing, clients))
  })
  return rows
}

async function comparePlacing(bench: Bench, baskets: Basket[][], { lines, isHot }: { lines: number; isHot: boolean }): Promise<Row> {
  const { store, api, http, bare, accounts } = bench
  const connections = placingConnections(accounts, baskets)
  const placing = (seconds: number) => ({ port: api.port, warmUpSeconds: WARM_UP_SECONDS, seconds, status: 201, connections })
  const userIds = accounts.map((account) => account.userId)
  const load = {
    url: store.url,
    poolSize: POOL_SIZE,
    clients: baskets.length,
    warmUpSeconds: WARM_UP_SECONDS,
    userIds,
    isOrderOnly: false,
    baskets,
  }
  const prepare = (seconds: number) => bare.ask<null>({ ...load, seconds } satisfies BareOrdersLoad)
  await loadHttp(http, placing(UNMEASURED_SECONDS))
  await prepare(UNMEASURED_SECONDS)
  await bare.ask({})
  await prepare(bench.seconds)
  const ours: PlacingRun[] = []
  const floor: PlacingRun[] = []
  const turns = await inTurns(
    bench.rounds,
    async () => keep(ours, await runPlacing(store, api.pid, () => loadHttp(http, placing(bench.seconds)))),
    async () => keep(floor, await runPlacing(store, bare.pid, () => bare.ask<Measurement>({}))),
  )
  const of = (runs: readonly PlacingRun[], value: (run: PlacingRun) => number) => median(runs.map(value))
  const [ourTime, bareTime] = [of(ours, (run) => run.processorMicroseconds), of(floor, (run) => run.processorMicroseconds)]
  const latencies = (runs: readonly PlacingRun[]) =>
    `p50 ${of(runs, (run) => run.p50).toFixed(1)} ms, p99 ${of(runs, (run) => run.p99).toFixed(1)} ms`
  return {
    work: `\`POST /orders\`, ${baskets.length} clients, ${lines} line${lines === 1 ? '' : 's'}${isHot ? ', one hot product' : ''}`,
    heldAgainst: 'bare `pg`, the same rows, one transaction each',
    ...(isHot || baskets.length !== MAX_ACCOUNTS || GOALS[lines] === undefined ? {} : { goal: { atLeast: GOALS[lines] } }),
    unit: 'orders/s',
    rounds: turns,
    note:
      `processor time of an order, in process and PostgreSQL: ${ourTime.toFixed(0)} µs, bare ${bareTime.toFixed(0)} µs, ${(bareTime / ourTime).toFixed(2)} times less; ` +
      `${latencies(ours)}, bare ${latencies(floor)}.`,
  }
}

function keep(runs: PlacingRun[], run: PlacingRun): number {
  runs.push(run)
  return run.perSecond
}

/**
 * `processorMicroseconds` is the processor time per order of PostgreSQL and the placing process, without the process
 * that sends the load.
 */
type PlacingRun = Measurement & { processorMicroseconds: number }

async function runPlacing({ pool, postgresPid }: Store, pid: number, load: () => Promise<Measurement>): Promise<PlacingRun> {
  const read = async () => {
    const { rows } = await pool.query<{ orders: number }>('select last_value::integer as orders from order_numbers')
    return { seconds: processorSeconds([pid, postgresPid]), orders: rows[0]?.orders ?? 0 }
  }
  const before = await read()
  const measurement = await load()
  const after = await read()
  return { ...measurement, processorMicroseconds: (1e6 * (after.seconds - before.seconds)) / (after.orders - before.orders) }
}

async function compareListing(bench: Bench, listing: Child, clients: number): Promise<Row> {
  const { store, api, http, seconds } = bench
  const [account] = bench.accounts
  if (account === undefined) throw new Error('no account')
  await addOrders(store, account.userId)
  const floorPort = await listing.ask<number>({ url: store.url, poolSize: POOL_SIZE, userId: account.userId })
  const connections = gettingConnections(clients, '/orders?limit=20', { authorization: `Bearer ${account.token}` })
  const load = async (port: number) =>
    (await loadHttp(http, { port, warmUpSeconds: WARM_UP_SECONDS, seconds, status: 200, connections })).perSecond
  await load(api.port)
  await load(floorPort)
  return {
    work: `\`GET /orders\`, ${clients} clients, 20 of ${LISTED_ORDERS.toLocaleString('en')}`,
    heldAgainst: 'bare `node:http` and `pg`',
    goal: { atLeast: 0.95 },
    unit: 'requests/s',
    rounds: await inTurns(
      bench.rounds,
      () => load(api.port),
      () => load(floorPort),
    ),
  }
}

/** Adds a customer's orders. Called once for each customer. */
async function addOrders({ pool }: Store, userId: string): Promise<void> {
  await pool.query(
    `insert into orders (id, user_id, status, items, total_amount, currency, status_history, created_at, updated_at)
    select gen_random_uuid(), $1::uuid, 'pending',
      (select json_agg(json_build_object('product_id', id, 'sku', sku, 'name', name, 'quantity', 1,
        'unit_price', json_build_object('amount', 1250, 'currency', 'EUR'), 'total', json_build_object('amount', 1250, 'currency', 'EUR')))
        from (select * from products where n.n > 0 order by id limit 3) as product),
      3750, 'EUR', jsonb_build_array(jsonb_build_object('status', 'pending', 'at', now(), 'reason', null,
        'actor', jsonb_build_object('type', 'customer', 'id', $1::uuid))),
      now() - n.n * interval '1 second', now()
    from generate_series(1, $2) as n (n)`,
    [userId, LISTED_ORDERS],
  )
  await pool.query('vacuum analyze orders')
}

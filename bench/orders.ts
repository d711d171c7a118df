// POST /orders beside bare `pg` that writes the same rows, one transaction each, and GET /orders beside bare `node:http` with bare `pg`.
// Options: --seconds 3 --runs 3 --clients 1,16,64 --accounts 64 --lines 1,20 --only place|list --console --postgres embedded|defaults|debian
import { availableParallelism } from 'node:os'
import { parseArgs } from 'node:util'
import type { BareOrdersLoad } from './orders/bare-pg-orders.ts'
import { type Child, startChild } from './orders/child.ts'
import type { HttpLoad } from './orders/http-load.ts'
import { type Measurement, median, printTable } from './orders/measurement.ts'
import { openConsole } from './orders/open-console.ts'
import { processorSeconds } from './orders/processor-time.ts'
import { type Server, type StoreProcess, startStoreProcess } from './orders/store-process.ts'

const POOL_SIZE = 10
const PRODUCTS = 2_000
const BASKETS = 200
const MAX_CLIENTS = 64
const WARM_UP_SECONDS = 1
/** Of each side, before anything is measured: the store's code is compiled only after some thousands of requests. */
const UNMEASURED_SECONDS = 5
const LISTED_ORDERS = 10_000

interface Account {
  userId: string
  token: string
}

interface Bench {
  store: StoreProcess
  http: Child
  bare: Child
  listing: Child
  accounts: Account[]
  seconds: number
  runs: number
  clients: number[]
  lines: number[]
  /** Also with the console open. */
  isConsoleCompared: boolean
}

export async function run(args: string[]): Promise<void> {
  const { values: options } = parseArgs({
    args,
    options: {
      seconds: { type: 'string', default: '3' },
      runs: { type: 'string', default: '3' },
      clients: { type: 'string', default: '1,16,64' },
      accounts: { type: 'string', default: String(MAX_CLIENTS) },
      lines: { type: 'string', default: '1,20' },
      only: { type: 'string', default: '' },
      console: { type: 'boolean', default: false },
      postgres: { type: 'string', default: 'embedded' },
    },
  })
  const numbers = (text: string) => text.split(',').map(Number)
  const [seconds, runs] = [Number(options.seconds), Number(options.runs)]
  const store = await startStoreProcess(POOL_SIZE, {}, options.postgres as Server)
  const [http, bare, listing] = [startChild('./http-load.ts'), startChild('./bare-pg-orders.ts'), startChild('./bare-order-list.ts')]
  try {
    const accounts: Account[] = []
    for (let i = 0; i < Number(options.accounts); i++) accounts.push(await store.register())
    const products = await addProducts(store)
    const bench: Bench = {
      store,
      http,
      bare,
      listing,
      accounts,
      seconds,
      runs,
      clients: numbers(options.clients),
      lines: numbers(options.lines),
      isConsoleCompared: options.console,
    }
    console.log(
      `${availableParallelism()} cores shared by PostgreSQL, store and load; pool of ${POOL_SIZE}; ${runs} runs of ${seconds} s, medians, after ${UNMEASURED_SECONDS} s of each side unmeasured.`,
    )
    console.log(`PostgreSQL: ${options.postgres}.`)
    console.log('PostgreSQL: fsync and synchronous_commit on. Store: one process with the role api, LOG_LEVEL=info to a file.\n')
    if (options.only !== 'list') await comparePlacing(bench, products)
    if (options.only !== 'place') await compareListing(bench)
  } finally {
    await Promise.all([http.stop(), bare.stop(), listing.stop()])
    await store.stop()
  }
}

async function addProducts({ pool }: StoreProcess): Promise<string[]> {
  const { rows } = await pool.query<{ id: string }>(
    `with added as (
      insert into products (id, sku, name, category, price_amount, price_currency, in_stock)
      select gen_random_uuid(), 'SKU-' || lpad(n::text, 5, '0'), 'A product of the benchmark', 'bench', 1250, 'EUR', true
      from generate_series(1, $1) as n
      returning id
    )
    insert into inventory (product_id, available) select id, 1000000000 from added returning product_id as id`,
    [PRODUCTS],
  )
  await pool.query('analyze products, inventory')
  return rows.map((row) => row.id)
}

/** One basket of `lines` products; `isHot`: the first product is in every one, and alone in a basket of one line. */
function makeBasket(products: readonly string[], lines: number, isHot: boolean): { product_id: string; quantity: number }[] {
  const chosen = new Set(isHot ? products.slice(0, 1) : [])
  while (chosen.size < lines) chosen.add(products[Math.floor(Math.random() * products.length)] ?? '')
  return [...chosen].map((product_id) => ({ product_id, quantity: 1 }))
}

function makeBaskets(products: readonly string[], { lines, isHot, clients }: { lines: number; isHot: boolean; clients: number }) {
  return Array.from({ length: clients }, () => Array.from({ length: BASKETS }, () => makeBasket(products, lines, isHot)))
}

async function comparePlacing(bench: Bench, products: readonly string[]): Promise<void> {
  const rows: (string | number)[][] = []
  for (const lines of bench.lines) {
    const baskets = makeBaskets(products, { lines, isHot: false, clients: Math.max(...bench.clients) })
    await bench.http.ask(placingLoad({ ...bench, seconds: UNMEASURED_SECONDS }, baskets))
    await bench.bare.ask(bareLoad({ ...bench, seconds: UNMEASURED_SECONDS }, baskets))
    await bench.bare.ask({})
    const spreadRates = new Map<number, number>()
    for (const isHot of [false, true]) {
      for (const clients of bench.clients) {
        const baskets = makeBaskets(products, { lines, isHot, clients })
        const ours: PlacingRun[] = []
        const floor: PlacingRun[] = []
        const oursWithConsole: PlacingRun[] = []
        await bench.bare.ask(bareLoad(bench, baskets))
        for (let run = 0; run < bench.runs; run++) {
          ours.push(await runPlacing(bench.store, bench.store.apiPid, () => bench.http.ask(placingLoad(bench, baskets))))
          floor.push(await runPlacing(bench.store, bench.bare.pid, () => bench.bare.ask({})))
          if (!bench.isConsoleCompared) continue
          const closeConsole = await openConsole(bench.store)
          oursWithConsole.push(await runPlacing(bench.store, bench.store.apiPid, () => bench.http.ask(placingLoad(bench, baskets))))
          await closeConsole()
        }
        const [we, they] = [median(ours), median(floor)]
        const [ourTime, bareTime] = [medianProcessorTime(ours), medianProcessorTime(floor)]
        const times = [ourTime, bareTime].map((microseconds) => Math.round(microseconds))
        if (!isHot) spreadRates.set(clients, we.perSecond)
        const hotRatio = isHot ? (we.perSecond / (spreadRates.get(clients) ?? Number.NaN)).toFixed(2) : ''
        rows.push([
          lines,
          isHot ? 'one hot product' : 'spread',
          clients,
          ...columns(we, they),
          hotRatio,
          ...times,
          (bareTime / ourTime).toFixed(2),
          ...(bench.isConsoleCompared ? withConsole(oursWithConsole, they, bareTime) : []),
        ])
      }
    }
  }
  printTable(
    [
      'lines',
      'products',
      'clients',
      'orders/s',
      'bare pg',
      'ratio',
      'p50 ms',
      'p95',
      'p99',
      'bare p50',
      'bare p99',
      'failures',
      'hot ÷ spread',
      'processor µs',
      'bare',
      'bare ÷ ours',
      ...(bench.isConsoleCompared ? ['ratio with console', 'bare ÷ ours with console'] : []),
    ],
    rows,
  )
}

/** `processorMicroseconds`: what an order took of PostgreSQL and of the process that places it, without the one that loads the store. */
type PlacingRun = Measurement & { processorMicroseconds: number }

async function runPlacing({ pool, postgresPid }: StoreProcess, pid: number, load: () => Promise<Measurement>): Promise<PlacingRun> {
  const read = async () => {
    const { rows } = await pool.query<{ orders: number }>('select last_value::integer as orders from order_numbers')
    return { seconds: processorSeconds([pid, postgresPid]), orders: rows[0]?.orders ?? 0 }
  }
  const before = await read()
  const measurement = await load()
  const after = await read()
  return { ...measurement, processorMicroseconds: (1e6 * (after.seconds - before.seconds)) / (after.orders - before.orders) }
}

function withConsole(ours: readonly PlacingRun[], bare: Measurement, bareTime: number): string[] {
  return [(median(ours).perSecond / bare.perSecond).toFixed(2), (bareTime / medianProcessorTime(ours)).toFixed(2)]
}

function medianProcessorTime(runs: readonly PlacingRun[]): number {
  const times = runs.map((run) => run.processorMicroseconds).sort((a, b) => a - b)
  return times[Math.floor(times.length / 2)] ?? Number.NaN
}

function columns(we: Measurement, they: Measurement): (string | number)[] {
  const ratio = (we.perSecond / they.perSecond).toFixed(2)
  const latencies = [we.p50, we.p95, we.p99, they.p50, they.p99].map((ms) => ms.toFixed(1))
  return [Math.round(we.perSecond), Math.round(they.perSecond), ratio, ...latencies, we.failures + they.failures]
}

function placingLoad({ store, accounts, seconds }: Bench, baskets: readonly object[][]): HttpLoad {
  const connections = baskets.map((mine, client) => ({
    head:
      'POST /orders HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n' +
      `authorization: Bearer ${accounts[client % accounts.length]?.token}\r\nidempotency-key: "{unique}"\r\n`,
    bodies: mine.map((items) => JSON.stringify({ items })),
  }))
  return { port: store.port, warmUpSeconds: WARM_UP_SECONDS, seconds, status: 201, connections }
}

function bareLoad({ store, accounts, seconds }: Bench, baskets: BareOrdersLoad['baskets']): BareOrdersLoad {
  const userIds = accounts.map((account) => account.userId)
  return { url: store.url, poolSize: POOL_SIZE, clients: baskets.length, warmUpSeconds: WARM_UP_SECONDS, seconds, userIds, baskets }
}

async function compareListing(bench: Bench): Promise<void> {
  const { store, listing, http, seconds } = bench
  const [account] = bench.accounts
  if (account === undefined) throw new Error('no account')
  await addOrders(store, account.userId)
  const floorPort = await listing.ask<number>({ url: store.url, poolSize: POOL_SIZE, userId: account.userId })
  const rows: (string | number)[][] = []
  for (const clients of bench.clients) {
    const load = (port: number): HttpLoad => ({
      port,
      warmUpSeconds: WARM_UP_SECONDS,
      seconds,
      status: 200,
      connections: Array.from({ length: clients }, () => ({
        head: `GET /orders?limit=20 HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${account.token}\r\n`,
        bodies: [''],
      })),
    })
    const ours: Measurement[] = []
    const floor: Measurement[] = []
    for (let run = 0; run < bench.runs; run++) {
      ours.push(await http.ask<Measurement>(load(store.port)))
      floor.push(await http.ask<Measurement>(load(floorPort)))
    }
    rows.push([clients, ...columns(median(ours), median(floor))])
  }
  console.log(`\nGET /orders?limit=20, a customer with ${LISTED_ORDERS} orders of 3 lines\n`)
  printTable(['clients', 'requests/s', 'bare', 'ratio', 'p50 ms', 'p95', 'p99', 'bare p50', 'bare p99', 'failures'], rows)
}

async function addOrders({ pool }: StoreProcess, userId: string): Promise<void> {
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

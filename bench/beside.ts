// The times of pages and orders beside the pipeline's work, with two processes (WEB_CONCURRENCY) and with one, in
// turns. The pipeline gets the same work in both cases. Options: --seconds 8

import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Cleanup, withCleanup } from '../test/cleanup.ts'
import { eventually } from '../test/eventually.ts'
import { runStorefront } from '../test/store-process.ts'
import type { SteadyLoad, SteadyReport } from './beside/steady-load.ts'
import type { SinkReport } from './mails/sink.ts'
import { orderText } from './pipeline/order-text.ts'
import { startChild } from './rig/child.ts'
import { processorSeconds, processTree } from './rig/processor-time.ts'
import { type Account, addProducts, registerCustomers } from './rig/shop.ts'
import { openStore, type Running, type Store } from './rig/store.ts'
import { inTurns, type Row, readOptions } from './row.ts'

const SETTING = 'WEB_CONCURRENCY'
const CUSTOMERS = 32
const PAGES_PER_SECOND = 60
const ORDERS_PER_SECOND = 15
const BURST = 3_000
const IMPORTED = 6_000
const GENERATOR = fileURLToPath(new URL('generate-products.ts', import.meta.url))

interface Side {
  store: Store
  running: Running
  accounts: Account[]
  products: string[]
}

type Figures = Record<'pages' | 'orders' | 'processorSeconds', number>

export async function run(args: string[]): Promise<Row[]> {
  const { rounds, isQuick, more } = readOptions(args, { seconds: '' })
  const seconds = Number(more.seconds || (isQuick ? 4 : 8))
  const rows: Row[] = []
  await withCleanup(async (cleanup) => {
    const sink = startChild(cleanup, 'mails/sink.ts')
    const { port } = await sink.ask<SinkReport>({})
    const one = await openSide(cleanup, port, 1)
    const two = await openSide(cleanup, port, 2)
    const load = startChild(cleanup, 'beside/steady-load.ts')
    const measure = async (side: Side, beside: (side: Side) => Promise<unknown>): Promise<Figures> => {
      const pids = [side.running.pid, side.store.postgresPid]
      const before = processorSeconds(pids)
      const question: SteadyLoad = {
        ...{ port: side.running.port, accounts: side.accounts, products: side.products, seconds },
        ...{ pagesPerSecond: PAGES_PER_SECOND, ordersPerSecond: ORDERS_PER_SECOND },
      }
      const [{ pages, orders }] = await Promise.all([load.ask<SteadyReport>(question), beside(side)])
      await untilMailed(side)
      return { pages: p99(pages), orders: p99(orders), processorSeconds: processorSeconds(pids) - before }
    }
    for (const side of [one, two]) await measure(side, async () => {})
    const work = {
      "the orders' own mails and lake files": async () => {},
      [`a burst of ${BURST.toLocaleString('en')} mails`]: commitBurst,
      [`an import of ${IMPORTED.toLocaleString('en')} products`]: (side: Side) => importProducts(cleanup, side),
    }
    for (const [beside, start] of Object.entries(work)) {
      const figures: { one: Figures; two: Figures }[] = []
      const [ofOne, ofTwo]: [Figures[], Figures[]] = [[], []]
      const keep = async (side: Side, all: Figures[]) => {
        all.push(await measure(side, start))
        return 0
      }
      await inTurns(
        rounds,
        () => keep(two, ofTwo),
        () => keep(one, ofOne),
      )
      for (const [index, figure] of ofTwo.entries()) figures.push({ two: figure, one: ofOne[index] as Figures })
      const row = (name: keyof Figures, what: string, unit: string): Row => ({
        ...{ work: `${what} beside ${beside}, two processes`, heldAgainst: 'one process', unit },
        rounds: figures.map((round) => ({ value: round.two[name], floor: round.one[name] })),
      })
      rows.push(row('pages', 'p99 of `GET /products`', 'ms'), row('orders', 'p99 of `POST /orders`', 'ms'))
      rows.push(row('processorSeconds', 'processor time of store and PostgreSQL', 's'))
    }
    const memory = [two, one].map(({ running }) => privateMebibytes(running.pid)) as [number, number]
    rows.push({
      ...{ work: 'private pages of all processes of Node.js at the end, two processes', heldAgainst: 'one process', unit: 'MiB' },
      rounds: [{ value: memory[0], floor: memory[1] }],
    })
  })
  return rows
}

async function openSide(cleanup: Cleanup, smtpPort: number, processes: number): Promise<Side> {
  const store = await openStore(cleanup, { env: { SMTP_URL: `smtp://127.0.0.1:${smtpPort}`, [SETTING]: String(processes) } })
  const running = await store.start('all')
  return { store, running, accounts: await registerCustomers(running.port, CUSTOMERS), products: await addProducts(store.pool, 1_000) }
}

function p99(values: number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.99)] ?? Number.NaN
}

async function commitBurst({ store: { pool }, accounts }: Side): Promise<void> {
  const { items, history, productIds, total } = orderText(randomUUID())
  await pool.query(
    `insert into orders (id, user_id, status, items, total_amount, currency, status_history, product_ids, created_at, updated_at)
    select uuidv7(), ($6::uuid[])[1 + i % $7::int], 'pending', $1, $2, 'EUR', $3, $4, now(), now() from generate_series(1, $5::int) as i`,
    [items, total, history, productIds, BURST, accounts.map(({ userId }) => userId), accounts.length],
  )
}

/** Waits until all mails are sent, so a burst of one round delays no request of the next. */
async function untilMailed({ store }: Side): Promise<void> {
  await eventually(
    async () => {
      const { rows } = await store.pool.query<{ waiting: number }>(
        `select count(*)::int as waiting from email_deliveries where status = 'queued'`,
      )
      return rows[0]?.waiting === 0
    },
    { what: 'every mail', timeoutMs: 300_000, pauseMs: 200 },
  )
}

async function importProducts(cleanup: Cleanup, { store }: Side): Promise<void> {
  const prefix = randomUUID()
  const file = join(store.dataDir, `${prefix}.ndjson`)
  const products = execFileSync(process.execPath, [GENERATOR, String(IMPORTED)], { encoding: 'utf8', maxBuffer: 1e9 })
  // The products are new in each round.
  writeFileSync(file, products.replaceAll('"sku":"', `"sku":"${prefix.slice(0, 8)}-`))
  const { status, stderr } = await runStorefront(cleanup, ['catalogue', 'import', file], { env: store.settings })
  if (status !== 0) throw new Error(`the import ended with ${status}: ${stderr}`)
}

/** The memory that ends with the process and its further processes, from Linux's smaps_rollup. */
function privateMebibytes(root: number): number {
  const sizes = processTree(root).map(({ pid }) => {
    const pages = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8').matchAll(/^Private_(?:Clean|Dirty):\s+(\d+) kB$/gm)
    return [...pages].reduce((sum, [, kibibytes]) => sum + Number(kibibytes), 0)
  })
  return sizes.reduce((sum, size) => sum + size, 0) / 1_024
}

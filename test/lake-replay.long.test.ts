import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { IcebergRestCatalog } from 'iceberg-js'
import type { Pool } from '../src/db/pool.ts'
import { TableStore } from '../src/lake/iceberg/table-store.ts'
import { listLake } from '../src/lake/list-files.ts'
import { LocalLakeStore } from '../src/lake/local-store.ts'
import { makeKey } from './api-keys.ts'
import { CATALOGUE_KEYS, type CatalogueTable, catalogueOf } from './catalogue-tables.ts'
import { createTestDatabase } from './database.ts'
import { selectPlain } from './dbt-models.ts'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'
import { readWithIcebird, watchEvents } from './iceberg-reader.ts'
import { movesOf } from './invoice-orders.ts'
import { type Invoice, invoiceFiles } from './invoices.ts'
import { farFromMidnight } from './midnight.ts'
import { openPlainFiles } from './plain-files.ts'
import { TEST_SECRET } from './store.ts'
import { runStorefront, type StoreProcess, serve } from './store-process.ts'
import { makeTestFolder } from './test-folder.ts'

const COMPACT = fileURLToPath(new URL('../faults/compact-process.ts', import.meta.url))
const MERGE_STEPS = ['before link', 'before metadata', 'after metadata', 'before data']
const CLIENTS = 8
// A reader of the table has the global one meanwhile.
const request = globalThis.fetch

await farFromMidnight()

/** A store in one process, which can be killed and started again at the same address. */
async function startKillable(t: TestContext) {
  const { url: databaseUrl, pool } = await createTestDatabase(t)
  const dataDir = makeTestFolder(t, 'storefront-replay-')
  const port = await freePort()
  const env = {
    ...{
      DATABASE_URL: databaseUrl,
      STOREFRONT_SECRET: TEST_SECRET,
      DATA_DIR: dataDir,
      CURRENCY: 'GBP',
      PORT: String(port),
      OPS_PORT: 'off',
    },
    ...{ LAKE_FLUSH_SECONDS: '1', MAIL_MAX_PER_HOUR: '0' },
  }
  const url = `http://127.0.0.1:${port}`
  assert.equal((await runStorefront(t, ['migrate'], { env })).status, 0)
  let process: StoreProcess = await serve(t, { env })
  const restart = async () => {
    assert.equal(await process.end('SIGKILL'), null)
    process = await serve(t, { env })
  }
  return { pool, env, dataDir, url, restart, run: (...args: string[]) => runStorefront(t, args, { env }) }
}

type Killable = Awaited<ReturnType<typeof startKillable>>

/** Retries until it is answered: the store may be down, or full. */
async function call({ url }: Killable, method: string, path: string, body: unknown, headers: Record<string, string> = {}) {
  for (let attempt = 0; attempt < 600; attempt++) {
    const init = { method, body: JSON.stringify(body), headers: { 'content-type': 'application/json', ...headers } }
    const answer = await request(url + path, init).catch(() => null)
    if (answer !== null && ![429, 503].includes(answer.status))
      return { status: answer.status, json: (await answer.json()) as { access_token: string; id: string; total: { amount: number } } }
    await pause(100)
  }
  throw new Error(`${method} ${path} was not answered`)
}

/** Imports the catalogue of these invoices. Returns the id of each product, by sku. */
async function importCatalogue(t: TestContext, store: Killable, invoices: readonly Invoice[]): Promise<Map<string, string>> {
  const products = new Map(invoices.flatMap(({ lines }) => lines.map((line) => [line.sku, line] as const)))
  const input = [...products.values()].map(({ sku, name, unitAmount }) => {
    const price = { amount: unitAmount, currency: 'GBP' }
    return JSON.stringify({ sku, name: name.trim() || sku, description: '', category: 'gifts', price, stock: 1_000_000 })
  })
  const imported = await runStorefront(t, ['catalogue', 'import', '-', '--format', 'ndjson'], { env: store.env, input: input.join('\n') })
  assert.equal(imported.status, 0, imported.stderr)
  const { rows } = await store.pool.query<{ sku: string; id: string }>('select sku, id from products')
  return new Map(rows.map(({ sku, id }) => [sku, id]))
}

/** Places invoices as orders and moves them, by some clients at once, each until it is answered. */
class Placing {
  readonly #key: string
  /** Moves that wait: a part of the orders moves on when all are placed. */
  readonly #later: { orderId: string; to: string }[] = []
  readonly #store: Killable
  readonly #products: ReadonlyMap<string, string>
  readonly #tokens = new Map<string, Promise<string>>()
  readonly #waiting: Invoice[]
  placed = 0

  constructor(store: Killable, key: string, products: ReadonlyMap<string, string>, invoices: readonly Invoice[]) {
    this.#store = store
    this.#key = key
    this.#products = products
    this.#waiting = [...invoices]
  }

  /** Places the next invoices. `onHalf`: after half of them. */
  async next(count: number, onHalf = () => {}): Promise<void> {
    const part = this.#waiting.splice(0, count)
    const end = this.placed + part.length
    const work = async () => {
      for (let invoice = part.shift(); invoice !== undefined; invoice = part.shift()) {
        await this.#place(invoice)
        this.placed += 1
        if (this.placed === end - Math.floor(count / 2)) onHalf()
      }
    }
    await Promise.all(Array.from({ length: CLIENTS }, work))
  }

  /** The moves that have waited. */
  async moveOn(): Promise<void> {
    const work = async () => {
      for (let move = this.#later.shift(); move !== undefined; move = this.#later.shift()) await this.#move(move.orderId, move.to)
    }
    await Promise.all(Array.from({ length: CLIENTS }, work))
  }

  async #move(orderId: string, to: string): Promise<void> {
    const path = `/admin/orders/${orderId}/transitions`
    // The reference makes repeating a move whose answer was lost harmless.
    const { status, json } = await call(this.#store, 'POST', path, { to, reference: to }, { authorization: `Bearer ${this.#key}` })
    assert.equal(status, 200, JSON.stringify(json))
  }

  async #place(invoice: Invoice): Promise<void> {
    const { customer, number, lines } = invoice
    const items = lines.map(({ sku, quantity }) => ({ product_id: this.#products.get(sku), quantity }))
    const token = await this.#tokenOf(customer === '' ? `guest-${number}` : `customer-${customer}`)
    const headers = { authorization: `Bearer ${token}`, 'idempotency-key': `"${number}"` }
    const { status, json } = await call(this.#store, 'POST', '/orders', { items }, headers)
    assert.equal(status, 201, JSON.stringify(json))
    const total = lines.reduce((sum, { quantity, unitAmount }) => sum + quantity * unitAmount, 0)
    assert.equal(json.total.amount, total, number)
    const [first, second, ...later] = movesOf(invoice).slice(1)
    for (const move of [first, second]) if (move !== undefined) await this.#move(json.id, move.status)
    this.#later.push(...later.map((move) => ({ orderId: json.id, to: move.status })))
  }

  #tokenOf(customer: string): Promise<string> {
    const email = `${customer}@example.com`
    const token = this.#tokens.get(customer) ?? call(this.#store, 'POST', '/auth/guest', { email }).then(({ json }) => json.access_token)
    this.#tokens.set(customer, token)
    return token
  }
}

/**
 * Changes some products, a different part each time: the name, and prices in another currency; `own`: the own price,
 * which invoices count on.
 */
async function changeProducts(store: Killable, key: string, products: ReadonlyMap<string, string>, round: number, own = false) {
  for (const [index, id] of [...products.values()].entries()) {
    if (index % 20 !== round % 20) continue
    const prices = index % 3 === 0 ? [] : [{ amount: 100 + round, currency: 'EUR' }]
    const body = { name: `Name ${round}`, prices, ...(own ? { price: { amount: 7 + round, currency: 'GBP' } } : {}) }
    const headers = { authorization: `Bearer ${key}`, 'if-match': '*' }
    const { status, json } = await call(store, 'PATCH', `/admin/products/${id}`, body, headers)
    assert.equal(status, 200, JSON.stringify(json))
  }
}

/** Merges today's files in a process that kills itself at a step; false when it was over before. */
async function dieMerging(env: Record<string, string>, step: string): Promise<boolean> {
  const child = spawn(process.execPath, [COMPACT], { env: { PATH: process.env.PATH ?? '', ...env, FAULT: step }, stdio: 'ignore' })
  const [, signal] = await once(child, 'exit')
  return signal === 'SIGKILL'
}

type Row = Record<string, unknown>
type Tables = Record<'order_events' | 'orders' | 'order_lines' | CatalogueTable, string[]>

const KEYS: Record<keyof Tables, (row: Row) => string> = {
  ...CATALOGUE_KEYS,
  order_events: (row) => String(row.event_id),
  orders: (row) => [row.order_id, row.version, row.status, row.total_amount].join(),
  order_lines: (row) => [row.order_id, row.line, row.status, row.sku, row.quantity, row.line_total_amount].join(),
}
const NAMES = Object.keys(KEYS) as (keyof Tables)[]

/** What the tables must have, in the order of the texts. */
async function readPostgres(pool: Pool): Promise<Tables> {
  const { rows } = await pool.query<{ order_id: string; version: number; status: string; total_amount: string; items: PlacedItem[] }>(
    'select id as order_id, version, status, total_amount::text, items from orders',
  )
  const lines = rows.flatMap(({ order_id, status, items }) =>
    items.map(({ sku, quantity, total }, index) => ({ order_id, status, sku, quantity, line: index + 1, line_total_amount: total.amount })),
  )
  const tables = {
    order_events: rows.flatMap(({ order_id, version }) => Array.from({ length: version }, (_, index) => `${order_id}.${index + 1}`)),
    orders: rows.map(KEYS.orders),
    order_lines: lines.map(KEYS.order_lines),
    ...(await catalogueOf(pool)),
  }
  return Object.fromEntries(NAMES.map((name) => [name, tables[name].toSorted()])) as Tables
}

interface PlacedItem {
  sku: string
  quantity: number
  total: { amount: number }
}

/**
 * No two rows of a product, or of one of its prices, are valid at once, and each begins where the one before ends or
 * later.
 */
const OVERLAPS = `
  select 'products' as name, product_id, version
  from storefront.products
  qualify not valid_from >= lag(valid_to) over (partition by product_id order by version) or is_current <> (valid_to is null)
  union all
  select 'prices', product_id, version
  from storefront.prices
  qualify not valid_from >= lag(valid_to) over (partition by product_id, currency order by version) or is_current <> (valid_to is null)`

// The retailer's invoices when RETAIL_INVOICES names them.
for (const { name, invoices } of invoiceFiles().slice(-1))
  test(`tables and plain files agree with PostgreSQL after the invoices of ${name}, five kills of the writer and of the merge`, async (t) => {
    const store = await startKillable(t)
    const products = await importCatalogue(t, store, invoices)
    const directory = join(store.dataDir, 'lake')
    const lake = new LocalLakeStore(directory)
    const withPath = { store: lake, pathOf: (file: string) => lake.locate(file) }
    const stopReading = watchEvents(t, withPath, ['order_events', 'catalogue_events'])
    const { key } = await makeKey(store, ['orders:move', 'products:write'])
    const placing = new Placing(store, key, products, invoices)
    const started = performance.now()
    for (const [round, step] of MERGE_STEPS.entries()) {
      const isHalf = Promise.withResolvers<void>()
      const stored = (await listLake(lake)).length
      await Promise.all([
        placing.next(Math.ceil(invoices.length / 10), isHalf.resolve),
        isHalf.promise.then(store.restart),
        changeProducts(store, key, products, round),
      ])
      // A merge needs files that the writer has written since.
      await eventually(async () => (await listLake(lake)).length !== stored, { what: 'a file of the lake' })
      while (!(await Promise.all([dieMerging(store.env, step), placing.next(2)]))[0]) await pause(1_000)
    }
    await placing.next(invoices.length)
    const placedSeconds = (performance.now() - started) / 1_000

    const read = async (name: keyof Tables, snapshot?: number) =>
      (await readWithIcebird(withPath, name, snapshot)).map(KEYS[name]).toSorted()
    const untilRegistered = async ({ order_events, catalogue_events }: Tables) => {
      const isComplete = async () => {
        return (
          (await read('order_events')).length >= order_events.length && (await read('catalogue_events')).length >= catalogue_events.length
        )
      }
      await eventually(isComplete, { what: 'all events in the tables' })
    }
    const placed = await readPostgres(store.pool)
    assert.equal(placed.orders.length, invoices.length, 'each invoice is one order')
    assert.ok(new Set(placed.orders.map((order) => order.split(',')[2])).size >= 3, 'orders in different states')
    await untilRegistered(placed)
    assert.equal((await store.run('lake', 'maintain')).status, 0)
    const snapshots = new Map<keyof Tables, number | undefined>()
    for (const name of NAMES) snapshots.set(name, (await new TableStore(lake, name).read()).newest?.metadata['current-snapshot-id'])

    // No order waits for the price of a product any more.
    await Promise.all([placing.moveOn(), changeProducts(store, key, products, 0, true), changeProducts(store, key, products, 21, true)])
    const wanted = await readPostgres(store.pool)
    for (const name of ['orders', 'order_lines', 'products', 'prices'] as const) assert.notDeepEqual(wanted[name], placed[name], name)
    await untilRegistered(wanted)
    const files = (await listLake(lake)).length
    const merged = await store.run('lake', 'maintain')
    assert.equal(merged.status, 0, merged.stderr)
    assert.ok((await listLake(lake)).length < files, 'there was something to merge')
    const reads = await stopReading()
    assert.ok(reads > 0)

    const connection = await openPlainFiles(t, directory)
    for (const name of NAMES) {
      assert.deepEqual(await read(name), wanted[name], `icebird, the table ${name}`)
      assert.deepEqual(await read(name, snapshots.get(name)), placed[name], `time travel to ${name} before the merge`)
      const plain = (await connection.runAndReadAll(`from storefront.${name}`)).getRowObjects()
      assert.deepEqual(plain.map(KEYS[name]).toSorted(), wanted[name], `DuckDB on the plain files, ${name}`)
    }
    assert.deepEqual(await selectPlain(connection, OVERLAPS), [])
    const newest = await store.pool.query<Row>('select id as product_id, name, price_amount, price_currency as currency from products')
    const state = (row: Row) => [row.product_id, row.name, row.currency, row.price_amount].join()
    const current = (await readWithIcebird(withPath, 'products')).filter((row) => row.is_current === true)
    assert.deepEqual(current.map(state).toSorted(), newest.rows.map(state).toSorted(), 'the newest state of each product')

    const { key: token } = await makeKey(store, ['figures:read'])
    const catalogue = new IcebergRestCatalog({ baseUrl: `${store.url}/iceberg`, auth: { type: 'bearer', token } })
    const { identifiers } = await catalogue.listTables({ namespace: ['storefront'] })
    const rowsOf = async (table: string) => {
      const { snapshots = [], ...metadata } = await catalogue.loadTable({ namespace: ['storefront'], name: table })
      return Number(snapshots.find((snapshot) => snapshot['snapshot-id'] === metadata['current-snapshot-id'])?.summary?.['total-records'])
    }
    for (const name of NAMES.filter((each) => identifiers.some((table) => table.name === each)))
      assert.equal(await rowsOf(name), wanted[name].length, `the catalogue's count of ${name}`)
    const verified = await store.run('verify')
    assert.equal(verified.status, 0, verified.stdout)
    t.diagnostic(
      `${wanted.orders.length} orders in ${placedSeconds.toFixed(1)} s, ${wanted.order_events.length} events, ${wanted.order_lines.length} lines, ${wanted.products.length} states of products, ${files} files before the merge, ${reads} reads of the tables meanwhile`,
    )
  })

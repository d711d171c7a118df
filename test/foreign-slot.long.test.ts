import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Cleanup } from './cleanup.ts'
import { makeDataFolder } from './data-folders.ts'
import { connectTo } from './database.ts'
import { debianPostgresMissing } from './debian-postgres.ts'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'
import { startOwnServer } from './own-server.ts'
import { listProducts, register, untilDelivered } from './shopping.ts'
import { runStorefront, type StoreProcess, serve } from './store-process.ts'

const ORDERS = 12
const SLOTS = ['shop_orders', 'shop_catalogue'] as const
const WORKERS = ['stream', 'email', 'lake'].flatMap((role) => ['--role', role])

type Shape = 'one process with every role' | 'a process for the API and one for the pipeline'

/** A store of processes on Debian's PostgreSQL, whose slots the test can treat as Patroni or an administrator does. */
async function openShop(t: Cleanup, shape: Shape) {
  const server = await startOwnServer(t)
  const { path } = makeDataFolder(t)
  const ops = await freePort()
  const env = {
    ...server.settings,
    DATA_DIR: path,
    LAKE_FLUSH_SECONDS: '1',
    MAIL_MAX_PER_HOUR: '0',
    BASE_URL: 'http://localhost:3000',
    MAX_PENDING_ORDERS_PER_USER: 'off',
  }
  const admin = await connectTo(t, `${server.address}/shop`)
  let pipeline: StoreProcess | null = null
  let api: StoreProcess | null = null
  const isOne = shape === 'one process with every role'
  const command = async (args: string[], input = '') => runStorefront(t, args, { env: { ...env, OPS_PORT: String(ops) }, input })
  const startApi = async () => {
    api = await serve(t, { env: { ...env, OPS_PORT: 'off' }, args: ['--role', 'api'] })
    return api
  }
  return {
    admin,
    command,
    dataDir: path,
    createSlots: async (names: readonly string[] = SLOTS) => {
      for (const name of names) await admin.query(`select pg_create_logical_replication_slot($1, 'pgoutput')`, [name])
    },
    /** No slot is created until the result is called. */
    async holdSlots() {
      await admin.query('begin')
      await admin.query('select pg_current_xact_id()')
      return () => admin.query('commit')
    },
    dropSlots: () =>
      eventually(
        () =>
          admin.query(`select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name like 'shop%'`).then(
            () => true,
            () => false,
          ),
        { what: 'slots that nobody reads' },
      ),
    /** Sells by a process of the API, while nothing reads the slots, and changes a product. */
    async sell(price: number) {
      const product = { sku: 'L-1', name: 'A lamp', category: 'lamps', price: { amount: price, currency: 'EUR' }, stock: null }
      assert.equal((await command(['catalogue', 'import', '-'], `${JSON.stringify(product)}\n`)).status, 0)
      const { url, end } = api ?? (await startApi())
      const shopper = await register(url)
      const [lamp = ''] = await listProducts(url)
      const orders = []
      for (let order = 0; order < ORDERS; order++) orders.push((await shopper.order(lamp)) ?? assert.fail('an order was refused'))
      await end('SIGTERM')
      api = null
      return orders
    },
    /** Starts what reads the slots: beside the API in the same process, or in one of its own. */
    async startPipeline() {
      const args = isOne ? ['--role', 'api', ...WORKERS] : WORKERS
      const processEnv = { ...env, OPS_PORT: String(ops) }
      pipeline = await serve(t, { env: processEnv, args, ready: isOne ? /^Storefront answers/ : /./ })
      return pipeline
    },
    async stopPipeline() {
      assert.equal(await pipeline?.end('SIGTERM'), 0, 'the process with the stream is alive, and stops when it is told')
      pipeline = null
    },
    async failing(): Promise<{ name: string; reason: string }[] | null> {
      const answer = await fetch(`http://127.0.0.1:${ops}/readyz`).catch(() => null)
      return answer === null ? null : (((await answer.json()) as { failing?: { name: string; reason: string }[] }).failing ?? [])
    },
    metric: async (name: string) =>
      new RegExp(`^${name} (\\d)`, 'm').exec(await (await fetch(`http://127.0.0.1:${ops}/metrics`)).text())?.[1],
    /** How many events of orders, and of the catalogue, the tables have and the topic lacks. */
    async missing() {
      const { rows } = await admin.query<{ orders: number; products: number }>(
        `select
          (select count(*) from orders where not exists (select from topic_messages where id = orders.id || '.1'))::int as orders,
          (select count(*) from product_events as event where not exists (
            select from catalogue_messages where id = product_id || case stream when 'stock' then '.stock.' else '.' end || version
          ))::int as products`,
      )
      return rows[0]
    },
  }
}

type Shop = Awaited<ReturnType<typeof openShop>>

/**
 * What the store says of slots that are lost, and that the running process mends them. `release` lets it create
 * slots.
 */
async function assertLostAndMended(
  shop: Shop,
  process: StoreProcess,
  { reason, orders, release }: { reason: RegExp; orders: readonly string[]; release: () => Promise<unknown> },
): Promise<void> {
  const found = await eventually(async () => (await shop.failing())?.find(({ reason: text }) => reason.test(text)), { what: `${reason}` })
  assert.equal(found.name, 'change_stream')
  assert.equal(await shop.metric('storefront_change_stream_slot_lost'), '1')
  const diagnosis = await shop.command(['doctor'])
  assert.match(diagnosis.stdout, reason)
  assert.match(diagnosis.stdout, /start a process with the role stream/)
  await release()
  await eventually(async () => (await shop.missing())?.products === 0, { what: 'the events of the catalogue' })
  await eventually(async () => (await shop.metric('storefront_catalogue_stream_slot_lost')) === '0', { what: 'a slot that is not lost' })
  const complaints = process.logs.filter(({ level, msg }) => level >= 50 && /change stream/.test(msg))
  assert.ok(complaints.length <= 3, JSON.stringify(complaints))
  await eventually(async () => (await shop.missing())?.orders === 0, { what: 'the events of orders' })
  await eventually(async () => (await shop.failing())?.length === 0, { what: 'a store that is ready' })
  await eventually(async () => (await shop.metric('storefront_change_stream_slot_lost')) === '0', { what: 'a slot that is not lost' })
  const events = await untilDelivered(shop.dataDir, orders)
  assert.equal(new Set(events).size, events.length)
  await eventually(async () => (await shop.command(['verify'])).status === 0, { what: 'verify without findings' })
}

for (const shape of ['one process with every role', 'a process for the API and one for the pipeline'] as const) {
  describe(`slots that the store did not make: ${shape}`, { skip: debianPostgresMissing }, () => {
    test('those from before the first migration are replaced by it, and everything is published', async (t) => {
      const shop = await openShop(t, shape)
      await shop.createSlots()
      assert.deepEqual(await shop.command(['migrate']).then(({ status, stderr }) => [status, stderr]), [0, ''])
      const orders = await shop.sell(1_250)
      await shop.startPipeline()
      await untilDelivered(shop.dataDir, orders)
      await eventually(async () => (await shop.missing())?.products === 0, { what: 'the events of the catalogue' })
      assert.deepEqual([await shop.missing(), await shop.failing()], [{ orders: 0, products: 0 }, []])
      assert.equal((await shop.command(['verify'])).status, 0)
      await shop.stopPipeline()
    })

    test('those that were made again after changes count as lost, and the stream publishes the gap', async (t) => {
      const shop = await openShop(t, shape)
      await shop.command(['migrate'])
      const orders = await shop.sell(1_250)
      await shop.startPipeline()
      await untilDelivered(shop.dataDir, orders)
      await shop.stopPipeline()
      await shop.dropSlots()
      orders.push(...(await shop.sell(1_300)))
      await shop.createSlots()
      assert.equal((await shop.missing())?.orders, ORDERS)
      const release = await shop.holdSlots()
      const process = await shop.startPipeline()
      const reason = /but this store has read it only up to .*: something else recreated or moved it/
      await assertLostAndMended(shop, process, { reason, orders, release })
      await shop.stopPipeline()
    })

    test('those that are older than the publications count as lost, and end no process', async (t) => {
      const shop = await openShop(t, shape)
      await shop.createSlots(['older'])
      await shop.command(['migrate'])
      await shop.dropSlots()
      // Their position is below the one that the store knows: only the server can say that they are unusable.
      for (const slot of SLOTS) await shop.admin.query(`select pg_copy_logical_replication_slot('older', $1)`, [slot])
      const orders = await shop.sell(1_250)
      const release = await shop.holdSlots()
      const process = await shop.startPipeline()
      await assertLostAndMended(shop, process, { reason: /is older than the publication storefront_orders/, orders, release })
      await shop.stopPipeline()
    })
  })
}

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { makeDataFolder } from './data-folders.ts'
import { connectTo } from './database.ts'
import { debianPostgresMissing } from './debian-postgres.ts'
import { eventually } from './eventually.ts'
import { startOwnServer } from './own-server.ts'
import { listProducts, register, untilDelivered } from './shopping.ts'
import { BIN, runStorefront, type StoreProcess, serve } from './store-process.ts'
import { makeNextVersion } from './versions.ts'

const PACE_MS = 50
const WORKERS = ['stream', 'email', 'lake', 'webhook'].flatMap((role) => ['--role', role])

/** Orders all the time until it is stopped, at each of the addresses in turn. */
function startOrdering(urls: string[], shopperAt: Map<string, Awaited<ReturnType<typeof register>>>, products: readonly string[]) {
  const orders: string[] = []
  let refused = 0
  let isStopped = false
  const order = async () => {
    for (let count = 0; !isStopped; count++) {
      const url = urls[count % urls.length] ?? ''
      const shopper = shopperAt.get(url) ?? assert.fail(url)
      const id = await shopper.order(products[count % products.length] ?? '')
      if (id === null) refused++
      else orders.push(id)
      await delay(PACE_MS)
    }
  }
  const running = order()
  return {
    orders,
    more: (count: number) => {
      const wanted = orders.length + count
      return eventually(async () => orders.length >= wanted, { what: 'more orders', timeoutMs: 120_000 })
    },
    async stop() {
      isStopped = true
      await running
      return { refused }
    },
  }
}

test('this version and the next sell side by side on one database, and every order is delivered once', {
  skip: debianPostgresMissing,
}, async (t) => {
  const server = await startOwnServer(t)
  const [oldBin, newBin] = [BIN, makeNextVersion(t)]
  const { path } = makeDataFolder(t)
  const env = {
    ...server.settings,
    DATA_DIR: path,
    LAKE_FLUSH_SECONDS: '1',
    MAIL_MAX_PER_HOUR: '0',
    BASE_URL: 'http://localhost:3000',
    MAX_PENDING_ORDERS_PER_USER: 'off',
  }
  const command = async (bin: string, args: string[], input = '') => {
    const { status, stdout, stderr } = await runStorefront(t, args, { env, bin, input })
    assert.deepEqual([status, stderr], [0, ''], `${args.join(' ')} ${stdout}`)
    return stdout
  }
  const start = (bin: string, args: string[]) => serve(t, { env, bin, args, ...(args === WORKERS ? { ready: /./ } : {}) })
  await command(oldBin, ['migrate'])
  const product = (sku: string) => ({ sku, name: 'A lamp', category: 'lamps', price: { amount: 1_250, currency: 'EUR' }, stock: null })
  await command(oldBin, ['catalogue', 'import', '-'], ['L-1', 'L-2'].map((sku) => `${JSON.stringify(product(sku))}\n`).join(''))
  const [oldApi, oldWorkers] = [await start(oldBin, ['--role', 'api']), await start(oldBin, WORKERS)]
  const urls = [oldApi.url]
  const shoppers = new Map([[oldApi.url, await register(oldApi.url)]])
  const ordering = startOrdering(urls, shoppers, await listProducts(oldApi.url))
  await ordering.more(5)

  // Expand: the earlier version continues and stays ready.
  await command(newBin, ['migrate'])
  await ordering.more(5)
  assert.equal((await fetch(`${oldApi.url}/readyz`)).status, 200)

  const newApi: StoreProcess = await start(newBin, ['--role', 'api'])
  shoppers.set(newApi.url, await register(newApi.url))
  urls.push(newApi.url)
  await ordering.more(10)
  const newWorkers = await start(newBin, WORKERS)
  assert.equal(await oldWorkers.end('SIGTERM'), 0)
  await ordering.more(10)
  // Away from the earlier process first, as a proxy does when it is not ready.
  urls.splice(0, 1)
  await ordering.more(2)
  assert.equal(await oldApi.end('SIGTERM'), 0)
  await ordering.more(5)

  // Back: the earlier version starts on the new schema, and takes nothing from processes of the later one.
  const client = await connectTo(t, server.settings.DATABASE_URL)
  await command(oldBin, ['migrate'])
  await client.query('insert into next_things values (1)')
  const { rows: functions } = await client.query(
    `select prosrc like '%of the next release%' as is_next from pg_proc where proname = 'place_orders'`,
  )
  assert.deepEqual(functions, [{ is_next: true }])
  const again = await start(oldBin, ['--role', 'api'])
  shoppers.set(again.url, await register(again.url))
  urls.push(again.url)
  await ordering.more(6)
  const { refused } = await ordering.stop()
  assert.equal(refused, 0)

  const { rows } = await client.query<{ id: string }>('select id from orders')
  assert.deepEqual(rows.map(({ id }) => id).toSorted(), ordering.orders.toSorted())
  const events = await untilDelivered(path, ordering.orders)
  assert.equal(new Set(events).size, events.length)
  await eventually(async () => (await runStorefront(t, ['verify'], { env, bin: newBin })).status === 0, {
    what: 'verify without findings',
  })
  for (const process of [again, newApi, newWorkers]) assert.equal(await process.end('SIGTERM'), 0)
})

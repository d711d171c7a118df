import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { onCleanup } from './cleanup.ts'
import { makeDataFolder } from './data-folders.ts'
import { connectTo } from './database.ts'
import { debianPostgresMissing } from './debian-postgres.ts'
import { eventually } from './eventually.ts'
import { startOwnServer } from './own-server.ts'
import { listProducts, register, startShopping } from './shopping.ts'
import { BIN, launch, runStorefront, serve } from './store-process.ts'
import { makeNextVersion } from './versions.ts'

const MAX_MS = 3_000
const PACE_MS = 100
const TRIES = 3

test('a migration beside a dump: nobody waits for long, and it ends after the dump', { skip: debianPostgresMissing }, async (t) => {
  const server = await startOwnServer(t)
  const [oldBin, newBin] = [BIN, makeNextVersion(t)]
  const env = { ...server.settings, DATA_DIR: makeDataFolder(t).path, MAX_PENDING_ORDERS_PER_USER: 'off' }
  assert.equal((await runStorefront(t, ['migrate'], { env, bin: oldBin })).status, 0)
  const product = { sku: 'L-1', name: 'A lamp', category: 'lamps', price: { amount: 1_250, currency: 'EUR' }, stock: null }
  assert.equal((await runStorefront(t, ['catalogue', 'import', '-'], { env, bin: oldBin, input: JSON.stringify(product) })).status, 0)
  const api = await serve(t, { env, bin: oldBin, args: ['--role', 'api'] })
  const [shopper, [lamp = '']] = [await register(api.url), await listProducts(api.url)]
  let orders = 0
  const order = async () => {
    const isPlaced = (await shopper.order(lamp)) !== null
    if (isPlaced) orders++
    return isPlaced
  }
  const shopping = startShopping({ order, read: async () => (await fetch(`${api.url}/products?limit=20`)).ok }, PACE_MS)
  // What pg_dump does at its beginning, until its end.
  const reader = await connectTo(t, server.settings.DATABASE_OWNER_URL, { application_name: 'pg_dump' })
  await reader.query('begin')
  const { rows: tables } = await reader.query<{ name: string }>(`select format('%I.%I', schemaname, tablename) as name from pg_tables
    where schemaname = 'public'`)
  await reader.query(`lock table ${tables.map((table) => table.name).join(', ')} in access share mode`)
  const migration = launch(['migrate'], { env, bin: newBin })
  onCleanup(t, () => void migration.kill('SIGKILL'))
  const ended = once(migration, 'close')
  const lines: string[] = []
  migration.stderr?.setEncoding('utf8').on('data', (text: string) => lines.push(...text.split('\n').filter(Boolean)))
  await eventually(async () => lines.length >= TRIES || migration.exitCode !== null, { what: 'lines about the read' })
  assert.equal(migration.exitCode, null, lines.join('\n'))
  const before = orders
  await eventually(async () => orders >= before + 10, { what: 'more orders' })
  await reader.query('commit')
  assert.deepEqual(await ended, [0, null], lines.join('\n'))
  const answers = await shopping.stop()

  const pid = (reader as unknown as { processID: number }).processID
  const isLine = new RegExp(
    `^storefront: waiting for a lock: pid ${pid} \\(pg_dump, shop_owner, idle in transaction, query began [^ ]+Z\\) holds [a-z_]+; retried in 3 s, for at most \\d+ min$`,
  )
  assert.deepEqual(
    lines.filter((line) => !isLine.test(line)),
    [],
  )
  const slow = answers.filter(({ isGood, ms }) => !isGood || ms > MAX_MS)
  assert.deepEqual(slow, [])
  t.diagnostic(`${orders} orders, the slowest answer after ${Math.round(Math.max(...answers.map(({ ms }) => ms)))} ms`)
  const { rows } = await reader.query<{ orders: string }>('select count(*) as orders from orders')
  assert.equal(Number(rows[0]?.orders), orders)
  assert.equal((await runStorefront(t, ['migrate'], { env, bin: newBin })).stderr, '')
})

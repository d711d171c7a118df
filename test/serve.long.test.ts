import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, renameSync, statSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { after, describe, type TestContext, test } from 'node:test'
import pino from 'pino'
import { prepareDatabase } from '../src/app/prepare-database.ts'
import type { DataFolder } from '../src/db/embedded/data-folder.ts'
import { findEmbeddedPostgres, startEmbeddedPostgres } from '../src/db/embedded/embedded-postgres.ts'
import { createPool } from '../src/db/pool.ts'
import { onCleanup } from './cleanup.ts'
import { makeDataFolder, serverProcesses, untilNoServer } from './data-folders.ts'
import { createTestDatabase, type TestDatabase } from './database.ts'
import { eventually, Stopwatch } from './eventually.ts'
import { listProducts, register, untilDelivered } from './shopping.ts'
import { addProduct, TEST_SECRET } from './store.ts'
import { runStorefront, serve } from './store-process.ts'

// A new cluster takes a second: the tests share this one, one after the other.
const folder = makeDataFolder({ after })
const env = { DATA_DIR: folder.path, LAKE_FLUSH_SECONDS: '1' }

test('answers on an empty folder with the sample catalogue, and ends on SIGTERM with status 0 and no server left', async (t) => {
  assert.equal(existsSync(folder.path), false)
  const store = await serve(t, { env })
  const page = (await (await fetch(`${store.url}/products?limit=100`)).json()) as { data: unknown[]; has_more: boolean }
  assert.deepEqual([page.data.length, page.has_more], [100, true])
  for (const name of ['secret', 'postgres-password']) assert.equal(statSync(join(folder.path, name)).mode & 0o777, 0o600, name)
  const stopping = new Stopwatch(t)
  assert.equal(await store.end('SIGTERM'), 0)
  assert.ok(stopping.ms < 10_000)
  assert.deepEqual(serverProcesses(folder.path), [])
})

test('a folder that a command has prepared never gets the sample catalogue', async (t) => {
  const prepared = { DATA_DIR: makeDataFolder(t).path }
  assert.equal((await runStorefront(t, ['migrate'], { env: prepared })).status, 0)
  for (const round of ['first', 'second']) {
    const store = await serve(t, { env: prepared })
    const { data } = (await (await fetch(`${store.url}/products`)).json()) as { data: unknown[] }
    assert.deepEqual(data, [], `${round} start`)
    assert.equal(await store.end('SIGTERM'), 0)
  }
})

test('no connection of an embedded store is a superuser, and only the change stream may replicate', async (t) => {
  const store = await serve(t, { env })
  await store.untilLogged(/^change stream is active/)
  const addresses = (await findEmbeddedPostgres(folder)) ?? assert.fail('no server')
  const pool = createPool({ url: addresses.owner, size: 1, applicationName: 'test', onError: () => {} })
  onCleanup(t, () => pool.end())
  const { rows } = await pool.query(
    `select distinct rolname as role, rolsuper, rolreplication
    from pg_stat_activity
    join pg_roles on rolname = usename
    where application_name like 'storefront%'
    order by role`,
  )
  assert.deepEqual(rows, [
    { role: 'storefront_api', rolsuper: false, rolreplication: false },
    { role: 'storefront_stream', rolsuper: false, rolreplication: true },
  ])
})

test('a second store says in one line that the folder is in use and leaves the first one alone', async (t) => {
  const store = await serve(t, { env })
  const second = await runStorefront(t, ['serve'], { env })
  assert.deepEqual(second, {
    status: 1,
    stdout: '',
    stderr: `storefront: ${folder.path} is in use by another Storefront (process ${store.pid}); stop that one, or set DATA_DIR to another folder\n`,
  })
  assert.equal((await fetch(`${store.url}/readyz`)).status, 200)
})

test('says in one line that a secret of the store is missing, and makes no other', async (t) => {
  for (const name of ['secret', 'postgres-password']) {
    const file = join(folder.path, name)
    renameSync(file, `${folder.path}.${name}`)
    onCleanup(t, () => void (existsSync(`${folder.path}.${name}`) && renameSync(`${folder.path}.${name}`, file)))
    const { status, stderr } = await runStorefront(t, ['serve'], { env })
    const line = `storefront: ${file} is missing beside the store in ${folder.cluster}: restore it from a backup; nothing was changed\n`
    assert.deepEqual([status, stderr], [1, line])
    assert.ok(!existsSync(file) && !existsSync(`${file}.new`))
    renameSync(`${folder.path}.${name}`, file)
  }
})

test('answers 503 while its PostgreSQL is down, reports why, and continues when it is back', async (t) => {
  const store = await serve(t, { env: { ...env, OPS_PORT: '0' } })
  const away = `${folder.cluster}.away`
  renameSync(folder.cluster, away)
  onCleanup(t, () => void (existsSync(away) && renameSync(away, folder.cluster)))
  const [postgres] = serverProcesses(folder.path).filter(({ program }) => program === 'postgres')
  process.kill(postgres?.pid ?? 0, 'SIGKILL')
  await store.untilLogged(/^the embedded PostgreSQL ended .*; it is started again with pauses$/)
  await store.untilLogged(/^the store in .* is gone; it is started again with pauses$/)
  for (const path of ['/products?limit=7', '/readyz']) {
    const answer = await fetch(`${store.url}${path}`)
    assert.deepEqual([answer.status, answer.headers.get('retry-after')], [503, '1'], path)
  }
  assert.equal((await fetch(`${store.url}/livez`)).status, 200)

  renameSync(away, folder.cluster)
  await store.untilLogged(/^the embedded PostgreSQL runs again$/)
  await eventually(async () => (await fetch(`${store.url}/readyz`)).status === 200, { what: 'a store that is ready again' })
  const shopper = await register(store.url)
  const [product = ''] = await listProducts(store.url)
  const id = (await shopper.order(product)) ?? assert.fail('no order')
  await untilDelivered(folder.path, [id])
  assert.equal(await store.end('SIGTERM'), 0)
})

test('killed in the middle of orders and started again, each order that was answered has its mail and one row in the lake', async (t) => {
  const killed = await serve(t, { env })
  const products = await listProducts(killed.url)
  let turn = 0
  const nextProduct = () => products[turn++ % products.length] ?? ''
  const answered: string[] = []
  const shoppers = await Promise.all(Array.from({ length: 4 }, () => register(killed.url)))
  const shopping = shoppers.map(async (shopper) => {
    for (let id = await shopper.order(nextProduct()); id !== null; id = await shopper.order(nextProduct())) answered.push(id)
  })
  await eventually(async () => answered.length >= 40)
  await killed.end('SIGKILL')
  await Promise.all(shopping)
  await passTime(folder)

  const store = await serve(t, { env })
  const shopper = await register(store.url)
  for (let more = 0; more < 10; more++) answered.push((await shopper.order(nextProduct())) ?? assert.fail('an order was refused'))
  const events = await untilDelivered(folder.path, answered)
  assert.deepEqual(events.toSorted(), [...new Set(events)].toSorted())
  assert.equal(await store.end('SIGTERM'), 0)
  await untilNoServer(folder.path)
})

/** What a quarter of a minute would do: the leases of mails that were in flight end. */
async function passTime(folder: DataFolder): Promise<void> {
  const { url, stop } = await startEmbeddedPostgres(folder)
  const pool = createPool({ url, size: 1, applicationName: 'test', onError: () => {} })
  try {
    await pool.query('update email_deliveries set leased_until = now() where leased_until is not null')
  } finally {
    await pool.end()
    await stop()
  }
}

/** Settings of processes that share a database of their own. */
async function splitOptions(t: TestContext): Promise<{ db: TestDatabase; env: Record<string, string> & { DATA_DIR: string } }> {
  const db = await createTestDatabase(t)
  await prepareDatabase(db.addresses, pino({ level: 'silent' }))
  const { path } = makeDataFolder(t)
  const { api, stream } = db.addresses
  const addresses = { DATABASE_URL: api, DATABASE_STREAM_URL: stream }
  return { db, env: { ...addresses, STOREFRONT_SECRET: TEST_SECRET, DATA_DIR: path, LAKE_FLUSH_SECONDS: '1' } }
}

describe('on a database that runs elsewhere', { concurrency: true }, () => {
  test('ends within 10 s though a client holds a request open', async (t) => {
    const store = await serve(t, { ...(await splitOptions(t)), args: ['--role', 'api'] })
    const client = connect(Number(new URL(store.url).port), '127.0.0.1')
    client.on('error', () => {})
    await once(client, 'connect')
    client.write('POST /auth/login HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{')
    // Another request is answered only after the server has taken this one.
    assert.equal((await fetch(`${store.url}/livez`)).status, 200)
    const stopping = new Stopwatch(t)
    assert.equal(await store.end('SIGTERM'), 0)
    assert.ok(stopping.ms < 10_000)
    client.destroy()
  })

  test('roles that are split over processes carry an order to its mail and the lake', async (t) => {
    const { db, ...options } = await splitOptions(t)
    const [api, pipeline] = await Promise.all([
      serve(t, { ...options, args: ['--role', 'api'] }),
      serve(t, { ...options, args: ['--role', 'stream', '--role', 'email', '--role', 'lake'], ready: /^change stream is active/ }),
    ])
    const { id } = await addProduct(db.pool)
    const shopper = await register(api.url)
    const orders = [await shopper.order(id), await shopper.order(id)].map((order) => order ?? assert.fail('an order was refused'))
    const events = await untilDelivered(options.env.DATA_DIR, orders)
    assert.deepEqual(
      events.toSorted(),
      orders.map((order) => `${order}.1`),
    )
    assert.ok(!pipeline.logs.some(({ addresses }) => addresses !== undefined))
    const clash = await runStorefront(t, ['serve', '--role', 'api'], {
      env: { ...options.env, PORT: new URL(api.url).port, LOG_LEVEL: 'silent' },
    })
    assert.equal(clash.status, 1)
    assert.match(
      clash.stderr,
      /^storefront: cannot listen on 127\.0\.0\.1, port \d+: another process has that port; set PORT to another one\n$/,
    )
    assert.deepEqual(await Promise.all([api.end('SIGTERM'), pipeline.end('SIGTERM')]), [0, 0])
  })
})

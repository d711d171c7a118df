import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { makeDataFolder } from './data-folders.ts'
import { eventually } from './eventually.ts'
import { readRoleStatements } from './operations-commands.ts'
import { type PatroniCluster, patroniMissing, startPatroni } from './patroni.ts'
import { listProducts, register, untilDelivered } from './shopping.ts'
import { TEST_SECRET } from './store.ts'
import { runStorefront, serve } from './store-process.ts'

const PACE_MS = 100
const WORKERS = ['stream', 'email', 'lake'].flatMap((role) => ['--role', role])
const SLOT = { type: 'logical', database: 'shop', plugin: 'pgoutput' }
const SLOTS = { shop_orders: SLOT, shop_catalogue: SLOT }

async function query<Row extends pg.QueryResultRow>(url: string, ...statements: string[]): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    let rows: Row[] = []
    for (const statement of statements) rows = (await client.query<Row>(statement)).rows
    return rows
  } finally {
    await client.end()
  }
}

/** Waits until every node has a copy of both slots. */
async function untilCopied({ nodes, addressOf }: PatroniCluster): Promise<void> {
  const hasBoth = async (url: string) =>
    (await query(`${url}/shop`, `select from pg_replication_slots where slot_type = 'logical' and confirmed_flush_lsn is not null`))
      .length === 2
  for (const node of nodes)
    await eventually(() => hasBoth(addressOf(node)).catch(() => false), { what: `the slots of ${node.name}`, timeoutMs: 180_000 })
}

test('under Patroni no acknowledged order and no event is lost or doubled by a killed primary and a switchover', {
  skip: patroniMissing,
  timeout: 900_000,
}, async (t) => {
  const cluster = await startPatroni(t)
  await cluster.untilSynchronous()
  const statements = readRoleStatements()
  await eventually(() => query(`${cluster.address}/postgres`, 'select 1').catch(() => false), { what: 'the proxy leads to the primary' })
  await query(`${cluster.address}/postgres`, ...statements)
  const addressOf = (role: string) => Object.assign(new URL(cluster.address), { username: role, pathname: '/shop' }).href
  const { path } = makeDataFolder(t)
  const env = {
    DATABASE_OWNER_URL: addressOf('shop_owner'),
    DATABASE_URL: addressOf('shop_api'),
    DATABASE_STREAM_URL: addressOf('shop_stream'),
    STOREFRONT_SECRET: TEST_SECRET,
    DATA_DIR: path,
    LAKE_FLUSH_SECONDS: '1',
    MAIL_MAX_PER_HOUR: '0',
    BASE_URL: 'http://localhost:3000',
    MAX_PENDING_ORDERS_PER_USER: 'off',
  }
  const command = (args: string[], input = '') => runStorefront(t, args, { env, input })
  assert.equal((await command(['migrate'])).status, 0)
  const product = { sku: 'L-1', name: 'A lamp', category: 'lamps', price: { amount: 1_250, currency: 'EUR' }, stock: null }
  assert.equal((await command(['catalogue', 'import', '-'], `${JSON.stringify(product)}\n`)).status, 0)
  const api = await serve(t, { env, args: ['--role', 'api'] })
  const workers = await serve(t, { env, args: WORKERS, ready: /./ })
  await cluster.patch({ slots: SLOTS })
  await untilCopied(cluster)
  const leader = await cluster.untilSynchronous()
  const follower = cluster.nodes.find((node) => node !== leader) ?? assert.fail()

  const shopper = await eventually(() => register(api.url).catch(() => undefined), { what: 'a customer' })
  const [lamp = ''] = await listProducts(api.url)
  const acknowledged: string[] = []
  let isStopped = false
  const ordering = (async () => {
    while (!isStopped) {
      const id = await shopper.order(lamp)
      if (id !== null) acknowledged.push(id)
      await delay(PACE_MS)
    }
  })()
  const more = (count: number) => {
    const wanted = acknowledged.length + count
    return eventually(async () => acknowledged.length >= wanted, { what: 'more orders', timeoutMs: 180_000 })
  }
  try {
    await more(30)
    leader.kill()
    assert.equal(await cluster.untilLeader([follower]), follower)
    await more(30)
    leader.start()
    await untilCopied(cluster)
    await cluster.untilSynchronous([follower])
    await more(10)
    await cluster.switchover(follower, leader)
    await more(30)
  } finally {
    isStopped = true
    await ordering
  }
  const rows = await query<{ id: string }>(`${cluster.address}/shop`, 'select id from orders')
  // One whose answer was lost with its connection may be stored, too.
  const stored = rows.map(({ id }) => id)
  assert.deepEqual(new Set(acknowledged).difference(new Set(stored)), new Set())
  const events = await untilDelivered(path, stored)
  assert.equal(new Set(events).size, events.length)
  const [topic] = await query<{ missing: number; doubled: number }>(
    `${cluster.address}/shop`,
    `select
      (select count(*) from orders where not exists (select from topic_messages where id = orders.id || '.1'))::int as missing,
      (select count(*) - count(distinct id) from topic_messages)::int as doubled`,
  )
  assert.deepEqual(topic, { missing: 0, doubled: 0 })
  await eventually(async () => (await command(['verify'])).status === 0, { what: 'verify without findings' })
  assert.deepEqual(
    [await api.end('SIGTERM'), await workers.end('SIGTERM')],
    [0, 0],
    'both processes are alive, and stop when they are told',
  )
  t.diagnostic(`${acknowledged.length} orders acknowledged, ${stored.length} stored, ${events.length} events`)
})

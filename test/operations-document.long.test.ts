import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onCleanup } from './cleanup.ts'
import { makeDataFolder } from './data-folders.ts'
import { connectTo, databaseUrl } from './database.ts'
import { eventually } from './eventually.ts'
import { OPERATIONS, readRoleStatements } from './operations-commands.ts'
import { listProducts, register, untilDelivered } from './shopping.ts'
import { TEST_SECRET } from './store.ts'
import { runStorefront, serve } from './store-process.ts'
import { startWebhookReceiver } from './webhook-receiver.ts'

const PRODUCTS = ['LAMP-1', 'LAMP-2'].map(
  (sku) => `${JSON.stringify({ sku, name: 'A lamp', category: 'lamps', price: { amount: 1_250, currency: 'EUR' }, stock: 50 })}\n`,
)

test("the statements of the document make the roles by which a store's whole flow works", async (t) => {
  const admin = await connectTo(t, databaseUrl('postgres'))
  onCleanup(t, async () => {
    const dropSlots = `select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = 'shop' and not active`
    await eventually(async () => {
      await admin.query(dropSlots)
      return (await admin.query(`select from pg_replication_slots where database = 'shop'`)).rowCount === 0
    })
    await admin.query('drop database if exists shop with (force)')
    await admin.query('drop role if exists shop_owner, shop_api, shop_stream')
  })
  for (const statement of readRoleStatements()) await admin.query(statement)

  const address = (setting: string) => {
    const [, documented = ''] = new RegExp(`^${setting}=(.*)$`, 'm').exec(OPERATIONS) ?? []
    const url = new URL(documented)
    assert.equal(url.pathname, '/shop')
    return Object.assign(url, { host: new URL(databaseUrl('shop')).host }).href
  }
  const { path } = makeDataFolder(t)
  const env = {
    DATABASE_URL: address('DATABASE_URL'),
    DATABASE_STREAM_URL: address('DATABASE_STREAM_URL'),
    STOREFRONT_SECRET: TEST_SECRET,
    DATA_DIR: path,
    LAKE_FLUSH_SECONDS: '1',
    WEBHOOK_ALLOW_PRIVATE: 'on',
  }
  const command = async (args: string[], options: { input?: string; env?: Record<string, string> } = {}) => {
    const { status, stdout, stderr } = await runStorefront(t, args, { ...options, env: { ...env, ...options.env } })
    assert.deepEqual([status, stderr], [0, ''], args.join(' '))
    return stdout
  }

  const early = await runStorefront(t, ['mail', 'list'], { env })
  assert.match(early.stderr, /^storefront: the database lacks (\d+) of \1 migrations; run storefront migrate\n$/)
  const owner = { DATABASE_OWNER_URL: address('DATABASE_OWNER_URL') }
  await command(['migrate'], { env: owner })
  await command(['migrate'], { env: owner })
  assert.match(await command(['catalogue', 'import', '-'], { input: PRODUCTS.join('') }), /^2 created/)
  await command(['admin', 'create', 'boss@example.com'], { input: 'the passphrase of the boss\n' })
  const receiver = await startWebhookReceiver(t)
  await command(['webhook', 'add', receiver.url])

  const store = await serve(t, { env })
  assert.ok(!store.logs.some(({ msg }) => /superuser/.test(msg)))
  const products = await listProducts(store.url)
  const shopper = await register(store.url)
  const orders: string[] = []
  for (const product of products) orders.push((await shopper.order(product)) ?? assert.fail('an order was refused'))
  await untilDelivered(path, orders)
  await eventually(async () => receiver.requests.length >= orders.length, { what: 'the webhooks' })
  assert.match(await command(['verify']), /nothing is missing, doubled or corrupt/)
  assert.match(await command(['replay']), /published 0 that/)
  assert.match(await command(['replay', '--subscriber', 'email']), /^email reads again/)
  assert.match(await command(['signing-keys', 'rotate']), /^published the key /)
  assert.equal(await store.end('SIGTERM'), 0)
  // Verify looks into the slot itself when nothing reads it, which needs the stream's role.
  const api = await serve(t, { env, args: ['--role', 'api'] })
  const [product = ''] = products
  assert.ok((await (await register(api.url)).order(product)) !== null)
  assert.equal(await api.end('SIGTERM'), 0)
  const { topic, findings } = JSON.parse(await command(['verify', '--json']))
  assert.deepEqual([topic, findings], [{ events: 2, lag: { ...topic.lag, events: 1 }, isSettled: true }, []])
  await admin.query(`select pg_drop_replication_slot('shop_orders')`)
  assert.match(await command(['replay']), /published 1 that it lacked[\s\S]*does not exist: a process with the role stream recreates it/)

  const roles = await admin.query(`select rolname from pg_roles where rolname like 'shop_%' and rolsuper`)
  assert.equal(roles.rowCount, 0)
})

test('a store whose role is a superuser warns at its start', async (t) => {
  const name = 'a_superusers_shop'
  const admin = await connectTo(t, databaseUrl('postgres'))
  await admin.query(`create database ${name} template storefront_template`)
  onCleanup(t, async () => void (await admin.query(`drop database ${name} with (force)`)))
  const { path } = makeDataFolder(t)
  const env = { DATABASE_URL: databaseUrl(name), STOREFRONT_SECRET: TEST_SECRET, DATA_DIR: path, ROLES: 'api' }
  const store = await serve(t, { env })
  const warnings = store.logs.filter(({ level, msg }) => level === 40 && /superuser/.test(msg))
  assert.equal(warnings.length, 1)
})

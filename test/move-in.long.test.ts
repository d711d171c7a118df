import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { ROLES } from '../src/config.ts'
import { eventually } from './eventually.ts'
import { type PeerExport, writeShopifyExport, writeWooCommerceExport } from './peer-exports.ts'
import { startStore, TEST_SECRET } from './store.ts'
import { launch, runStorefront } from './store-process.ts'
import { makeTestFolder } from './test-folder.ts'

const ORDERS = 700
const BCRYPT = '$2y$10$abcdefghijklmnopqrstuuMjqeRRMw4ZKN8D5l6vArgO1H7dflcbO'
const PHPASS = '$P$9IQRaTwmfeRo7ud9Fh4E2PdI0S3r.L0'

const convert = (shop: string, to: string, ...args: string[]) => {
  const path = fileURLToPath(new URL('../bin/storefront.mjs', import.meta.url))
  writeFileSync(to, execFileSync(process.execPath, [path, 'convert', shop, ...args], { maxBuffer: 1e9, encoding: 'utf8' }))
  return to
}

test('a year of two peers moves in from their exports: killed once, run twice, sums equal, nothing sent, nothing missing', async (t) => {
  const store = await startStore(t, { roles: ROLES, lakeFlushSeconds: 1 })
  const folder = makeTestFolder(t, 'storefront-move-in-')
  const { api, stream } = store.addresses
  const env = { DATABASE_URL: api, DATABASE_STREAM_URL: stream, STOREFRONT_SECRET: TEST_SECRET, DATA_DIR: store.config.dataDir }
  const run = async (...args: string[]) => {
    const { status, stdout, stderr } = await runStorefront(t, ['import', ...args, '--json'], { env })
    return { status, stderr, json: JSON.parse(stdout) }
  }
  const shopify = writeShopifyExport(folder, ORDERS)
  const woo = writeWooCommerceExport(folder, ORDERS, (id) => (id === 1 ? BCRYPT : PHPASS))
  const files = (name: string, script: string, { files: exported }: PeerExport) => ({
    customers: convert(
      script,
      join(folder, `${name}-c.ndjson`),
      'customers',
      exported.customers ?? '',
      ...(exported.hashes ? ['--passwords', exported.hashes] : []),
    ),
    guests: convert(script, join(folder, `${name}-g.ndjson`), 'guests', exported.orders ?? ''),
    orders: convert(script, join(folder, `${name}-o.ndjson`), 'orders', exported.orders ?? ''),
  })
  const peers = [
    { name: 'shopify', peer: shopify, files: files('shopify', 'shopify', shopify) },
    { name: 'woo', peer: woo, files: files('woo', 'woocommerce', woo) },
  ]
  for (const { name, peer, files } of peers) {
    let created = 0
    for (const file of [files.customers, files.guests]) {
      const moved = await run('customers', file, '--source', name)
      assert.deepEqual([moved.status, moved.stderr, moved.json.refused], [0, '', 0])
      created += moved.json.created
    }
    assert.equal(created, peer.customers)
  }
  const count = async () => (await store.pool.query<{ orders: number }>('select count(*) as orders from orders')).rows[0]?.orders ?? 0

  const killed = launch(['import', 'orders', peers[0]?.files.orders ?? '', '--source', 'shopify'], { env })
  await eventually(async () => (await count()) > 0, { pauseMs: 1 })
  killed.kill('SIGKILL')
  await once(killed, 'close')
  const stored = await count()
  assert.ok(stored > 0 && stored < ORDERS, `${stored} orders were stored before the kill`)

  for (const { name, peer, files } of peers) {
    for (const round of [1, 2]) {
      const moved = await run('orders', files.orders, '--source', name)
      assert.deepEqual([moved.status, moved.stderr, moved.json.equal], [0, '', true], `${name}, run ${round}`)
      const sums = Object.fromEntries(moved.json.groups.map(({ group, store: here }: { group: string; store: object }) => [group, here]))
      assert.deepEqual(sums, peer.expected, `${name}, run ${round}`)
      const before = name === 'shopify' ? stored : 0
      assert.deepEqual([moved.json.created, moved.json.unchanged], round === 1 ? [ORDERS - before, before] : [0, ORDERS])
    }
  }
  const { rows: totals } = await store.pool.query(
    `select count(*) as orders, sum(version) as versions, min(number) as first, max(number) as last from orders`,
  )
  const { versions, ...others } = totals[0]
  assert.deepEqual(others, { orders: 2 * ORDERS, first: 1001, last: 200_000 + ORDERS - 1 })
  const published = async () => (await store.pool.query<{ n: number }>('select count(*) as n from topic_messages')).rows[0]?.n
  await eventually(async () => (await published()) === versions)

  // A changed line is reported, and its sums differ from the store's.
  const [first = '', ...rest] = execFileSync('cat', [peers[1]?.files.orders ?? ''], { encoding: 'utf8', maxBuffer: 1e9 }).split('\n')
  const { source_total: _, ...order } = JSON.parse(first)
  const changedFile = join(folder, 'changed.ndjson')
  const fee = { kind: 'fee', label: 'late', amount: 100 }
  writeFileSync(
    changedFile,
    [JSON.stringify({ ...order, adjustments: [...order.adjustments, fee], total: order.total + 100 }), ...rest].join('\n'),
  )
  const changed = await run('orders', changedFile, '--source', 'woo')
  assert.deepEqual([changed.status, changed.json.changed, changed.json.equal], [1, 1, false])
  assert.match(changed.stderr, /^line 1: it differs from what was imported before/)

  const login = (email: string, password: string) => store.call('POST', '/auth/login', { body: { email, password } })
  assert.equal((await login('woo-1@example.com', 'an old passphrase')).status, 200)
  assert.equal((await login('woo-2@example.com', 'test12345')).status, 200)
  assert.equal((await login('shopify-1@example.com', 'an old passphrase')).status, 401)
  const verified = await eventually(async () => {
    const result = await runStorefront(t, ['verify'], { env })
    return result.status === 3 ? undefined : result
  })
  assert.deepEqual([verified.status, verified.stderr], [0, ''], verified.stdout)
  assert.match(verified.stdout, /mails +0 sent, 0 queued, 0 failed/)
  const replayed = await runStorefront(t, ['replay'], { env })
  assert.match(replayed.stdout, /published 0 that it lacked/)
  const lake = await runStorefront(t, ['lake', 'query', 'select count(*) as orders, sum(total_amount) as total from orders', '--json'], {
    env,
  })
  const total = peers.flatMap(({ peer }) => Object.values(peer.expected)).reduce((sum, { amount }) => sum + amount, 0)
  assert.deepEqual(
    JSON.parse(lake.stdout).map((row: { orders: unknown; total: unknown }) => [Number(row.orders), Number(row.total)]),
    [[2 * ORDERS, total]],
  )
})

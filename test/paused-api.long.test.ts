import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addBuyers } from './buyers.ts'
import { onCleanup } from './cleanup.ts'
import { openCommitWire } from './commit-wire.ts'
import { eventually } from './eventually.ts'
import { startStore, TEST_SECRET } from './store.ts'
import { serve } from './store-process.ts'

test('continues selling while another process of the API is paused in a transaction, whose locks the database releases', async (t) => {
  const store = await startStore(t, { baseUrl: 'http://localhost:3000' })
  const [[ada, bob], lamp, vase] = [
    await addBuyers(store, 2),
    await store.addProduct({ stock: 100 }),
    await store.addProduct({ stock: 100 }),
  ]
  const order = (by: typeof ada, product: { id: string }) =>
    store.call('POST', '/orders', { token: by?.token ?? '', body: { items: [{ product_id: product.id, quantity: 1 }] } })
  const [blocked, other] = [(await order(ada, lamp)).json.id, (await order(bob, vase)).json.id]

  const wire = await openCommitWire(t, store.addresses.api, 'commit')
  const env = { DATABASE_URL: wire.url, STOREFRONT_SECRET: TEST_SECRET, BASE_URL: 'http://localhost:3000' }
  const paused = await serve(t, { env: { ...env, ROLES: 'api', OPS_PORT: 'off', DATA_DIR: store.config.dataDir } })
  wire.holdBackCommits()
  const request = { method: 'POST', headers: { authorization: `Bearer ${ada?.token}` } }
  const unanswered = fetch(`${paused.url}/orders/${blocked}/cancel`, request).then((answer) => answer.status)
  const countHolders = async () => {
    const { rows } = await store.pool.query<{ count: number }>(
      `select count(*)::integer as count from pg_stat_activity
      where datname = current_database() and application_name in ('storefront', 'storefront-orders') and state = 'idle in transaction'`,
    )
    return rows[0]?.count
  }
  await eventually(async () => ((await countHolders()) ?? 0) > 0, { what: 'the transaction that cannot commit', pauseMs: 20 })
  process.kill(paused.pid, 'SIGSTOP')
  onCleanup(t, () => void process.kill(paused.pid, 'SIGCONT'))

  const late = [order(ada, lamp), order(bob, lamp), store.call('POST', `/orders/${blocked}/cancel`, { token: ada?.token ?? '' })]
  for (let round = 0; round < 5; round++) assert.equal((await order(bob, vase)).status, 201)
  assert.equal((await store.call('POST', `/orders/${other}/cancel`, { token: bob?.token ?? '' })).status, 200)
  assert.equal((await store.call('GET', '/readyz')).status, 200)
  for (const { status, headers, text } of await Promise.all(late)) {
    // On a machine that stood still the database may have ended the transaction.
    assert.ok(status === 503 ? headers['retry-after'] !== undefined : status < 300, text)
  }
  const sold = await eventually(
    async () => {
      const answer = await order(bob, lamp)
      return answer.status === 201 && answer
    },
    { what: 'the product is sold again while the process is paused' },
  )
  assert.ok(sold)
  process.kill(paused.pid, 'SIGCONT')
  assert.equal(await unanswered, 503)
  const { rows } = await store.pool.query('select status, version from orders where id = $1', [blocked])
  assert.ok(['pending 1', 'cancelled 2'].includes(`${rows[0]?.status} ${rows[0]?.version}`), 'once at most')
})

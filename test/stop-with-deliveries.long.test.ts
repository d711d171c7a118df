import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createEncryption } from '../src/auth/store-secret.ts'
import { addEndpoint } from '../src/webhooks/webhook-endpoints.ts'
import { eventually, Stopwatch } from './eventually.ts'
import { startHangingServer } from './hanging-server.ts'
import { startStore, TEST_SECRET } from './store.ts'

test('a store whose mail server, endpoint and cache all hang waits for them together when it stops', async (t) => {
  const port = await startHangingServer(t)
  const store = await startStore(t, {
    roles: ['api', 'stream', 'email', 'webhook'],
    smtpUrl: `smtp://127.0.0.1:${port}`,
    cdnPurgeUrls: [`varnish://127.0.0.1:${port}`],
    isPrivateWebhookAllowed: true,
    leavesWork: true,
  })
  const encryption = createEncryption(TEST_SECRET, 'webhook secret')
  await addEndpoint(store.pool, encryption, { url: `http://127.0.0.1:${port}`, eventTypes: null, isPrivateAllowed: true })
  const { id: product_id } = await store.addProduct({ stock: null })
  const { token } = await store.register()
  await store.call('POST', '/orders', { token, body: { items: [{ product_id, quantity: 1 }] } })
  for (const table of ['email_deliveries', 'webhook_deliveries', 'cache_purges'])
    await eventually(async () => (await store.pool.query(`select from ${table} where lease is not null`)).rowCount !== 0, { what: table })
  const stopwatch = new Stopwatch(t)
  await store.app.stop()
  t.diagnostic(`stopped in ${Math.round(stopwatch.ms)} ms`)
  assert.ok(stopwatch.ms < 8_000, `${Math.round(stopwatch.ms)} ms`)
})

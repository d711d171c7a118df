import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { type TestContext, test } from 'node:test'
import pino from 'pino'
import { orderSlotOf } from '../src/app/prepare-database.ts'
import { createApp } from '../src/app.ts'
import { createEncryption } from '../src/auth/store-secret.ts'
import { ROLES } from '../src/config.ts'
import { readDatabaseId } from '../src/db/database-id.ts'
import { SUBSCRIBERS } from '../src/subscribers.ts'
import { addEndpoint } from '../src/webhooks/webhook-endpoints.ts'
import { onCleanup } from './cleanup.ts'
import { eventually } from './eventually.ts'
import { startSmtpServer } from './smtp-server.ts'
import { startStore, TEST_SECRET, type TestStore } from './store.ts'
import { beforeSlotsAreCreated } from './stream-harness.ts'
import { startWebhookReceiver } from './webhook-receiver.ts'

const operations = { host: '127.0.0.1', port: 0, isRequired: true }

/** The values of every series, by its name and labels. */
async function scrape({ operationsPort }: { operationsPort: number | null }): Promise<Map<string, number>> {
  const response = await fetch(`http://127.0.0.1:${operationsPort}/metrics`)
  assert.equal(response.status, 200)
  assert.match(response.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/)
  const lines = (await response.text()).split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]))
}

/** Scrapes until every series has the expected value, or one that the predicate accepts. */
async function untilScraped(app: TestStore['app'], wanted: Record<string, number | ((value: number) => boolean)>): Promise<void> {
  let missing: unknown[] = []
  await eventually(
    async () => {
      const values = await scrape(app)
      missing = Object.entries(wanted)
        .map(([name, value]) => [name, value, values.get(name)] as const)
        .filter(([, value, is]) => !(typeof value === 'function' ? is !== undefined && value(is) : is === value))
      return missing.length === 0
    },
    { what: 'the metrics' },
  ).catch((error) => assert.fail(`${error.message}: ${JSON.stringify(missing)}`))
}

async function get(app: TestStore['app'], path: string, method = 'GET') {
  const response = await fetch(`http://127.0.0.1:${app.operationsPort}${path}`, { method })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

test('each metric counts the work that was done', async (t) => {
  const smtp = await startSmtpServer(t)
  const receiver = await startWebhookReceiver(t)
  receiver.answer(410)
  const store = await startStore(t, {
    operations,
    roles: ROLES,
    smtpUrl: smtp.url,
    isPrivateWebhookAllowed: true,
    lakeFlushSeconds: 1,
  })
  await addEndpoint(store.pool, createEncryption(TEST_SECRET, 'webhook secret'), {
    ...{ url: receiver.url, eventTypes: null, isPrivateAllowed: true },
  })
  const [ada, lamp] = [await store.register(), await store.addProduct({ stock: 2 })]
  smtp.refuse(ada.email, { code: 450, text: '4.2.0 later', times: 1 })
  const body = { items: [{ product_id: lamp.id, quantity: 1 }] }
  const headers = { 'idempotency-key': '"once"' }
  for (const status of [201, 201]) {
    assert.equal((await store.call('POST', '/orders', { token: ada.token, body, headers })).status, status)
  }
  const tooMany = { items: [{ product_id: lamp.id, quantity: 5 }] }
  assert.equal((await store.call('POST', '/orders', { token: ada.token, body: tooMany })).status, 409)
  // This comes before they have been idle for so long that they are closed.
  await untilScraped(store.app, { 'storefront_database_pool_idle_connections{pool="placing"}': (connections) => connections > 0 })
  const { port } = store
  // The second and third are answered before Fastify sees them.
  for (let n = 0; n < 3; n++) assert.equal((await fetch(`http://127.0.0.1:${port}/products?limit=1`)).status, 200)
  for (const path of ['/nowhere', '/at/all']) assert.equal((await fetch(`http://127.0.0.1:${port}${path}`)).status, 404)

  const request = (name: string, labels: string) => `storefront_http_request_duration_seconds_${name}{${labels}}`
  await untilScraped(store.app, {
    [request('count', 'method="GET",route="/products",status="2xx"')]: 3,
    [request('count', 'method="POST",route="/orders",status="2xx"')]: 2,
    [request('count', 'method="POST",route="/orders",status="4xx"')]: 1,
    [request('count', 'method="GET",route="none",status="4xx"')]: 2,
    [request('sum', 'method="POST",route="/orders",status="2xx"')]: (seconds) => seconds > 0.001 && seconds < 60,
    storefront_orders_placed_total: 1,
    storefront_order_batches_undone_total: 1,
    storefront_orders_replayed_total: 1,
    'storefront_orders_refused_total{code="insufficient_stock"}': 1,
    storefront_order_batch_size_count: 3,
    'storefront_order_batch_size_bucket{le="1"}': 3,
    storefront_events_published_total: 1,
    storefront_change_stream_slot_lost: 0,
    storefront_change_stream_lag_bytes: (bytes) => bytes >= 0,
    storefront_change_stream_retained_bytes: (bytes) => bytes > 0,
    'storefront_change_stream_state{state="active"}': 1,
    'storefront_change_stream_state{state="failing"}': 0,
    'storefront_mails_total{kind="order",outcome="retried"}': 1,
    'storefront_mails_total{kind="order",outcome="sent"}': 1,
    'storefront_queued{queue="email"}': 0,
    'storefront_webhooks_total{outcome="failed"}': 1,
    'storefront_queued{queue="webhook"}': 0,
    // The event of an order, and that of its product.
    storefront_lake_files_total: 2,
    storefront_lake_rows_total: 2,
    storefront_lake_last_flush_timestamp_seconds: (time) => Math.abs(time - Date.now() / 1_000) < 600,
    'storefront_database_pool_connections{pool="general"}': (connections) => connections > 0,
    'storefront_database_pool_waiting_requests{pool="placing"}': 0,
    'storefront_source_up{source="database"}': 1,
    nodejs_eventloop_lag_p99_seconds: (seconds) => seconds >= 0,
    process_resident_memory_bytes: (bytes) => bytes > 10_000_000,
    ...Object.fromEntries(
      SUBSCRIBERS.flatMap(({ name: subscriber }) => [
        [`storefront_subscriber_state{subscriber="${subscriber}",state="active"}`, 1],
        [`storefront_subscriber_position{subscriber="${subscriber}"}`, 1],
        [`storefront_subscriber_lag_events{subscriber="${subscriber}"}`, 0],
      ]),
    ),
  })
  assert.equal((await get(store.app, '/readyz')).status, 200)
})

test('says that a slot is lost, in the metric and on /readyz, until the stream has recreated it', async (t) => {
  const store = await startStore(t, { operations, roles: ['api', 'stream'] })
  await untilScraped(store.app, { storefront_change_stream_slot_lost: 0 })
  await beforeSlotsAreCreated(store.pool, async () => {
    await eventually(async () => {
      await store.pool.query('select pg_terminate_backend(active_pid, 2000) from pg_replication_slots where slot_name = $1', [
        orderSlotOf(store.url),
      ])
      return store.pool.query('select pg_drop_replication_slot($1)', [orderSlotOf(store.url)]).then(
        () => true,
        () => false,
      )
    })
    await untilScraped(store.app, { storefront_change_stream_slot_lost: 1 })
    assert.ok(!(await scrape(store.app)).has('storefront_change_stream_lag_bytes'))
    const { status, text } = await get(store.app, '/readyz')
    assert.equal(status, 503)
    assert.match(JSON.parse(text).failing[0].reason, /^the replication slot \w+ does not exist/)
  })
  await untilScraped(store.app, { storefront_change_stream_slot_lost: 0 })
})

test('a process without the API is probed and measured the same way, also while it stands by', async (t) => {
  const store = await startStore(t, { operations, roles: ['api', 'email'] })
  await untilScraped(store.app, { 'storefront_subscriber_state{subscriber="email",state="active"}': 1 })
  const second = await start(t, store, { roles: ['email'] })
  await untilScraped(second, {
    'storefront_subscriber_state{subscriber="email",state="standby"}': 1,
    'storefront_subscriber_lag_events{subscriber="email"}': 0,
  })
  assert.deepEqual(JSON.parse((await get(second, '/livez')).text), { status: 'ok' })
  const ready = await get(second, '/readyz')
  assert.deepEqual([ready.status, JSON.parse(ready.text)], [200, { status: 'ok', database: await readDatabaseId(store.pool) }])
  assert.equal((await get(second, '/nowhere')).status, 404)
  const posted = await get(second, '/metrics', 'POST')
  assert.deepEqual([posted.status, posted.headers.get('allow')], [405, 'GET, HEAD'])
  await second.stop()
  await assert.rejects(get(second, '/livez'))
})

test('a subscriber that cannot do its work makes the process not ready', async (t) => {
  const store = await startStore(t, { operations, roles: ['api', 'stream', 'email'] })
  await store.pool.query('alter table email_deliveries rename to away')
  const [ada, lamp] = [await store.register(), await store.addProduct()]
  await store.call('POST', '/orders', { token: ada.token, body: { items: [{ product_id: lamp.id, quantity: 1 }] } })
  await untilScraped(store.app, {
    'storefront_subscriber_state{subscriber="email",state="failing"}': 1,
    'storefront_subscriber_lag_events{subscriber="email"}': 1,
    'storefront_source_up{source="queue_email"}': 0,
  })
  const { status, text } = await get(store.app, '/readyz')
  assert.deepEqual([status, JSON.parse(text).failing[0].name], [503, 'subscriber_email'])
  await store.pool.query('alter table away rename to email_deliveries')
  await untilScraped(store.app, {
    'storefront_subscriber_state{subscriber="email",state="active"}': 1,
    'storefront_mails_total{kind="order",outcome="sent"}': 1,
  })
})

test('a mail server that has been unavailable for a minute makes the process not ready until it answers again', async (t) => {
  const smtp = await startSmtpServer(t)
  let passedMs = 0
  const now = () => new Date(Date.now() + passedMs)
  const store = await startStore(t, { operations, now, roles: ['api', 'stream', 'email'], smtpUrl: smtp.url })
  await untilScraped(store.app, { storefront_smtp_up: 1 })
  await smtp.stop()
  const [ada, lamp] = [await store.register(), await store.addProduct()]
  const body = { items: [{ product_id: lamp.id, quantity: 1 }] }
  assert.equal((await store.call('POST', '/orders', { token: ada.token, body })).status, 201)
  await untilScraped(store.app, { storefront_smtp_up: 0 })
  assert.equal((await get(store.app, '/readyz')).status, 200)
  passedMs = 61_000
  const { status, text } = await get(store.app, '/readyz')
  assert.equal(status, 503)
  assert.match(text, /"name":"mail_server","reason":"the mail server has been unavailable for a minute: .*ECONNREFUSED/)
  assert.equal((await store.call('GET', '/readyz')).status, 200, 'the API takes orders')
  await startSmtpServer(t, smtp.port)
  await untilScraped(store.app, { storefront_smtp_up: 1, 'storefront_queued{queue="email"}': 0 })
  assert.equal((await get(store.app, '/readyz')).status, 200)
})

test('the default port may be taken, one that was asked for may not', async (t) => {
  const taken = createServer()
  await new Promise<void>((resolve) => void taken.listen(0, '127.0.0.1', resolve))
  onCleanup(t, () => void taken.close())
  const { port } = taken.address() as { port: number }
  const store = await startStore(t, { operations: { host: '127.0.0.1', port, isRequired: false } })
  assert.equal(store.app.operationsPort, null)
  assert.equal((await store.call('GET', '/readyz')).status, 200)
  await assert.rejects(start(t, store, { operations: { host: '127.0.0.1', port, isRequired: true } }), {
    name: 'OperatorError',
    message: `cannot listen on 127.0.0.1, port ${port}: another process has that port; set OPS_PORT to another one`,
  })
})

async function start(t: TestContext, store: TestStore, overrides: Partial<TestStore['config']>): Promise<TestStore['app']> {
  const app = await createApp({ config: { ...store.config, ...overrides }, logger: pino({ level: 'silent' }) })
  onCleanup(t, () => app.stop())
  await app.start()
  return app
}

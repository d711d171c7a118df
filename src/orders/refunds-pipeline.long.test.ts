import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Value } from 'typebox/value'
import { eventually } from '../../test/eventually.ts'
import { queryFolder } from '../../test/lake-harness.ts'
import { startAuditedStore } from '../../test/pipeline-audit.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { TEST_SECRET } from '../../test/store.ts'
import { serve } from '../../test/store-process.ts'
import { type OrderEvent, toEarlierEvents } from './events.ts'

const EUR = (amount: number) => ({ amount, currency: 'EUR' })
const STRIPE = { provider: 'stripe', reference: 'pi_1' }

test('events, mails and the lake have refunds with their amounts, and replay makes them again', async (t) => {
  const store = await startAuditedStore(t)
  const stop = await store.startPipeline()
  const [ada, { token }, lamp] = [
    await store.register(),
    await registerOperator(store),
    await store.addProduct({ stock: 9, amount: 1_000 }),
  ]
  const body = { items: [{ product_id: lamp.id, quantity: 2 }] }
  const id = (await store.call('POST', '/orders', { token: ada.token, body })).json.id as string
  const call = async (method: string, path: string, sent: object) => {
    const { status, text, json } = await store.call(method, `/admin/orders/${id}/${path}`, { token, body: sent })
    assert.equal(status, 200, text)
    return json
  }
  const lines = [{ product_id: lamp.id, quantity: 1, amount: EUR(200) }]
  await call('PUT', 'payment', { ...STRIPE, state: 'paid' })
  await call('POST', 'refunds', { amount: EUR(300), reference: 're_1', lines })
  await call('POST', 'refunds', { amount: EUR(100), reference: 're_2' })
  await call('POST', 'transitions', { to: 'confirmed' })
  await call('PUT', 'payment', { ...STRIPE, state: 'refunded' })
  await store.untilDelivered(4)

  const listEvents = async () => {
    const { rows } = await store.pool.query<{ event: OrderEvent }>(`select event from topic_messages order by event ->> 'sequence'`)
    return rows.map(({ event: { traceparent: _, ...event } }) => event)
  }
  const events = await listEvents()
  assert.deepEqual(
    events.map(({ type, data: { order } }) => [type.split('.').at(-1), order.total.amount, order.payment?.state, order.refunded]),
    [
      ['created', 2_000, undefined, undefined],
      ['updated', 2_000, 'paid', undefined],
      ['updated', 2_000, 'partially_refunded', EUR(300)],
      ['updated', 2_000, 'partially_refunded', EUR(400)],
      ['confirmed', 2_000, 'partially_refunded', EUR(400)],
      ['updated', 2_000, 'refunded', EUR(2_000)],
    ],
  )
  for (const event of events) {
    const name = event.type.replace('storefront.', '').replace('.', '-')
    const schema = JSON.parse(readFileSync(fileURLToPath(new URL(`../../docs/schemas/${name}.schema.json`, import.meta.url)), 'utf8'))
    assert.deepEqual([...Value.Errors(schema, event)], [])
  }
  assert.deepEqual(toEarlierEvents(events.at(-1) as OrderEvent), events.slice(0, -1), 'each event of the order follows from the newest')

  const mail = readFileSync(`${store.config.dataDir}/mail/${id}.5.eml`, 'utf8').replaceAll('=\r\n', '')
  assert.match(mail, /Total: .*20\.00\r\n(?:\r\n)?Refunded: .*4\.00/)
  const refunds = await queryFolder(
    store.lake,
    'select version, payment_state, payment_reference, amount, currency, reference, lines from refunds order by version',
  )
  assert.deepEqual(refunds.rows.map(String), [
    `3,partially_refunded,pi_1,300,EUR,re_1,[{"product_id":"${lamp.id}","quantity":1,"amount":200}]`,
    '4,partially_refunded,pi_1,100,EUR,re_2,',
    '6,refunded,pi_1,1600,EUR,,',
  ])

  assert.deepEqual((await store.verify()).findings, [])
  await stop()
  assert.equal((await store.replay()).published, 0, 'nothing is missing')
  await store.pool.query('delete from topic_messages where id = any($1)', [[2, 3, 4, 6].map((version) => `${id}.${version}`)])
  assert.equal((await store.replay()).published, 4)
  assert.deepEqual(await listEvents(), events)
  await store.pool.query(`update orders set status_history = jsonb_set(status_history, '{2,change,refund,amount}', '299') where id = $1`, [
    id,
  ])
  const findings = (await store.verify()).findings.map(({ place, kind, examples }) => [place, kind, examples])
  assert.deepEqual(findings[0], ['topic', 'altered', [3, 4, 5, 6].map((version) => `${id}.${version}`)], JSON.stringify(findings))
})

test('a refund whose process is killed while it waits is made once when the client retries with another process', async (t) => {
  const store = await startAuditedStore(t)
  const env = {
    ...{ DATABASE_URL: store.addresses.api, STOREFRONT_SECRET: TEST_SECRET, DATA_DIR: store.config.dataDir },
    ...{ BASE_URL: 'http://localhost:3000', ROLES: 'api', OPS_PORT: 'off' },
  }
  const [first, second] = await Promise.all([serve(t, { env }), serve(t, { env })])
  const [ada, { token }, lamp] = [await store.register(), await registerOperator(store), await store.addProduct({ amount: 1_000 })]
  const items = [{ product_id: lamp.id, quantity: 1 }]
  const { id } = (await store.call('POST', '/orders', { token: ada.token, body: { items } })).json
  await store.call('PUT', `/admin/orders/${id}/payment`, { token, body: { ...STRIPE, state: 'paid' } })
  const refund = (url: string) =>
    fetch(`${url}/admin/orders/${id}/refunds`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
      body: JSON.stringify({ amount: EUR(600), reference: 're_1' }),
    })
  const holder = await store.pool.connect()
  await holder.query('begin')
  await holder.query('select from orders where id = $1 for update', [id])
  const lost = assert.rejects(refund(first.url))
  await eventually(
    async () => {
      const { rowCount } = await store.pool.query(
        `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%orders%' and pid <> pg_backend_pid()`,
      )
      return rowCount === 1
    },
    { timeoutMs: 20_000, what: 'a refund that waits' },
  )
  await first.end('SIGKILL')
  await holder.query('commit')
  holder.release()
  await lost
  const answers = await Promise.all([refund(second.url), refund(second.url)])
  for (const answer of answers) {
    assert.equal(answer.status, 200)
    assert.deepEqual(((await answer.json()) as { refunded: object }).refunded, EUR(600))
  }
  const { rows } = await store.pool.query('select version from orders where id = $1', [id])
  assert.deepEqual(rows, [{ version: 3 }])
})

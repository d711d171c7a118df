import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readConfig } from '../src/config.ts'
import { eventually } from './eventually.ts'
import { NO_NATS, startNatsServer } from './nats-server.ts'
import { registerOperator } from './register-operator.ts'
import { startSecondProcess, startStore } from './store.ts'

interface Step {
  at: string
  published_at: string | null
  mail: { status: string } | null
  lake_at: string | null
}

test('the timeline reports each step of an order also when the topic is in NATS', { skip: NO_NATS }, async (t) => {
  const nats = await startNatsServer(t)
  const settings = readConfig({ NATS_URL: nats.url }).nats
  const store = await startStore(t, { roles: ['api', 'stream', 'email', 'lake'], lakeFlushSeconds: 1, nats: settings })
  const { token } = await store.register()
  const { id } = await store.addProduct({ stock: 5 })
  const placed = await store.call('POST', '/orders', { token, body: { items: [{ product_id: id, quantity: 2 }] } })
  const isComplete = ({ published_at, mail, lake_at }: Step) => published_at !== null && mail?.status === 'sent' && lake_at !== null
  const [step] = await eventually(
    async () => {
      const read = (await store.call('GET', `/orders/${placed.json.id}`, { token })).json.timeline as Step[]
      return read.every(isComplete) && read
    },
    { what: 'a timeline without gaps' },
  )
  assert.ok(step !== undefined && step.at <= `${step.published_at}` && `${step.published_at}` <= `${step.lake_at}`)
})

test('a process of the API alone measures what is left to read of a topic in NATS', { skip: NO_NATS }, async (t) => {
  const nats = await startNatsServer(t)
  const settings = readConfig({ NATS_URL: nats.url }).nats
  const store = await startStore(t, { roles: ['api', 'stream', 'email', 'lake'], lakeFlushSeconds: 1, nats: settings })
  const operator = await registerOperator(store)
  const { token } = await store.register()
  const { id } = await store.addProduct()
  assert.equal((await store.call('POST', '/orders', { token, body: { items: [{ product_id: id, quantity: 1 }] } })).status, 201)
  await eventually(async () => (await store.pool.query('select from lake_arrivals')).rows.length > 0, { what: 'an order in the lake' })
  await store.app.stop()
  // As if a mail had not been sent.
  await store.pool.query(`delete from pipeline_figures; update topic_subscribers set sequence = sequence - 1 where name = 'email'`)
  const api = await startSecondProcess(t, store)
  const read = async () => (await api.call('GET', '/admin/figures', { token: operator.token })).json.pipeline
  const measured = (values: (number | null)[]) => values.filter((value) => value !== null)
  await eventually(async () => measured((await read()).lake_lag_events).length > 0, { what: 'a minute of figures' })
  const pipeline = await read()
  assert.deepEqual([...new Set(measured(pipeline.email_lag_events))], [1])
  assert.deepEqual([...new Set(measured(pipeline.lake_lag_events))], [0])
})

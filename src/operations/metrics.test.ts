import assert from 'node:assert/strict'
import { test } from 'node:test'
import pino from 'pino'
import { Histogram, Registry } from 'prom-client'
import { Metrics } from './metrics.ts'

const linesOf = (text: string, name: string) => text.split('\n').filter((line) => line.startsWith(name))

test('has the same request histogram as prom-client for the same times', async () => {
  const name = 'storefront_http_request_duration_seconds'
  const registry = new Registry()
  const buckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
  const expected = new Histogram({ name, help: 'x', labelNames: ['method', 'route', 'status'], buckets, registers: [registry] })
  const metrics = new Metrics(pino({ level: 'silent' }))
  for (const [method, route, status, ms] of [
    ['GET', '/products', 200, 0.04],
    ['GET', '/products', 304, 1],
    ['GET', '/products', 200, 2.6],
    ['POST', '/orders', 201, 12_000],
    ['POST', '/orders', 503, 250],
    ['DELETE', '/a"b\\', 404, 4],
  ] as const) {
    metrics.requestAnswered(method, route, status, ms)
    expected.observe({ method, route, status: `${Math.trunc(status / 100)}xx` }, ms / 1_000)
  }
  const made = linesOf(await metrics.text(), name)
  assert.equal(made.length, 5 * 16)
  assert.deepEqual(made.toSorted(), linesOf(await registry.metrics(), name).toSorted())
})

test('counters of outcomes begin at 0, because an alert sees no increase in a series that begins with 1', async () => {
  const metrics = new Metrics(pino({ level: 'silent' }))
  const countersOf = async () => {
    const text = await metrics.text()
    return [...linesOf(text, 'storefront_mails_total'), ...linesOf(text, 'storefront_webhooks_total')]
  }
  const atStart = await countersOf()
  assert.equal(atStart.length, 12)
  for (const outcome of ['sent', 'retried', 'failed'] as const)
    for (const kind of ['order', 'account', 'staff'] as const) metrics.mailTried(kind, outcome)
  for (const outcome of ['delivered', 'retried', 'failed'] as const) metrics.webhookTried(outcome)
  assert.deepEqual((await countersOf()).toSorted(), atStart.map((line) => line.replace(/ 0$/, ' 1')).toSorted())
})

test('clients cannot add series, because unknown methods and addresses share one', async () => {
  const metrics = new Metrics(pino({ level: 'silent' }))
  for (let n = 0; n < 50; n++) metrics.requestAnswered(`METHOD${n}`, undefined, 404, 1)
  assert.deepEqual(linesOf(await metrics.text(), 'storefront_http_request_duration_seconds_count'), [
    'storefront_http_request_duration_seconds_count{method="other",route="none",status="4xx"} 50',
  ])
})

test('a failed or hanging source loses only its own values, until it answers again', async () => {
  const metrics = new Metrics(pino({ level: 'silent' }))
  const hang = Promise.withResolvers<number>()
  const queues: Record<string, () => Promise<number>> = { email: async () => 3, webhook: async () => 4 }
  const read = async (name: string) => ({ queued: await (queues[name]?.() ?? assert.fail(name)), oldestUntriedSeconds: 0 })
  for (const name of ['email', 'webhook']) metrics.watchQueue(name, () => read(name))
  metrics.watchChangeStream({ state: 'active' })
  metrics.watchSlot(async () => ({ lagBytes: 1, retainedBytes: 2, lostReason: null }))
  assert.deepEqual(linesOf(await metrics.text(), 'storefront_queued'), [
    'storefront_queued{queue="email"} 3',
    'storefront_queued{queue="webhook"} 4',
  ])
  queues.email = () => hang.promise
  queues.webhook = () => Promise.reject(new Error('away'))
  const [once, again] = await Promise.all([metrics.text(), metrics.text()])
  for (const text of [once, again]) {
    assert.deepEqual(linesOf(text, 'storefront_queued'), [])
    assert.deepEqual(linesOf(text, 'storefront_source_up').toSorted(), [
      'storefront_source_up{source="change_stream"} 1',
      'storefront_source_up{source="queue_email"} 0',
      'storefront_source_up{source="queue_webhook"} 0',
      'storefront_source_up{source="replication_slot"} 1',
    ])
    assert.deepEqual(linesOf(text, 'storefront_change_stream_slot_lost'), ['storefront_change_stream_slot_lost 0'])
  }
  hang.resolve(5)
  queues.webhook = async () => 6
  assert.deepEqual(linesOf(await metrics.text(), 'storefront_queued').toSorted(), [
    'storefront_queued{queue="email"} 5',
    'storefront_queued{queue="webhook"} 6',
  ])
})

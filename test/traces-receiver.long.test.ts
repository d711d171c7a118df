import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { after, test } from 'node:test'
import { readConfig } from '../src/config.ts'
import { makeDataFolder } from './data-folders.ts'
import { eventually, Stopwatch } from './eventually.ts'
import { freePort } from './free-port.ts'
import { collectLog } from './logs.ts'
import { readSpans, startOtlpReceiver } from './otlp-receiver.ts'
import { listProducts, register } from './shopping.ts'
import { startStore } from './store.ts'
import { serve } from './store-process.ts'

const folder = makeDataFolder({ after })
const FAST = { OTEL_BSP_SCHEDULE_DELAY: '20', OTEL_EXPORTER_OTLP_TIMEOUT: '500' }

/** What a store logs about traces. */
function logOfTraces() {
  const { logger, entries: lines } = collectLog<{ msg: string; lost?: number; reason?: string }>()
  return { logger, lines, about: () => lines.filter(({ msg }) => /spans|traces/.test(msg)) }
}

/** Answers that a receiver must not give. */
const BAD_ANSWERS: Record<string, (response: ServerResponse) => void> = {
  503: (response) => response.writeHead(503, { 'retry-after': '3600' }).end(),
  400: (response) => response.writeHead(400).end('no'),
  redirect: (response) => response.writeHead(307, { location: 'http://127.0.0.1:1/' }).end(),
  nothing: () => {},
  'a cut connection': (response) => response.destroy(),
  'an endless body': (response) => {
    response.writeHead(400)
    const timer = setInterval(() => response.write('x'.repeat(100_000)), 1)
    response.on('close', () => clearInterval(timer))
  },
  // Bytes follow each other faster than the idle timeout.
  'byte by byte': (response) => {
    response.writeHead(400)
    const timer = setInterval(() => response.write('x'), 100)
    response.on('close', () => clearInterval(timer))
  },
}

for (const [name, answer] of Object.entries(BAD_ANSWERS)) {
  test(`a receiver that answers ${name} delays no request, and is one line in the log until it takes spans again`, async (t) => {
    const collector = await startOtlpReceiver(t)
    collector.answer(answer)
    const { logger, about } = logOfTraces()
    const { traces } = readConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...FAST })
    const { call } = await startStore(t, { traces, logger })
    const send = async () => assert.equal((await call('GET', '/orders')).status, 401)
    await eventually(async () => {
      await send()
      return about().length > 0 && collector.requests.length > 3
    })
    for (let i = 0; i < 200; i++) await send()
    assert.deepEqual(
      about().map(({ msg }) => msg),
      ['spans cannot be exported: they are lost until the receiver takes them'],
    )
    collector.answer(200)
    await eventually(async () => {
      await send()
      return about().length === 2
    })
    assert.equal(about()[1]?.msg, 'spans are exported again')
    assert.ok((about()[1]?.lost ?? 0) > 0)
  })
}

test('spans that do not fit into the queue are dropped, and that is a line a minute', async (t) => {
  const collector = await startOtlpReceiver(t)
  collector.answer(() => {})
  const { logger, about } = logOfTraces()
  const size = { OTEL_BSP_MAX_QUEUE_SIZE: '10', OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '10', OTEL_EXPORTER_OTLP_TIMEOUT: '300' }
  const { traces } = readConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...FAST, ...size })
  const { call } = await startStore(t, { traces, logger })
  for (let i = 0; i < 500; i++) await call('GET', '/orders')
  await eventually(async () => (await call('GET', '/orders')) && about().length === 2)
  assert.deepEqual(
    new Set(about().map(({ msg }) => msg.split(':')[0])),
    new Set(['spans cannot be exported', 'traces are incomplete; further reasons are left out for a minute']),
  )
})

test('an error of the SDK is its message in the log', async (t) => {
  const collector = await startOtlpReceiver(t)
  collector.answer(() => {})
  const { logger, about } = logOfTraces()
  const { traces } = readConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...FAST, OTEL_BSP_EXPORT_TIMEOUT: '100' })
  const { call } = await startStore(t, { traces, logger })
  const line = await eventually(async () => (await call('GET', '/orders')) && about().find(({ msg }) => /^traces/.test(msg)))
  assert.equal(line.reason, 'Timeout')
})

test('answers that are no OTLP are reported once, and the spans are there', async (t) => {
  const collector = await startOtlpReceiver(t)
  collector.answer((response) => void response.writeHead(200, { 'content-type': 'text/html' }).end('<html>sign in</html>'))
  const { logger, about } = logOfTraces()
  const { traces } = readConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json', ...FAST })
  const { call } = await startStore(t, { traces, logger })
  await eventually(async () => (await call('GET', '/orders')) && collector.requests.length > 5)
  assert.ok(about().length <= 1, JSON.stringify(about()))
})

test('a process ends within its time while the receiver hangs, and sends what it has when it does not', async (t) => {
  const collector = await startOtlpReceiver(t)
  const env = { DATA_DIR: folder.path, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_BSP_SCHEDULE_DELAY: '600000' }
  for (const isHanging of [false, true]) {
    collector.answer(isHanging ? () => {} : 200)
    const store = await serve(t, { env })
    await (await fetch(`${store.url}/products`)).text()
    await (await fetch(`${store.url}/orders`)).text()
    const stopping = new Stopwatch(t)
    assert.equal(await store.end('SIGTERM'), 0)
    assert.ok(stopping.ms < 10_000, `${stopping.ms} ms`)
    if (isHanging) continue
    assert.deepEqual(
      readSpans(collector.file).map(({ name }) => name),
      ['GET /products', 'GET /orders'],
    )
  }
})

test('what follows from an order after a kill is in the trace of its request', async (t) => {
  const collector = await startOtlpReceiver(t, await freePort())
  const common = { DATA_DIR: folder.path, EMBEDDED: 'on', OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_BSP_SCHEDULE_DELAY: '50' }
  const api = await serve(t, { env: { ...common, ROLES: 'api' } })
  const [product = assert.fail('nothing to order')] = await listProducts(api.url)
  const shopper = await register(api.url)
  assert.ok(await shopper.order(product))
  const placed = await eventually(async () => readSpans(collector.file).find(({ name }) => name === 'place order'))
  assert.equal(await api.end('SIGKILL'), null)
  await serve(t, { env: { ...common, LAKE_FLUSH_SECONDS: '1' } })
  const later = await eventually(async () => {
    const names = readSpans(collector.file)
      .filter(({ traceId, parentSpanId }) => traceId === placed.traceId && parentSpanId === placed.spanId)
      .map(({ name }) => name)
    return ['send orders', 'process email', 'process orders'].every((name) => names.includes(name)) && names
  })
  assert.ok(later.includes('SELECT place_orders'))
})

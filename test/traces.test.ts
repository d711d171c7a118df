import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { pino } from 'pino'
import { createEncryption } from '../src/auth/store-secret.ts'
import { ROLES, readConfig } from '../src/config.ts'
import { createTracing } from '../src/operations/open-telemetry.ts'
import { SPANS, type SpanDefinition } from '../src/operations/tracing.ts'
import { QUEUE_SUBSCRIBERS } from '../src/subscribers.ts'
import { addEndpoint } from '../src/webhooks/webhook-endpoints.ts'
import type { Cleanup } from './cleanup.ts'
import { eventually } from './eventually.ts'
import { collectLog } from './logs.ts'
import { type OtlpReceiver, type ReceivedSpan, readSpans, startOtlpReceiver } from './otlp-receiver.ts'
import { formatTrace } from './print-trace.ts'
import { startSmtpServer } from './smtp-server.ts'
import { type StoreOverrides, startStore, TEST_SECRET } from './store.ts'
import { startWebhookReceiver } from './webhook-receiver.ts'

const SENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const OPERATIONS = readFileSync(new URL('../docs/operate/traces.md', import.meta.url), 'utf8')
const ATTEMPTS = QUEUE_SUBSCRIBERS.map(({ name }) => `process ${name}`)
const NOTE = 'ring twice at Mrs Secret'

/** A store with every role that sends its traces to a receiver, a mail server and an endpoint. */
async function startTraced(t: Cleanup, env: Record<string, string> = {}, overrides: StoreOverrides = {}) {
  const [collector, smtp, receiver] = [await startOtlpReceiver(t), await startSmtpServer(t), await startWebhookReceiver(t)]
  const { traces } = readConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_BSP_SCHEDULE_DELAY: '100', ...env })
  const delivered = { smtpUrl: smtp.url, isPrivateWebhookAllowed: true, mailMaxPerHour: null, lakeFlushSeconds: 1 }
  const store = await startStore(t, { roles: ROLES, traces, ...delivered, ...overrides })
  const encryption = createEncryption(TEST_SECRET, 'webhook secret')
  await addEndpoint(store.pool, encryption, { url: `${receiver.url}?token=hunter2`, eventTypes: null, isPrivateAllowed: true })
  const { token, email } = await store.register({ email: `mrs.secret.${Math.random()}@example.com` })
  const product = await store.addProduct({ stock: null })
  const place = async (traceparent?: string) => {
    const body = { items: [{ product_id: product.id, quantity: 1 }], note: NOTE }
    const answer = await store.call('POST', '/orders', { token, body, ...(traceparent === undefined ? {} : { headers: { traceparent } }) })
    assert.equal(answer.status, 201, answer.text)
    return answer.json.id as string
  }
  return { store, collector, smtp, receiver, email, token, product, place }
}

/** Waits for the last spans of an order: those of its mail, its webhook and its file of the lake. */
async function untilTraced({ file }: OtlpReceiver, traceId: string, mails = 1): Promise<ReceivedSpan[]> {
  const isThere = (spans: ReceivedSpan[]) =>
    [...ATTEMPTS, 'process orders', 'send orders'].every((name) => {
      return spans.filter((span) => span.name === name).length >= mails
    })
  return eventually(
    async () => {
      const spans = readSpans(file).filter((span) => span.traceId === traceId)
      return isThere(spans) && spans
    },
    { what: 'a whole trace' },
  )
}

const definitionOf = ({ name, kind }: ReceivedSpan): SpanDefinition =>
  Object.values(SPANS).find(
    (span) => (span.name === name || (span === SPANS.request && /^[A-Z]+( \/|$)/.test(name))) && span.kind === kind,
  ) ?? assert.fail(`the span ${name} (${kind}) is not in the table`)

for (const protocol of ['http/protobuf', 'http/json']) {
  test(`an order is one trace through every part, sent as ${protocol}`, async (t) => {
    const store = await startTraced(t, {
      OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
      OTEL_EXPORTER_OTLP_HEADERS: 'api-key=hunter%32',
      ...(protocol === 'http/json' ? {} : { OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip' }),
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
      OTEL_SERVICE_NAME: 'shop',
    })
    await store.place(SENT)
    const spans = await untilTraced(store.collector, TRACE)
    const [, documented = ''] = /^```text\n(POST \/orders +server[^`]*)```$/m.exec(OPERATIONS) ?? []
    assert.deepEqual(namesIn(formatTrace(spans, TRACE)), namesIn(documented.trim().split('\n')), 'the trace in docs/operate/traces.md')
    const parentOf = (name: string) => {
      const span = spans.find((each) => each.name === name) ?? assert.fail(`there is no span ${name}`)
      return spans.find(({ spanId }) => spanId === span.parentSpanId)?.name ?? span.parentSpanId
    }
    assert.deepEqual(spans.map(({ name, kind }) => `${kind} ${name} below ${parentOf(name)}`).toSorted(), [
      'client POST below process webhook',
      'client SELECT place_orders below place order',
      'client send mail below process email',
      ...[...ATTEMPTS, 'process orders'].toSorted().map((name) => `consumer ${name} below place order`),
      'internal place order below POST /orders',
      'producer send orders below place order',
      'server POST /orders below 00f067aa0ba902b7',
    ])
    for (const span of spans) {
      const { fixed, others } = definitionOf(span)
      for (const [name, value] of Object.entries(fixed)) assert.equal(span.attributes[name], value, `${span.name} ${name}`)
      const unknown = Object.keys(span.attributes).filter((name) => !(name in fixed) && !others.includes(name))
      assert.deepEqual([span.service, span.isError, unknown], ['shop', false, []], span.name)
      assert.ok(span.end >= span.start && Math.abs(span.start - Date.now()) < 600_000)
    }
    assert.deepEqual(
      store.collector.requests
        .map(({ path, headers }) => [path, headers['api-key']])
        .filter(([path, key]) => path !== '/v1/traces' || key !== 'hunter2'),
      [],
    )
    const sent = readFileSync(store.collector.file, 'utf8')
    assert.match(sent, /"deployment\.environment\.name"/)
    assert.doesNotMatch(sent, /hunter2|Secret|secret|@example|Bearer/, 'no personal data, no token')
    const { headers } = store.receiver.requests[0] ?? assert.fail('no webhook')
    const post = spans.find(({ name }) => name === 'POST')
    assert.equal(headers.traceparent, `00-${TRACE}-${post?.spanId}-01`)
  })
}

test('orders of one batch have their own traces, with links between their parts of it', async (t) => {
  const store = await startTraced(t)
  const traces = Array.from({ length: 12 }, (_, index) => TRACE.slice(0, -2) + String(index + 10))
  await Promise.all(traces.map((trace) => store.place(SENT.replace(TRACE, trace))))
  for (const trace of traces) await untilTraced(store.collector, trace)
  const spans = readSpans(store.collector.file)
  const lake = spans.filter(({ name }) => name === 'process orders')
  assert.deepEqual(lake.map(({ traceId }) => traceId).toSorted(), traces)
  for (const name of ['SELECT place_orders', 'send orders', 'process orders']) {
    const parts = spans.filter((span) => span.name === name)
    const batches = Map.groupBy(parts, ({ start, end }) => `${start} ${end}`)
    for (const batch of batches.values()) {
      const [first = assert.fail('no span'), ...others] = batch.toSorted((a, b) => b.links.length - a.links.length)
      assert.deepEqual(first.links.map(({ traceId }) => traceId).toSorted(), others.map(({ traceId }) => traceId).toSorted())
      for (const { links } of others) assert.deepEqual(links, [{ traceId: first.traceId, spanId: first.spanId }])
    }
    assert.ok(batches.size < traces.length, `some of ${name} were one batch`)
  }
})

test('a parent that is no trace context gives a new one, and one that is not recorded is passed on as version 00', async () => {
  const { traces } = readConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9' })
  const tracing = createTracing(traces ?? assert.fail('traces are off'), pino({ level: 'silent' }))
  for (const parent of [undefined, null, '', 'x', `ff${SENT.slice(2)}`])
    assert.match(tracing.start('webhook', parent).traceparent, /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/)
  assert.equal(tracing.start('webhook', `cc${SENT.slice(2, -2)}02`).traceparent, SENT.replace(/01$/, '00'))
  await tracing.stop()
})

test("the caller's flag decides, unless the sampler ignores it; what is not recorded has a trace id nevertheless", async (t) => {
  const notSampled = SENT.replace(/01$/, '00')
  for (const [sampler, argument, traceparent, isRecorded] of [
    ['parentbased_always_on', '', notSampled, false],
    ['parentbased_always_off', '', SENT, true],
    ['parentbased_traceidratio', '0', SENT, true],
    ['always_on', '', notSampled, true],
    ['always_off', '', SENT, false],
    ['traceidratio', '0', SENT, false],
    ['traceidratio', '1', notSampled, true],
  ] as const) {
    await t.test(`${sampler} ${argument} ${traceparent.slice(-2)}`, async (t) => {
      const collector = await startOtlpReceiver(t)
      const settings = { OTEL_TRACES_SAMPLER: sampler, OTEL_TRACES_SAMPLER_ARG: argument, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url }
      const { app, call } = await startStore(t, { traces: readConfig(settings).traces })
      const refused = await call('GET', '/orders', { headers: { traceparent } })
      assert.equal(refused.json.trace_id, TRACE)
      await app.stop()
      assert.deepEqual(
        readSpans(collector.file).map(({ traceId, name }) => [traceId, name]),
        isRecorded ? [[TRACE, 'GET /orders']] : [],
      )
    })
  }
})

test('a log line about a mail or a webhook that is refused has the trace of the order, also without an exporter', async (t) => {
  const { logger, entries: lines } = collectLog<{ msg: string; event?: string; trace_id?: string }>()
  const store = await startTraced(t, { OTEL_SDK_DISABLED: 'true' }, { logger })
  store.smtp.refuse(store.email, { code: 550, text: 'unknown' })
  store.receiver.answer((response) => {
    store.receiver.answer(204)
    response.writeHead(500).end()
  })
  const order = await store.place(SENT)
  for (const msg of ['a mail was given up', 'a webhook was not taken']) {
    const line = await eventually(async () => lines.find((each) => each.msg === msg), { what: msg })
    assert.deepEqual([line.event, line.trace_id], [`${order}.1`, TRACE], msg)
  }
  await eventually(async () => store.receiver.requests.length === 2)
  assert.deepEqual(store.collector.requests, [])
})

/** The lines of a tree in the order of the alphabet: what is done at the same time begins in any order. */
function namesIn(tree: readonly string[]): string[] {
  return tree
    .map((line) =>
      line
        .replace(/^[│├└─ ]+/, '')
        .replace(/\s+\+[\d.]+ ms\s+[\d.]+ ms$/, '')
        .replace(/ +/, ' '),
    )
    .toSorted()
}

test('the table of spans in the document is that of the code', () => {
  const [, table = ''] = /^\| Span \| Kind \| When \| Attributes \|\n\|---\|---\|---\|---\|\n((?:\|.*\n)+)/m.exec(OPERATIONS) ?? []
  const rows = table
    .trim()
    .split('\n')
    .map((row) => {
      const [, name = '', kind = '', , attributes = ''] = row.split('|').map((cell) => cell.trim())
      return [name.replaceAll('`', ''), kind, [...attributes.matchAll(/`([a-z0-9_.]+)/g)].map(([, attribute]) => attribute).toSorted()]
    })
  const definitions: SpanDefinition[] = Object.values(SPANS)
  assert.deepEqual(
    rows,
    definitions.map(({ name, kind, fixed, others }) => [name, kind, [...Object.keys(fixed), ...others].toSorted()]),
  )
})

import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { ROLES } from '../src/config.ts'
import { SUBSCRIBERS } from '../src/subscribers.ts'
import { eventually } from './eventually.ts'
import { missingProgram } from './programs.ts'
import { startSmtpServer } from './smtp-server.ts'
import { startStore } from './store.ts'
import { makeTestFolder } from './test-folder.ts'

const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')
const RULES = fileURLToPath(new URL('../deploy/prometheus/alerts.yaml', import.meta.url))
const promtoolMissing = missingProgram('promtool', 'prometheus')

interface Rule {
  name: string
  expr: string
  severity: string
  summary: string
  description: string
}

/** The rules of the file, which has each key on a line of its own. */
function readRules(): Rule[] {
  const blocks = readFileSync(RULES, 'utf8')
    .split(/^ {6}- alert: /m)
    .slice(1)
  return blocks.map((block) => {
    const find = (pattern: RegExp) => pattern.exec(block)?.[1] ?? assert.fail(`${pattern} in ${block}`)
    const [name, expr] = [find(/^(\w+)$/m), find(/^ {8}expr: (.+)$/m)]
    const [summary, description] = [find(/^ {10}summary: "(.+)"$/m), find(/^ {10}description: "(.+)"$/m)]
    return { name, expr, severity: find(/severity: (page|ticket) /), summary, description }
  })
}

/** The expressions of the dashboard. */
function readDashboard(): string[] {
  const { panels } = JSON.parse(read('deploy/grafana/storefront.json')) as { panels: { targets?: { expr: string }[] }[] }
  return panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
}

test('promtool understands every expression of the dashboard', { skip: promtoolMissing }, (t) => {
  const folder = makeTestFolder(t, 'storefront-dashboard-')
  const rules = readDashboard().map((expr, index) => ({ record: `panel:${index}`, expr }))
  assert.ok(rules.length > 25)
  // JSON is YAML.
  writeFileSync(join(folder, 'rules.yaml'), JSON.stringify({ groups: [{ name: 'dashboard', rules }] }))
  const { status, stderr } = spawnSync('promtool', ['check', 'rules', join(folder, 'rules.yaml')], { encoding: 'utf8' })
  assert.equal(status, 0, stderr)
})

const MINUTES = 180
const steady = (value: number | string) => `${value}x${MINUTES}`
/** Series of a process that dies after ten minutes. */
const DIES = '1x10 stale'

/**
 * A store of four processes in which everything is healthy: an API, one with the stream, the webhooks and the lake,
 * and two that send mail.
 */
const WELL: Record<string, string> = {}
for (const [instance, roles] of Object.entries({ api: ['api'], rest: ['stream', 'lake', 'webhook'], mail1: ['email'], mail2: ['email'] })) {
  const of = (labels = '') => `instance="${instance}",job="storefront"${labels}`
  WELL[`up{${of()}}`] = steady(1)
  for (const role of ROLES) WELL[`storefront_expected_roles{${of(`,role="${role}"`)}}`] = steady(1)
  for (const role of roles) WELL[`storefront_roles{${of(`,role="${role}"`)}}`] = steady(1)
  for (const queue of ['email', 'webhook', 'account-mail', 'cdn-purge']) {
    WELL[`storefront_queued{${of(`,queue="${queue}"`)}}`] = steady(2_000)
    WELL[`storefront_queue_oldest_untried_seconds{${of(`,queue="${queue}"`)}}`] = steady(100)
  }
  for (const state of ['failing', 'disabled'])
    WELL[`storefront_webhook_endpoints{${of(`,state="${state}"`)}}`] = steady(state === 'failing' ? 0 : 1)
  WELL[`storefront_process_up{${of()}}`] = steady(1)
  WELL[`storefront_source_up{${of(',source="database"')}}`] = steady(1)
  for (const stream of ['change_stream', 'catalogue_stream']) {
    WELL[`storefront_${stream}_slot_lost{${of()}}`] = steady(0)
    WELL[`storefront_${stream}_lag_bytes{${of()}}`] = steady(1e6)
    WELL[`storefront_${stream}_retained_bytes{${of()}}`] = steady(1e9)
  }
  WELL[`storefront_dead_letters{${of()}}`] = steady(0)
  WELL[`storefront_data_disk_free_bytes{${of()}}`] = steady(2e9)
  WELL[`storefront_data_disk_size_bytes{${of()}}`] = steady(1e10)
  WELL[`storefront_clock_difference_seconds{${of()}}`] = steady(0.2)
  WELL[`storefront_secret_outdated{${of()}}`] = steady(0)
  WELL[`storefront_database_pool_waiting_requests{${of(',pool="placing"')}}`] = steady(3)
  WELL[`nodejs_eventloop_lag_p99_seconds{${of()}}`] = steady(0.02)
  WELL[`storefront_requests_shed_total{${of(',class="search"')}}`] = steady(40)
  for (const kind of ['order', 'account', 'staff']) WELL[`storefront_mails_total{${of(`,kind="${kind}",outcome="failed"`)}}`] = steady(7)
  WELL[`storefront_webhooks_total{${of(',outcome="failed"')}}`] = steady(7)
  for (const { name: subscriber } of SUBSCRIBERS.filter(({ role }) => roles.includes(role))) {
    const isActive = instance !== 'mail2'
    WELL[`storefront_subscriber_state{${of(`,subscriber="${subscriber}",state="active"`)}}`] = steady(isActive ? 1 : 0)
    WELL[`storefront_subscriber_lag_events{${of(`,subscriber="${subscriber}"`)}}`] = steady(50)
    WELL[`storefront_subscriber_corrupt_messages_total{${of(`,subscriber="${subscriber}"`)}}`] = steady(3)
    if (subscriber === 'email') WELL[`storefront_smtp_up{${of()}}`] = steady(1)
  }
  const requests = (status: string) =>
    `storefront_http_request_duration_seconds_count{${of(`,method="GET",route="/products",status="${status}"`)}}`
  if (roles.includes('api')) Object.assign(WELL, { [requests('2xx')]: `0+6000x${MINUTES}`, [requests('5xx')]: `0+30x${MINUTES}` })
  for (const stream of roles.includes('stream') ? ['change_stream', 'catalogue_stream'] : [])
    WELL[`storefront_${stream}_state{${of(',state="active"')}}`] = steady(1)
  if (roles.includes('lake')) {
    WELL[`storefront_lake_last_flush_timestamp_seconds{${of()}}`] = `0+60x${MINUTES}`
    WELL[`storefront_lake_tables_fresh_timestamp_seconds{${of()}}`] = `0+60x${MINUTES}`
  }
}

/** Series of the store in another state: those whose name and labels hold all of the words. */
const changed = (values: string, ...words: string[]) =>
  Object.fromEntries(
    Object.keys(WELL)
      .filter((series) => words.every((word) => series.includes(word)))
      .map((series) => [series, values]),
  )

/** The second process that one command has started. */
const FURTHER = { instance: 'api', process: '2' }
const furtherProcess = (metric: string, values: string) => ({ [`${metric}{instance="api",job="storefront",process="2"}`]: values })

/** The fault that fires each alert, and the labels that the alert then has besides its severity. */
const FAULTS: Record<string, { series: Record<string, string>; labels: Record<string, string>; at?: string }> = {
  ProcessDown: { series: changed('1x10 0x50', 'up{', '"rest"'), labels: { instance: 'rest', job: 'storefront' } },
  FurtherProcessDown: { series: furtherProcess('storefront_process_up', '1x5 0 0 1 0 0 1 0 0 1 0 0 1 0x50'), labels: FURTHER, at: '16m' },
  NoProcess: { series: changed(DIES, 'storefront_'), labels: { job: 'storefront' } },
  RoleMissing: { series: { ...changed(DIES, '"mail1"'), ...changed(DIES, '"mail2"') }, labels: { role: 'email' } },
  SourceAway: { series: changed('1x10 0x50', 'source_up', '"api"'), labels: { instance: 'api', source: 'database' } },
  OrderStreamSlotLost: { series: changed('0x10 1x50', '_change_stream_slot_lost', '"api"'), labels: {} },
  OrderStreamStandsStill: { series: changed(DIES, '"rest"'), labels: {} },
  OrderStreamFallsBehind: { series: changed('0+2e8x60', '_change_stream_lag_bytes'), labels: {} },
  OrderStreamLogGrows: { series: changed('0+3e8x60', '_change_stream_retained_bytes'), labels: {} },
  CatalogueStreamStandsStill: { series: changed(DIES, '"rest"'), labels: {} },
  CatalogueStreamSlotLost: { series: changed('0x10 1x50', 'catalogue_stream_slot_lost', '"api"'), labels: {} },
  CatalogueStreamFallsBehind: { series: changed('0+5e8x60', 'catalogue_stream_lag_bytes'), labels: {}, at: '50m' },
  CatalogueStreamLogGrows: { series: changed('0+3e8x60', 'catalogue_stream_retained_bytes'), labels: {} },
  DeadLetters: { series: changed('0x10 1x50', 'dead_letters'), labels: {} },
  SubscriberStandsStill: { series: { ...changed(DIES, '"mail1"'), ...changed(DIES, '"mail2"') }, labels: { subscriber: 'email' } },
  CatalogueSubscriberStandsStill: { series: changed(DIES, 'catalogue-webhook'), labels: { subscriber: 'catalogue-webhook' } },
  CatalogueSubscriberFallsBehind: {
    series: changed('0+1000x180', 'lag_events', 'catalogue-lake'),
    labels: { subscriber: 'catalogue-lake' },
    at: '80m',
  },
  SubscriberFallsBehind: { series: changed('0+1000x60', 'lag_events', '"webhook"'), labels: { subscriber: 'webhook' } },
  CorruptMessages: { series: changed('3x25 4x40', 'corrupt_messages', '"lake"'), labels: { subscriber: 'lake' } },
  QueueGrows: { series: changed('500+100x60', 'queued{', '"email"'), labels: { queue: 'email' }, at: '50m' },
  QueueAges: { series: changed('0+60x60', 'oldest_untried', '"account-mail"'), labels: { queue: 'account-mail' } },
  MailServerAway: { series: changed('1x10 0x50', 'smtp_up', '"mail2"'), labels: { instance: 'mail2' } },
  MailsGivenUp: { series: changed('7x25 8x40', 'mails_total', '"account"', '"mail1"'), labels: { kind: 'account' } },
  WebhooksGivenUp: { series: changed('7x25 9x40', 'webhooks_total', '"rest"'), labels: {} },
  WebhookEndpointFails: { series: changed('0x10 1x170', 'webhook_endpoints', 'failing'), labels: {}, at: '80m' },
  WebhookEndpointDisabled: { series: changed('1x70 2x60', 'webhook_endpoints', 'disabled'), labels: {}, at: '80m' },
  LakeNotFresh: { series: changed('0+60x10 600x50', 'last_flush'), labels: {}, at: '45m' },
  LakeTablesOutdated: { series: changed('0+60x10 600x170', 'tables_fresh'), labels: {}, at: '150m' },
  DiskFillsUp: { series: changed('2e9-5e7x60', 'disk_free', '"rest"'), labels: { instance: 'rest' } },
  ClockDiffers: { series: changed('0x10 -18000x50', 'clock_difference', '"api"'), labels: { instance: 'api' } },
  StoreAnswersWithErrors: { series: changed('0+90x60', 'status="5xx"'), labels: {} },
  RequestsWaitForConnections: { series: changed('3x10 40x50', 'waiting_requests'), labels: { pool: 'placing' } },
  StoreOverloaded: { series: changed('40x5 40+6000x50', 'requests_shed', '"api"'), labels: { instance: 'api' } },
  EventLoopLags: { series: furtherProcess('nodejs_eventloop_lag_p99_seconds', '0.02x10 0.9x50'), labels: FURTHER },
  SecretOutdated: { series: changed('0x10 1x50', 'secret_outdated', '"mail1"'), labels: { instance: 'mail1' } },
}

const render = (summary: string, labels: Record<string, string>) =>
  summary.replace(/\{\{ \$labels\.(\w+) \}\}/g, (_, label: string) => labels[label] ?? assert.fail(label))

test('each alert fires in its fault and none while all is well', { skip: promtoolMissing }, async (t) => {
  const rules = readRules()
  assert.deepEqual(Object.keys(FAULTS).toSorted(), rules.map(({ name }) => name).toSorted())
  const seriesOf = (series: Record<string, string>) => Object.entries(series).map(([name, values]) => ({ series: name, values }))
  const calm = rules.flatMap(({ name }) => ['30m', '2h'].map((time) => ({ eval_time: time, alertname: name, exp_alerts: [] })))
  const tests: object[] = [{ interval: '1m', input_series: seriesOf(WELL), alert_rule_test: calm }]
  // No stream is active while it refills its lost slot.
  for (const stream of ['_change_stream', '_catalogue_stream']) {
    const refill = { ...changed('1x10 0x12 1x60', `${stream}_state`), ...changed('0x10 1x12 0x60', `${stream}_slot_lost`) }
    const during = rules.flatMap(({ name }) => ['13m', '21m'].map((time) => ({ eval_time: time, alertname: name, exp_alerts: [] })))
    tests.push({ interval: '1m', input_series: seriesOf({ ...WELL, ...refill }), alert_rule_test: during })
  }
  // A further process is restarted once.
  const restart = furtherProcess('storefront_process_up', '1x10 0 1x60')
  const afterwards = ['11m', '12m', '15m'].map((time) => ({ eval_time: time, alertname: 'FurtherProcessDown', exp_alerts: [] }))
  tests.push({ interval: '1m', input_series: seriesOf({ ...WELL, ...restart }), alert_rule_test: afterwards })
  for (const { name, severity, summary, description } of rules) {
    const { series, labels, at = '30m' } = FAULTS[name] ?? assert.fail(name)
    assert.notDeepEqual(series, {}, name)
    // One alert for each process where the labels name none.
    const every =
      name === 'RequestsWaitForConnections' ? ['api', 'rest', 'mail1', 'mail2'].map((instance) => ({ instance, ...labels })) : [labels]
    const alerts = every.map((own) => ({
      exp_labels: { severity, ...own },
      exp_annotations: { summary: render(summary, own), description },
    }))
    tests.push({
      interval: '1m',
      input_series: seriesOf({ ...WELL, ...series }),
      alert_rule_test: [{ eval_time: at, alertname: name, exp_alerts: alerts }],
    })
  }
  const folder = makeTestFolder(t, 'storefront-alerts-')
  const file = join(folder, 'tests.json')
  writeFileSync(file, JSON.stringify({ rule_files: [RULES], evaluation_interval: '1m', tests }))
  const { stdout } = await promisify(execFile)('promtool', ['test', 'rules', file]).catch((error) =>
    assert.fail(`${error.stdout}${error.stderr}`),
  )
  assert.match(stdout, /SUCCESS/)
  await promisify(execFile)('promtool', [
    'check',
    'config',
    fileURLToPath(new URL('../deploy/prometheus/prometheus.yaml', import.meta.url)),
  ])
})

/** The metrics of an expression, with the labels that select them. */
function selectorsOf(expr: string): { name: string; labels: [string, string][] }[] {
  const withoutTexts = expr.replace(/label_replace\((.+?\}), .*?\)\)/, '$1)')
  const matches = withoutTexts.matchAll(/\b((?:storefront|nodejs|process)_\w+)(?:\{([^}]*)\})?/g)
  return [...matches].map(([, name = '', selection = '']) => ({
    name,
    labels: [...selection.matchAll(/(\w+)="([^"]*)"/g)].map(([, label = '', value = '']) => [label, value]),
  }))
}

test('every series that an alert or the dashboard asks for is there on a store that has just begun to work', async (t) => {
  const smtp = await startSmtpServer(t)
  const operations = { host: '127.0.0.1', port: 0, isRequired: true }
  const store = await startStore(t, {
    operations,
    roles: ROLES,
    smtpUrl: smtp.url,
    lakeFlushSeconds: 1,
  })
  const [ada, lamp] = [await store.register(), await store.addProduct()]
  const body = { items: [{ product_id: lamp.id, quantity: 1 }] }
  assert.equal((await store.call('POST', '/orders', { token: ada.token, body })).status, 201)
  const unknown = { items: [{ product_id: randomUUID(), quantity: 1 }] }
  assert.equal((await store.call('POST', '/orders', { token: ada.token, body: unknown })).status, 422)
  const scrape = async () => (await (await fetch(`http://127.0.0.1:${store.app.operationsPort}/metrics`)).text()).split('\n')
  const lines = await eventually(
    async () => {
      const found = await scrape()
      // The first two come with the first file, the last ones when the streams have opened their slots.
      const hasLine = (pattern: RegExp) => found.some((line) => pattern.test(line))
      return (
        [
          /^storefront_lake_last_flush/,
          /lag_events.*lake/,
          /^storefront_change_stream_lag_bytes/,
          /^storefront_catalogue_stream_lag_bytes/,
        ].every(hasLine) && found
      )
    },
    { what: 'the first file of the lake' },
  )
  const expressions = [...readRules().map(({ expr }) => expr), ...readDashboard()]
  const selectors = expressions.flatMap(selectorsOf)
  assert.ok(selectors.length > 60, String(selectors.length))
  for (const { name, labels } of selectors) {
    // Prometheus adds `job`; an answer with an error may come at any time or never.
    const wanted = labels.filter(([label]) => label !== 'job' && label !== 'status').map(([label, value]) => `${label}="${value}"`)
    // The tables are first brought up to date half a minute after the start.
    const isLater = name === 'storefront_lake_tables_fresh_timestamp_seconds' && lines.includes(`# TYPE ${name} gauge`)
    const isThere = isLater || lines.some((line) => /^\w+/.exec(line)?.[0] === name && wanted.every((text) => line.includes(text)))
    assert.ok(isThere, `${name} ${wanted}`)
  }
})

test('a process of any role knows the queues, the slot and the roles that the whole store needs', async (t) => {
  const operations = { host: '127.0.0.1', port: 0, isRequired: true }
  const store = await startStore(t, { operations, hasSlot: true, expectedRoles: ['api', 'email'] })
  assert.equal((await store.call('POST', '/auth/password-reset', { body: { email: (await store.register()).email } })).status, 202)
  await store.pool.query(`update account_mails set due_at = now() - interval '1 hour'`)
  await store.pool.query(
    `with dead_letter as (
      insert into dead_letters (event_id, reason, position)
      select gen_random_uuid() || '.' || version, 'no order', '0/0'
      from generate_series(1, 3) as versions (version)
      returning event_id
    )
    insert into order_event_deliveries (order_id, version, sequence, published_at)
    select split_part(event_id, '.', 1)::uuid, 3, 1, now() from dead_letter where event_id like '%.3'`,
  )
  const text = await (await fetch(`http://127.0.0.1:${store.app.operationsPort}/metrics`)).text()
  for (const line of [
    'storefront_roles{role="api"} 1',
    'storefront_expected_roles{role="email"} 1',
    'storefront_queued{queue="email"} 0',
    'storefront_queued{queue="webhook"} 0',
    'storefront_queued{queue="account-mail"} 1',
    'storefront_queue_oldest_untried_seconds{queue="email"} 0',
    'storefront_dead_letters 2',
    'storefront_change_stream_slot_lost 0',
    'storefront_webhook_endpoints{state="disabled"} 0',
  ]) {
    assert.ok(text.includes(`\n${line}\n`), line)
  }
  const seconds = Number(/oldest_untried_seconds\{queue="account-mail"\} (\S+)/.exec(text)?.[1])
  assert.ok(seconds >= 3_600 && seconds < 7_200, String(seconds))
  assert.doesNotMatch(text, /storefront_(expected_)?roles\{role="(stream|webhook)"\}|storefront_source_up\{\S+ 0\n/)
})

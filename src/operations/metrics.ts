import type { Logger } from 'pino'
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import { PROCESS_UP, type ProcessMetrics } from './merge-metrics.ts'
import { type Reading, Readings } from './readings.ts'
import { RequestTimes } from './request-times.ts'

const EVENT_LOOP_SAMPLE_MS = 50
const STATES = ['stopped', 'standby', 'active', 'failing'] as const
type State = (typeof STATES)[number]
const MAIL_KINDS = ['order', 'account', 'staff'] as const
const MAIL_OUTCOMES = ['sent', 'retried', 'failed'] as const
type StreamName = 'change_stream' | 'catalogue_stream'

interface CountedPool {
  readonly totalCount: number
  readonly idleCount: number
  readonly waitingCount: number
}

/** The store's metrics. Other rooms do not import this class: app.ts passes its methods to them. */
export class Metrics {
  readonly #registry = new Registry()
  readonly #requests = new RequestTimes()
  readonly #readings: Readings
  #isProcessCollected = false
  readonly #ordersPlaced = this.#counter('orders_placed_total', 'Orders placed.')
  readonly #ordersReplayed = this.#counter(
    'orders_replayed_total',
    'Repeated requests for an order that got the first answer again, by their key.',
  )
  readonly #ordersRefused = this.#counter('orders_refused_total', 'Orders refused, by the code of the problem.', ['code'])
  readonly #orderBatches = new Histogram({
    name: 'storefront_order_batch_size',
    help: 'Orders tried in one transaction.',
    buckets: [1, 2, 4, 8, 16, 32, 64, 128],
    registers: [this.#registry],
  })
  readonly #batchesUndone = this.#counter(
    'order_batches_undone_total',
    'Batches of orders that were placed a second time, after a check of the current state.',
  )
  readonly #shed = this.#counter(
    'requests_shed_total',
    'Requests refused with `overloaded`, by class: search, lists, orders (with every other change), essential.',
    ['class'],
  )
  readonly #dropped = this.#counter(
    'connections_dropped_total',
    'Connections that were closed because there were more than MAX_CONNECTIONS.',
  )
  readonly #untrusted = this.#counter(
    'untrusted_proxy_requests_total',
    'Requests forwarded by a proxy that TRUST_PROXY does not name: its clients share one rate limit.',
  )
  readonly #published = this.#counter('events_published_total', 'Order events that the topic has stored, duplicates included.')
  readonly #cataloguePublished = this.#counter(
    'catalogue_events_published_total',
    'Events of the catalogue that the topic has stored, duplicates included.',
  )
  readonly #mails = this.#counter('mails_total', 'Attempts to send a mail, by outcome.', ['kind', 'outcome'])
  readonly #webhooks = this.#counter('webhooks_total', 'Attempts to deliver a webhook, by outcome.', ['outcome'])
  readonly #lakeFiles = this.#counter('lake_files_total', 'Files written to the lake.')
  readonly #lakeRows = this.#counter('lake_rows_total', 'Rows written to the lake.')
  readonly #lakeFlushed = this.#gauge('lake_last_flush_timestamp_seconds', 'When a file was last written to the lake.')
  readonly #tablesFresh = this.#gauge(
    'lake_tables_fresh_timestamp_seconds',
    'When the tables of the newest state last had every event of the lake.',
  )
  readonly #queued = this.#gauge(
    'queued',
    'Waiting deliveries of each subscriber, waiting account mails and waiting purges. All processes are counted together.',
    ['queue'],
  )
  readonly #oldest = this.#gauge(
    'queue_oldest_untried_seconds',
    'Seconds for which the oldest due entry has waited for its first attempt. Entries whose receiver is failing do not count.',
    ['queue'],
  )
  readonly #connections = this.#gauge(
    'database_pool_connections',
    'Open connections of each pool: general (requests), placing (orders), pipeline (all other roles).',
    ['pool'],
  )
  readonly #idle = this.#gauge('database_pool_idle_connections', 'Open connections that are not in use.', ['pool'])
  readonly #waiting = this.#gauge('database_pool_waiting_requests', 'Requests that wait for a connection.', ['pool'])
  readonly #subscribers = this.#gauge('subscriber_state', '1 for the state that this process is in: active, standby, failing or stopped.', [
    'subscriber',
    'state',
  ])
  readonly #corrupt = this.#counter(
    'subscriber_corrupt_messages_total',
    'Messages of the topic that are no events and were left out; should stay 0.',
    ['subscriber'],
  )
  readonly #positions = this.#gauge('subscriber_position', 'Sequence of the last event that the subscriber has processed.', ['subscriber'])
  readonly #lags = this.#gauge('subscriber_lag_events', 'Upper bound of the number of events that the subscriber has not yet processed.', [
    'subscriber',
  ])

  constructor(logger: Logger) {
    const up = this.#gauge('source_up', '0 when the source of other metrics, such as database or replication_slot, cannot be read.', [
      'source',
    ])
    this.#readings = new Readings(up, logger)
    this.#registry.registerMetric(this.#requests.asMetric)
    new Gauge({
      name: PROCESS_UP,
      help: '1 when the process answers. 0 when one of several processes of a start does not run or answer.',
      registers: [this.#registry],
    }).set(1)
    // Before the first flush the metric has no value, instead of the year 1970.
    this.#lakeFlushed.remove()
    this.#tablesFresh.remove()
    // Prometheus sees no increase in a series that begins with 1.
    for (const outcome of MAIL_OUTCOMES) for (const kind of MAIL_KINDS) this.#mails.inc({ kind, outcome }, 0)
    for (const name of ['search', 'lists', 'orders']) this.#shed.inc({ class: name }, 0)
    for (const outcome of ['delivered', 'retried', 'failed']) this.#webhooks.inc({ outcome }, 0)
  }

  /** Adds Node's metrics: memory, CPU, event loop and garbage collection. Idempotent. */
  collectProcess(): void {
    if (this.#isProcessCollected) return
    this.#isProcessCollected = true
    // The default of 100 samples a second causes half of an idle process's wake-ups.
    collectDefaultMetrics({ register: this.#registry, eventLoopMonitoringPrecision: EVENT_LOOP_SAMPLE_MS })
  }

  get contentType(): string {
    return this.#registry.contentType
  }

  async text(): Promise<string> {
    await this.#readings.refresh()
    return this.#registry.metrics()
  }

  async values(): Promise<ProcessMetrics> {
    await this.#readings.refresh()
    return this.#registry.getMetricsAsJSON()
  }

  readonly requestAnswered = (method: string, route: string | undefined, status: number, ms: number): void =>
    this.#requests.add(method, route ?? 'none', status, ms / 1_000)

  readonly ordersTried = (orders: number): void => this.#orderBatches.observe(orders)

  readonly batchUndone = (): void => this.#batchesUndone.inc()

  readonly orderPlaced = (isReplay: boolean): void => (isReplay ? this.#ordersReplayed : this.#ordersPlaced).inc()

  readonly orderRefused = (code: string): void => this.#ordersRefused.inc({ code })

  readonly requestShed = (loadClass: string): void => this.#shed.inc({ class: loadClass })

  readonly connectionDropped = (): void => this.#dropped.inc()
  readonly untrustedProxySeen = (): void => this.#untrusted.inc()

  readonly eventsPublished = (events: number): void => this.#published.inc(events)

  readonly catalogueEventsPublished = (events: number): void => this.#cataloguePublished.inc(events)

  readonly mailTried = (kind: (typeof MAIL_KINDS)[number], outcome: (typeof MAIL_OUTCOMES)[number]): void =>
    this.#mails.inc({ kind, outcome })

  readonly webhookTried = (outcome: 'delivered' | 'retried' | 'failed'): void => this.#webhooks.inc({ outcome })

  readonly lakeFileWritten = (rows: number): void => {
    this.#lakeFiles.inc()
    this.#lakeRows.inc(rows)
    this.#lakeFlushed.setToCurrentTime()
  }

  readonly lakeTablesFresh = (): void => this.#tablesFresh.setToCurrentTime()

  readonly corruptMessagesLeftOut = (subscriber: string, messages: number): void => this.#corrupt.inc({ subscriber }, messages)

  watchPools(pools: Record<string, CountedPool>): void {
    this.#readings.add('pools', async () =>
      Object.entries(pools).flatMap(([pool, { totalCount, idleCount, waitingCount }]) => [
        { gauge: this.#connections, labels: { pool }, value: totalCount },
        { gauge: this.#idle, labels: { pool }, value: idleCount },
        { gauge: this.#waiting, labels: { pool }, value: waitingCount },
      ]),
    )
  }

  /** Measures the source `database`: whether it answers, and its clock. */
  watchDatabase(readClockDifference: () => Promise<number>): void {
    const clock = this.#gauge(
      'clock_difference_seconds',
      "Seconds by which the clock of this process is ahead of the database's clock. Negative when it is behind.",
    )
    this.#readings.add('database', async () => [{ gauge: clock, value: await readClockDifference() }])
  }

  watchSecret(secret: { readonly isOutdated: boolean }): void {
    const outdated = this.#gauge('secret_outdated', '1 when STOREFRONT_SECRET was changed and this process still has the old one.')
    this.#readings.add('secret', async () => [{ gauge: outdated, value: secret.isOutdated ? 1 : 0 }])
  }

  /** `name` is the beginning of its metrics. */
  watchChangeStream(stream: { readonly state: State }, name: StreamName = 'change_stream'): void {
    const state = this.#gauge(`${name}_state`, '1 for the state that this process is in: active, standby, failing or stopped.', ['state'])
    this.#readings.add(name, async () => stateReadings(state, {}, stream.state))
  }

  watchSlot(
    readSlot: () => Promise<{ lagBytes: number | null; retainedBytes: number | null; lostReason: string | null }>,
    name: StreamName = 'change_stream',
  ): void {
    const lost = this.#gauge(`${name}_slot_lost`, '1 when changes are not published because the replication slot is lost.')
    const lag = this.#gauge(
      `${name}_lag_bytes`,
      "PostgreSQL's log behind the confirmed position of the replication slot; some kB on an idle store.",
    )
    const retained = this.#gauge(`${name}_retained_bytes`, "PostgreSQL's log that its disk keeps for the replication slot.")
    this.#readings.add(name === 'change_stream' ? 'replication_slot' : 'catalogue_slot', async () => {
      const { lagBytes, retainedBytes, lostReason } = await readSlot()
      return [
        { gauge: lost, value: lostReason === null ? 0 : 1 },
        { gauge: lag, value: lagBytes },
        { gauge: retained, value: retainedBytes },
      ]
    })
  }

  /** `readPosition` returns null when this process does not know it. */
  watchSubscriber(
    subscriber: string,
    subscription: { readonly state: State },
    readPosition: () => Promise<{ position: number; lag: number } | null>,
  ): void {
    this.#corrupt.inc({ subscriber }, 0)
    this.#readings.add(`subscriber_${subscriber}`, async () => stateReadings(this.#subscribers, { subscriber }, subscription.state))
    this.#readings.add(`position_${subscriber}`, async () => {
      const { position, lag } = (await readPosition()) ?? { position: null, lag: null }
      return [
        { gauge: this.#positions, labels: { subscriber }, value: position },
        { gauge: this.#lags, labels: { subscriber }, value: lag },
      ]
    })
  }

  watchQueue(queue: string, read: () => Promise<{ queued: number; oldestUntriedSeconds: number }>): void {
    this.#readings.add(`queue_${queue}`, async () => {
      const { queued, oldestUntriedSeconds } = await read()
      return [
        { gauge: this.#queued, labels: { queue }, value: queued },
        { gauge: this.#oldest, labels: { queue }, value: oldestUntriedSeconds },
      ]
    })
  }

  setRoles(roles: readonly string[], expected: readonly string[]): void {
    const own = this.#gauge('roles', '1 for each role that this process has.', ['role'])
    const wanted = this.#gauge('expected_roles', '1 for each role that some process of the store should have.', ['role'])
    for (const role of roles) own.set({ role }, 1)
    for (const role of expected) wanted.set({ role }, 1)
  }

  watchMailServer(server: { readonly isUp: boolean }): void {
    const up = this.#gauge('smtp_up', '0 when the mail server refused the last mail or login; checked every half minute.')
    this.#readings.add('smtp', async () => [{ gauge: up, value: server.isUp ? 1 : 0 }])
  }

  watchDeadLetters(count: () => Promise<number>): void {
    const letters = this.#gauge(
      'dead_letters',
      'Changes without a valid event, or with one too large for the broker, that were not published; should stay 0.',
    )
    this.#readings.add('dead_letters', async () => [{ gauge: letters, value: await count() }])
  }

  watchWebhookEndpoints(count: () => Promise<Record<string, number>>): void {
    const endpoints = this.#gauge('webhook_endpoints', 'Endpoints of webhooks that are enabled, failing or disabled.', ['state'])
    this.#readings.add('webhook_endpoints', async () =>
      Object.entries(await count()).map(([state, value]) => ({ gauge: endpoints, labels: { state }, value })),
    )
  }

  /** DATA_DIR. `read` returns null while the folder does not exist. */
  watchDisk(read: () => Promise<{ freeBytes: number; sizeBytes: number } | null>): void {
    const free = this.#gauge('data_disk_free_bytes', 'Free space on the disk of DATA_DIR.')
    const size = this.#gauge('data_disk_size_bytes', 'Size of the disk of DATA_DIR.')
    this.#readings.add('disk', async () => {
      const { freeBytes, sizeBytes } = (await read()) ?? { freeBytes: null, sizeBytes: null }
      return [
        { gauge: free, value: freeBytes },
        { gauge: size, value: sizeBytes },
      ]
    })
  }

  #counter(name: string, help: string, labelNames: string[] = []): Counter {
    return new Counter({ name: `storefront_${name}`, help, labelNames, registers: [this.#registry] })
  }

  #gauge(name: string, help: string, labelNames: string[] = []): Gauge {
    return new Gauge({ name: `storefront_${name}`, help, labelNames, registers: [this.#registry] })
  }
}

function stateReadings(gauge: Gauge, labels: Record<string, string>, now: State): Reading[] {
  return STATES.map((state) => ({ gauge, labels: { ...labels, state }, value: state === now ? 1 : 0 }))
}

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { createPartition, createTopic } from '../src/app/create-topic.ts'
import { ensureIncarnationOf } from '../src/app/ensure-incarnation.ts'
import { openLake } from '../src/app/open-lake.ts'
import { catalogueSlotOf, orderSlotOf, prepareDatabase } from '../src/app/prepare-database.ts'
import { createApp } from '../src/app.ts'
import { type ReplayReport, replay } from '../src/audit/replay/replay.ts'
import { type ReconcileReport, reconcile } from '../src/audit/restore/reconcile.ts'
import { orderPartition } from '../src/audit/verify/compared-partition.ts'
import { type VerifyReport, verify } from '../src/audit/verify/verify.ts'
import { readConfig } from '../src/config.ts'
import { oneRole } from '../src/db/addresses.ts'
import { createPool, type Pool } from '../src/db/pool.ts'
import { COMMAND_BOUNDS } from '../src/db/session-settings.ts'
import { CATALOGUE } from '../src/topic/partitions.ts'
import type { Topic } from '../src/topic/topic.ts'
import { type Cleanup, onCleanup } from '../test/cleanup.ts'
import { createTestDatabase } from '../test/database.ts'
import { eventually } from '../test/eventually.ts'
import type { S3Server } from '../test/s3-server.ts'
import { TEST_SECRET } from '../test/store.ts'
import { silent } from '../test/stream-harness.ts'
import type { Broker } from './broker.ts'
import { checkIndependently, type IndependentReport } from './independent-check.ts'
import { type MailSink, startMailSink } from './mail-sink.ts'
import { Shop } from './shop.ts'

const PROCESS = fileURLToPath(new URL('pipeline-process.ts', import.meta.url))
const STREAM_PROCESS = fileURLToPath(new URL('../test/stream-process.ts', import.meta.url))
const REPAIR_PROCESS = fileURLToPath(new URL('repair-process.ts', import.meta.url))
const COMPACT_PROCESS = fileURLToPath(new URL('compact-process.ts', import.meta.url))
export const DRAIN_TIMEOUT_MS = 300_000

export interface RoundProcess {
  child: ChildProcess
  /** Ends together with the process. */
  ended: Promise<void>
  kill(signal?: NodeJS.Signals): Promise<void>
}

/** One round of a fault: a separate store with a stream of orders, and the means to break it. */
export class Round {
  readonly cleanup: Cleanup
  readonly random: () => number
  readonly dataDir: string
  /** The folder of the lake's files, or of its object store's disk. */
  lake: string
  readonly sink: MailSink
  readonly url: string
  readonly pool: Pool
  readonly shop: Shop
  /** The topic's broker; null for the topic in PostgreSQL. */
  readonly broker: Broker | null
  readonly #topic: Promise<Topic>
  #bucket: Record<string, string> = {}

  private constructor(
    cleanup: Cleanup,
    random: () => number,
    url: string,
    pool: Pool,
    sink: MailSink,
    dataDir: string,
    broker: Broker | null,
  ) {
    this.cleanup = cleanup
    this.random = random
    this.url = url
    this.pool = pool
    this.sink = sink
    this.dataDir = dataDir
    this.lake = join(dataDir, 'lake')
    this.shop = new Shop(pool, random)
    this.broker = broker
    this.#topic = createTopic(readConfig(this.environment('stream')), { pool, url, logger: silent })
    onCleanup(cleanup, async () => (await this.#topic).stop())
  }

  /** Opens a round on the run's server or on the one at `ownUrl`, with the topic in PostgreSQL or in `broker`. */
  static async open(cleanup: Cleanup, random: () => number, ownUrl?: string, broker: Broker | null = null): Promise<Round> {
    const url = ownUrl ?? (await createTestDatabase(cleanup)).url
    const pool = createPool({ url, size: 6, applicationName: 'faults', onError: () => {}, bounds: COMMAND_BOUNDS })
    onCleanup(cleanup, () => pool.end())
    await prepareDatabase(oneRole(url), silent)
    const dataDir = mkdtempSync(join(tmpdir(), 'storefront-fault-'))
    onCleanup(cleanup, () => rmSync(dataDir, { recursive: true, force: true }))
    const round = new Round(cleanup, random, url, pool, await startMailSink(cleanup), dataDir, broker)
    await round.shop.open()
    return round
  }

  /** Puts the lake into this server's bucket from now on. */
  useBucket({ folder, bucket, env }: S3Server): void {
    this.lake = join(folder, 'lake')
    this.#bucket = { ...env, LAKE_URL: `s3://${bucket}/lake` }
    // AWS's SDK in this process reads the environment itself.
    Object.assign(process.env, env)
  }

  environment(roles: string, overrides: Record<string, string> = {}): Record<string, string> {
    return {
      DATABASE_URL: this.url,
      STOREFRONT_SECRET: TEST_SECRET,
      DATA_DIR: this.dataDir,
      SMTP_URL: this.sink.url,
      LAKE_FLUSH_SECONDS: '1',
      MAIL_MAX_PER_HOUR: '0',
      PORT: '0',
      OPS_PORT: 'off',
      ROLES: roles,
      ...(this.broker === null ? {} : { NATS_URL: this.broker.servers, NATS_REPLICAS: String(this.broker.replicas) }),
      ...this.#bucket,
      ...overrides,
    }
  }

  /** Runs roles that survive the fault in this process. */
  async survive(roles: string, overrides: Record<string, string> = {}): Promise<() => Promise<void>> {
    const app = await createApp({ config: readConfig(this.environment(roles, overrides)), logger: silent })
    // A failed start needs this stop too, because the resources that it opened would outlive the round.
    onCleanup(this.cleanup, () => app.stop())
    await app.start()
    return () => app.stop()
  }

  /** Runs roles in a separate process, which may kill itself by `fault`. Returns once it works, or has ended. */
  async start(roles: string, overrides: Record<string, string> = {}): Promise<RoundProcess> {
    const { child, ...rest } = this.#spawn(PROCESS, this.environment(roles, overrides))
    await Promise.race([once(child.stdout as NonNullable<typeof child.stdout>, 'data'), rest.ended])
    return { child, ...rest }
  }

  /** Merges the lake's files in a separate process, which may kill itself by `fault`. */
  compact(overrides: Record<string, string> = {}): RoundProcess {
    return this.#spawn(COMPACT_PROCESS, this.environment('lake', overrides))
  }

  /** Repairs the lake's files in a separate process, which may kill itself by `fault`. */
  repair(overrides: Record<string, string> = {}): RoundProcess {
    return this.#spawn(REPAIR_PROCESS, this.environment('lake', overrides))
  }

  /**
   * Runs a partition's stream in a separate process that kills itself before the statement with this number. For the
   * topic in PostgreSQL.
   */
  streamUntil(partition: 'orders' | 'catalogue', statement: number): RoundProcess {
    return this.#spawn(STREAM_PROCESS, this.environment('stream'), [this.url, partition, String(statement)])
  }

  #spawn(program: string, environment: Record<string, string>, args: string[] = []): RoundProcess {
    const env = { PATH: process.env.PATH ?? '', ...environment }
    const child = spawn(process.execPath, [program, ...args], { env, stdio: ['ignore', 'pipe', 'inherit'] })
    const ended = once(child, 'exit').then(() => {})
    const kill = async (signal: NodeJS.Signals = 'SIGKILL') => {
      if (child.exitCode === null && child.signalCode === null) child.kill(signal)
      await ended
    }
    onCleanup(this.cleanup, () => kill())
    return { child, ended, kill }
  }

  check(): Promise<IndependentReport> {
    const { url, lake, broker } = this
    const { initialStock, acknowledged, unreachable } = this.shop
    return checkIndependently({ url, broker, lake, taken: this.sink.taken, initialStock, acknowledged, unreachable })
  }

  async verify(): Promise<VerifyReport> {
    const { pool, url } = this
    const config = readConfig(this.environment('lake'))
    const lake = await openLake(config)
    const catalogueTopic = await createPartition(CATALOGUE, config, { pool, url, logger: silent })
    const catalogue = { topic: catalogueTopic, slotName: catalogueSlotOf(url) }
    const options = { pool, streamUrl: url, topic: await this.#topic, slotName: orderSlotOf(url), catalogue, lake, now: () => new Date() }
    try {
      await catalogueTopic.start()
      return await verify(options)
    } finally {
      await catalogueTopic.stop()
      lake.close()
    }
  }

  async replay(): Promise<ReplayReport> {
    const { pool, url } = this
    return replay(orderPartition(await this.#topic), { pool, streamUrl: url, slotName: orderSlotOf(url) })
  }

  /** Reconciles like `storefront replay` after a restore, and returns its list. */
  async reconcile(): Promise<ReconcileReport> {
    const { pool, url } = this
    const config = readConfig(this.environment('lake'))
    await ensureIncarnationOf(config, { pool, url, logger: silent })
    const topic = await createTopic(config, { pool, url, logger: silent })
    const catalogueTopic = await createPartition(CATALOGUE, config, { pool, url, logger: silent })
    const lake = await openLake(config)
    try {
      await replay(orderPartition(topic), { pool, streamUrl: url, slotName: orderSlotOf(url) })
      const report = await reconcile({ pool, url, topic, catalogueTopic, lake, now: () => new Date() })
      if (report === null || report.lostEvents === 0) throw new Error('the restore was not recognised')
      return report
    } finally {
      lake.close()
      await catalogueTopic.stop()
      await topic.stop()
    }
  }

  /** The number of messages in the topic. */
  async countMessages(): Promise<number> {
    if (this.broker !== null) return this.broker.countMessages()
    const { rows } = await this.pool.query<{ stored: number }>('select count(*)::integer as stored from topic_messages')
    return rows[0]?.stored ?? 0
  }

  /** The number of committed changes of orders. */
  async countVersions(): Promise<number> {
    const { rows } = await this.pool.query<{ versions: number }>(
      'select coalesce(sum(jsonb_array_length(status_history)), 0)::integer as versions from orders',
    )
    return rows[0]?.versions ?? 0
  }

  /**
   * Waits until the topic in PostgreSQL has the newest acknowledged change. All earlier ones have then been published.
   */
  async untilNewestOnTopic(): Promise<void> {
    const [id, version] = [...this.shop.acknowledged].at(-1) ?? []
    await eventually(async () => (await this.pool.query('select from topic_messages where id = $1', [`${id}.${version}`])).rowCount === 1, {
      what: 'the newest change on the topic',
      timeoutMs: DRAIN_TIMEOUT_MS,
    })
  }

  async #hasSettled(): Promise<boolean> {
    const { rows } = await this.pool.query<{ versions: number; queued: number; mails: number }>(
      `select (select sum(jsonb_array_length(status_history))::integer from orders) as versions, count(*)::integer as mails,
        count(*) filter (where status = 'queued')::integer as queued
      from email_deliveries`,
    )
    const { versions = 0, queued = 0, mails = 0 } = rows[0] ?? {}
    return queued === 0 && mails >= versions && (await this.countMessages()) >= versions
  }

  /** Waits until nothing is missing, or for a limited time. Returns the time in milliseconds. */
  async drain(timeoutMs = DRAIN_TIMEOUT_MS): Promise<number> {
    const since = performance.now()
    for (;;) {
      const isLate = performance.now() - since > timeoutMs
      // Reading the lake is expensive, and useless before the rest has arrived.
      const mayBeDone = isLate || (await this.#hasSettled().catch(() => false))
      const report = mayBeDone ? await this.check().catch(() => null) : null
      const tookMs = performance.now() - since
      if (report !== null && report.topicLost + report.mailsLost + report.mailsQueued + report.lakeLost === 0) return tookMs
      if (isLate) return tookMs
      await pause(100)
    }
  }
}

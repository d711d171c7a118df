import type { Logger } from 'pino'
import type { SharedConfig } from './app/create-api.ts'
import { createStreams } from './app/create-streams.ts'
import { createSubscribers } from './app/create-subscribers.ts'
import { ensureIncarnationAtStart } from './app/ensure-incarnation.ts'
import { explainListenErrors } from './app/explain-listen-errors.ts'
import { poolSizes } from './app/pool-sizes.ts'
import { prepareDatabase } from './app/prepare-database.ts'
import { checkEveryRole, readinessCheck, shareChecks } from './app/readiness.ts'
import { inOrder, type ProcessReport, type Service, type SubscriberState, type Workers } from './app/service.ts'
import { createParts, type StoreParts } from './app/store-parts.ts'
import { warnAboutServer, warnAboutSettings } from './app/warn-about-settings.ts'
import { watchStore } from './app/watch-store.ts'
import type { RunCommand } from './audit/audit-runner.ts'
import type { HashCost } from './auth/passwords/password.ts'
import { loadSampleCatalogue } from './catalogue/import/sample-catalogue.ts'
import type { Config } from './config.ts'
import { assertReachable, assertServer, onceAvailable } from './db/assert-suitable.ts'
import { readDatabaseId } from './db/database-id.ts'
import { dataFolder, firstStart } from './db/embedded/data-folder.ts'
import { assertMigrated } from './db/migrate.ts'
import { type OpenDatabase, openOwnDatabase } from './db/open-database.ts'
import { createPool, type Pool } from './db/pool.ts'
import type { ReadinessCheck } from './http/health.ts'
import { isOwnHost } from './http/host.ts'
import type { HttpServer } from './http/http-server.ts'
import { mergeMetrics } from './operations/merge-metrics.ts'
import type { Metrics } from './operations/metrics.ts'
import { OperationsServer } from './operations/operations-server.ts'

export interface App {
  readonly server: HttpServer | null
  readonly operationsPort: number | null
  readonly report: ProcessReport
  start(): Promise<void>
  /** Drains requests, stops the stream at a confirmed position, and then stops the rest. Idempotent. */
  stop(): Promise<void>
}

export interface AppOptions {
  config: Config
  logger: Logger
  now?: () => Date
  /** An open database, which the store then closes. By default the store opens it. */
  database?: OpenDatabase
  hashCost?: HashCost | undefined
  /** Runs commands. If absent, the console refuses to run any. */
  runCommand?: RunCommand
  /** The most connections that all processes of this start have. By default those of one process. */
  connections?: number
  /** Absent where the store is one process. */
  createWorkers?: ((shared: SharedConfig) => Workers) | undefined
  /** Reads the states of the subscribers in all processes of this start. By default the store asks its own workers. */
  readStates?: (() => Promise<SubscriberState[]>) | undefined
  signal?: AbortSignal
}

export async function createApp(options: AppOptions): Promise<App> {
  const { config, logger, now = () => new Date(), hashCost, runCommand, createWorkers } = options
  warnAboutSettings(config, logger)
  const database = options.database ?? (await openOwnDatabase(config))
  const pools = openPools(config, database, logger)
  try {
    await prepare(options, database, pools.pipeline)
    if (config.roles.includes('api') && config.isRateLimited && !config.isNetworkLimited)
      logger.info('only this machine can reach the store, so limits by network do not apply; RATE_LIMITS=on sets them')
    const { pipeline: pool, leases: leasePool, requests: requestPool, placing: placingPool } = pools
    const parts = await createParts({ config, logger, now, addresses: database.addresses, pool, leasePool, requestPool })
    const { metrics, tracing, secretWatch } = parts
    metrics.watchPools({ pipeline: pool, ...(config.roles.includes('api') ? { general: requestPool, placing: placingPool } : {}) })
    watchStore(metrics, config, pool, database.addresses.api)

    const streams = config.roles.includes('stream') ? createStreams(parts) : null
    const subscribers = await createSubscribers(parts)
    let isStopping = false
    let workers: Workers | null = null as Workers | null
    const { readStates = async () => (await workers?.readStates()) ?? [] } = options
    const canWork = shareChecks(readinessCheck(pool, streams, database))
    const check: ReadinessCheck = async () => (isStopping ? [{ name: 'process', reason: 'the process is stopping' }] : canWork())
    const report: ProcessReport = {
      failing: checkEveryRole(check, subscribers.running, secretWatch),
      metrics() {
        metrics.collectProcess()
        return metrics.values()
      },
      states: async () => [...subscribers.running.subscriptions].map(([name, { state }]) => [name, state] as const),
    }
    const api = config.roles.includes('api')
      ? await (await import('./app/create-api.ts')).createApiRole(parts, {
          requestPool,
          placingPool,
          readStates: async () => [...(await report.states()), ...(await readStates())],
          check,
          onNumbered: pools.onNumbered,
          hashCost,
          runCommand,
          createWorkers: createWorkers && ((shared) => (workers = createWorkers(shared))),
        })
      : null
    const checkAll: ReadinessCheck = async () => {
      if (workers === null) return report.failing()
      const [own, others] = await Promise.all([report.failing(), workers.findFailing()])
      return [...own.map((each) => ({ ...each, process: 1 })), ...others]
    }
    const readMetrics = async () => {
      if (workers === null) return metrics.text()
      const [own, others] = await Promise.all([report.metrics(), workers.readMetrics()])
      return mergeMetrics([{ process: 1, metrics: own }, ...others])
    }
    const operations = config.operations === null ? null : await createOperations(parts, config.operations, checkAll, readMetrics)

    const all = inOrder(
      [
        ...(operations?.services ?? []),
        ...parts.services,
        ...subscribers.services,
        ...(streams?.services ?? []),
        // All workers stop together, before what queues for them.
        parts.deliveries,
        ...(api?.services ?? []),
      ],
      async () => {
        await tracing?.stop()
        await pools.close()
      },
    )
    return {
      server: api?.server ?? null,
      report,
      get operationsPort() {
        return operations?.server.port ?? null
      },
      async start() {
        await all.start()
        if (operations !== null) operations.server.phase = 'started'
      },
      async stop() {
        isStopping = true
        if (operations !== null) operations.server.phase = 'stopping'
        await all.stop()
      },
    }
  } catch (error) {
    await pools.close()
    throw error
  }
}

interface Pools {
  pipeline: Pool
  leases: Pool
  requests: Pool
  /** Orders never wait for a connection behind other requests, such as cancellations that wait for a locked row. */
  placing: Pool
  onNumbered: (number: number) => void
  close: () => Promise<void>
}

function openPools(config: Config, database: OpenDatabase, logger: Logger): Pools {
  let isClosing = false
  const onError = (error: Error) => {
    // The embedded server may end connections of pools that are closing.
    if (!isClosing) logger.warn({ reason: error.message }, 'an idle database connection broke')
  }
  const witness = {
    orderNumber: 0,
    onIncarnation: (reason: string) =>
      logger.warn({ reason }, 'this is another database than before: order numbers and versions were advanced'),
  }
  const sizes = poolSizes(config)
  const open = (applicationName: string, size: number, kept = 0) =>
    createPool({ url: database.addresses.api, applicationName, onError, witness, size, kept })
  const pipeline = open('storefront-pipeline', sizes.pipeline)
  const leases = open('storefront-leases', 1, 1)
  const requests = open('storefront', sizes.general)
  const placing = open('storefront-orders', sizes.placing)
  return {
    ...{ pipeline, leases, requests, placing },
    onNumbered(number) {
      witness.orderNumber = Math.max(witness.orderNumber, number)
    },
    async close() {
      isClosing = true
      await Promise.all([pipeline, leases, requests, placing].map((pool) => pool.end()))
      await database.close()
    },
  }
}

/** Waits for the database. Migrates an embedded one. */
async function prepare({ config, connections, logger, signal }: AppOptions, { addresses }: OpenDatabase, pool: Pool): Promise<void> {
  const isEmbedded = config.databaseAddresses === null
  if (isEmbedded) await prepareDatabase(addresses, logger)
  else
    await onceAvailable({ logger, signal }, async () => {
      if (config.roles.includes('stream')) await assertServer(pool)
      await assertMigrated(pool)
      await assertReachable(addresses, ['api', 'stream', 'owner'])
    })
  await warnOfSuperuser(pool, logger)
  await ensureIncarnationAtStart(config, { pool, url: addresses.api, logger })
  if (!isEmbedded) return warnAboutServer(pool, { config, connections, logger })
  const folder = dataFolder(config.dataDir)
  if (!firstStart.isIn(folder)) return
  if (await loadSampleCatalogue(pool, config.baseUrl))
    logger.info(`loaded the sample catalogue, whose pictures keep the BASE_URL of this start: ${config.baseUrl}`)
  firstStart.end(folder)
}

async function createOperations(
  { config, pool, metrics, logger }: StoreParts,
  address: NonNullable<Config['operations']>,
  check: ReadinessCheck,
  text: Metrics['text'],
): Promise<{ server: OperationsServer; services: Service[] }> {
  const database = await readDatabaseId(pool)
  const { contentType } = metrics
  const isOwn = (host: string | undefined) => isOwnHost(host, config)
  const server = new OperationsServer({ ...address, metrics: { contentType, text }, check, logger, database, isOwnHost: isOwn })
  metrics.collectProcess()
  return { server, services: [explainListenErrors(server, address, 'OPS_')] }
}

async function warnOfSuperuser(pool: Pool, logger: Logger): Promise<void> {
  const { rows } = await pool.query<{ role: string }>('select rolname as role from pg_roles where rolname = current_user and rolsuper')
  const [superuser] = rows
  if (superuser !== undefined)
    logger.warn(
      superuser,
      "the API's role in the database is a superuser: an intruder could do anything there; see docs/operate/database.md",
    )
}

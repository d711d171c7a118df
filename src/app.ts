import type { Logger } from 'pino'
import { createApiRole } from './app/create-api.ts'
import { createStreams } from './app/create-streams.ts'
import { createSubscribers } from './app/create-subscribers.ts'
import { ensureIncarnationAtStart } from './app/ensure-incarnation.ts'
import { explainListenErrors } from './app/explain-listen-errors.ts'
import { poolSizes } from './app/pool-sizes.ts'
import { prepareDatabase } from './app/prepare-database.ts'
import { checkEveryRole, readinessCheck, shareChecks } from './app/readiness.ts'
import { inOrder, type Service } from './app/service.ts'
import { createParts, type StoreParts } from './app/store-parts.ts'
import { warnAboutServer, warnAboutSettings } from './app/warn-about-settings.ts'
import { watchStore } from './app/watch-store.ts'
import type { HashCost } from './auth/passwords/password.ts'
import { loadSampleCatalogue } from './catalogue/import/sample-catalogue.ts'
import type { Config } from './config.ts'
import type { RunCommand } from './console/audit-runner.ts'
import { assertReachable, assertServer, onceAvailable } from './db/assert-suitable.ts'
import { readDatabaseId } from './db/database-id.ts'
import { dataFolder, firstStart } from './db/embedded/data-folder.ts'
import { assertMigrated } from './db/migrate.ts'
import { type OpenDatabase, openOwnDatabase } from './db/open-database.ts'
import { createPool, type Pool } from './db/pool.ts'
import type { ReadinessCheck } from './http/health.ts'
import { isOwnHost } from './http/host.ts'
import type { HttpServer } from './http/http-server.ts'
import { OperationsServer } from './operations/operations-server.ts'

export interface App {
  /** The HTTP API, null in a process without that role. */
  readonly server: HttpServer | null
  /** Port of metrics and health; null for none. */
  readonly operationsPort: number | null
  /** Returns when every role has started and the API listens. */
  start(): Promise<void>
  /** Drains requests, stops the stream at a confirmed position, then the rest. Idempotent. */
  stop(): Promise<void>
}

export interface AppOptions {
  config: Config
  logger: Logger
  now?: () => Date
  /** An open database, which the store closes; by default the store opens it. */
  database?: OpenDatabase
  /** The cost of hashes of passwords; the store's own by default. */
  hashCost?: HashCost | undefined
  /** Runs commands for the console; without it the console refuses to. */
  runCommand?: RunCommand
  /** Runs further processes of the API, one for each config, that share its port; without it there are none. */
  createWorkers?: (configs: readonly Config[]) => Service
  /** Ends the wait for a database that is unavailable. */
  signal?: AbortSignal
}

/** Composes a store from its configuration, with the embedded database and its schema. Starts no role yet. */
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
    const canWork = shareChecks(readinessCheck(pool, streams, database))
    const check: ReadinessCheck = async () => (isStopping ? [{ name: 'process', reason: 'the process is stopping' }] : canWork())
    const { subscriptions } = subscribers.running
    const api = config.roles.includes('api')
      ? await createApiRole(parts, {
          requestPool,
          placingPool,
          subscriptions,
          check,
          onNumbered: pools.onNumbered,
          hashCost,
          runCommand,
          createWorkers,
        })
      : null
    const checkAll = checkEveryRole(check, subscribers.running, secretWatch)
    const operations = config.operations === null ? null : await createOperations(parts, config.operations, checkAll)

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
  /** Serves the pipeline, housekeeping and the readiness check, which never wait behind requests. */
  pipeline: Pool
  /** Serves heartbeats of deliveries. */
  leases: Pool
  requests: Pool
  /** Orders never wait for a connection behind other requests, such as cancellations that wait for a locked row. */
  placing: Pool
  /** Takes the greatest order number of each batch that was committed. */
  onNumbered: (number: number) => void
  /** Closes the database, too. */
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

/** Waits for the database and checks that this process can work with it; an embedded one is brought up to date. */
async function prepare({ config, logger, signal }: AppOptions, { addresses }: OpenDatabase, pool: Pool): Promise<void> {
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
  if (!isEmbedded) return warnAboutServer(pool, config, logger)
  const folder = dataFolder(config.dataDir)
  if (!firstStart.isIn(folder)) return
  if (await loadSampleCatalogue(pool, config.baseUrl))
    logger.info(`loaded the sample catalogue, whose pictures keep the BASE_URL of this start: ${config.baseUrl}`)
  firstStart.end(folder)
}

/** The operations port: metrics and health of this process. */
async function createOperations(
  { config, pool, metrics, logger }: StoreParts,
  address: NonNullable<Config['operations']>,
  check: ReadinessCheck,
): Promise<{ server: OperationsServer; services: Service[] }> {
  const database = await readDatabaseId(pool)
  const server = new OperationsServer({ ...address, metrics, check, logger, database, isOwnHost: (host) => isOwnHost(host, config) })
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

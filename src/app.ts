import type { Logger } from 'pino'
import { authOptions, createApi, createCatalogue } from './app/create-api.ts'
import { createConsoleParts } from './app/create-console.ts'
import { createListener, workerConfigs } from './app/create-listener.ts'
import { createStreams } from './app/create-streams.ts'
import { createEmail, createLake, createWebhook, type Watched } from './app/create-subscribers.ts'
import { createPartition, createTopic } from './app/create-topic.ts'
import { ensureIncarnationAtStart } from './app/ensure-incarnation.ts'
import { explainListenErrors } from './app/explain-listen-errors.ts'
import { createFigures } from './app/figures.ts'
import { createHousekeeping, erasureOf } from './app/housekeeping.ts'
import { openMailTemplates } from './app/mail-templates.ts'
import { openSuitableLake } from './app/open-lake.ts'
import { poolSizes } from './app/pool-sizes.ts'
import { prepareDatabase } from './app/prepare-database.ts'
import { checkEveryRole, readinessCheck, shareChecks } from './app/readiness.ts'
import { openSecret, watchSecret } from './app/secrets.ts'
import { inOrder, type Service } from './app/service.ts'
import { warnAboutServer, warnAboutSettings } from './app/warn-about-settings.ts'
import { watchStore } from './app/watch-store.ts'
import { createAuth } from './auth/auth.ts'
import { createEncryption } from './auth/store-secret.ts'
import { claimIssuer } from './auth/tokens/issuer.ts'
import { loadSigningKeys } from './auth/tokens/signing-keys.ts'
import { createEventBackfill } from './catalogue/backfill-events.ts'
import { createCategoryRenaming } from './catalogue/categories/rename-products.ts'
import { loadSampleCatalogue } from './catalogue/import/sample-catalogue.ts'
import { saveStockEventPercent } from './catalogue/product-events.ts'
import { createCataloguePurge } from './catalogue/purge/purge-catalogue.ts'
import { createPurgers } from './catalogue/purge/purger.ts'
import type { Config } from './config.ts'
import type { RunCommand } from './console/run-command.ts'
import { assertReachable, assertServer, onceAvailable } from './db/assert-suitable.ts'
import { readDatabaseId } from './db/database-id.ts'
import { dataFolder, firstStart } from './db/embedded/data-folder.ts'
import { FreshCopies } from './db/fresh-copies.ts'
import { assertMigrated } from './db/migrate.ts'
import { type OpenDatabase, openOwnDatabase } from './db/open-database.ts'
import { connectClient, createPool, type Pool } from './db/pool.ts'
import type { ReadinessCheck } from './http/health.ts'
import { isOwnHost } from './http/host.ts'
import type { HttpServer } from './http/http-server.ts'
import { createJobQueue } from './jobs/job-queue.ts'
import { queueAccountMail } from './mail/account-mail.ts'
import { Metrics } from './operations/metrics.ts'
import { OperationsServer } from './operations/operations-server.ts'
import { deleteKeysOf, eraseAddressesOf } from './orders/erase-addresses.ts'
import { DeliveryLog } from './topic/delivery-log.ts'
import { CATALOGUE } from './topic/partitions.ts'

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
  /** Runs commands for the console; without it the console refuses to. */
  runCommand?: RunCommand
  /** Runs further processes of the API, one for each config, that share its port; without it there are none. */
  createWorkers?: (configs: readonly Config[]) => Service
  /** Ends the wait for a database that is unavailable. */
  signal?: AbortSignal
}

/** Composes a store from its configuration, with the embedded database and its schema. Starts no role yet. */
export async function createApp(options: AppOptions): Promise<App> {
  const { config, logger, now = () => new Date(), runCommand, createWorkers, signal, ...given } = options
  warnAboutSettings(config, logger)
  const isEmbedded = config.databaseAddresses === null
  const database = given.database ?? (await openOwnDatabase(config))
  let isClosing = false
  const onError = (error: Error) => {
    // The embedded server may end connections of pools that are closing.
    if (!isClosing) logger.warn({ reason: error.message }, 'an idle database connection broke')
  }
  const { addresses } = database
  const url = addresses.api
  const witness = {
    orderNumber: 0,
    onIncarnation: (reason: string) =>
      logger.warn({ reason }, 'this is another database than before: order numbers and versions were advanced'),
  }
  const hasApi = config.roles.includes('api')
  const sizes = poolSizes(config)
  // Roles of the pipeline, housekeeping and the readiness check never wait behind requests.
  const pool = createPool({ url, applicationName: 'storefront-pipeline', onError, witness, size: sizes.pipeline })
  const requestPool = createPool({ url, applicationName: 'storefront', onError, witness, size: sizes.general })
  // Orders never wait for a connection behind other requests, such as cancellations that wait for a locked row.
  const placingPool = createPool({ url, applicationName: 'storefront-orders', onError, witness, size: sizes.placing })
  const close = async () => {
    isClosing = true
    await Promise.all([pool.end(), requestPool.end(), placingPool.end()])
    await database.close()
  }
  try {
    if (isEmbedded) await prepareDatabase(addresses, logger)
    else
      await onceAvailable({ logger, signal }, async () => {
        if (config.roles.includes('stream')) await assertServer(pool)
        await assertMigrated(pool)
        await assertReachable(addresses, ['api', 'stream', 'owner'])
      })
    await warnOfSuperuser(pool, logger)
    await ensureIncarnationAtStart(config, { pool, url, logger })
    if (!isEmbedded) await warnAboutServer(pool, config, logger)
    const folder = dataFolder(config.dataDir)
    if (isEmbedded && firstStart.isIn(folder)) {
      if (await loadSampleCatalogue(pool)) logger.info('loaded the sample catalogue')
      firstStart.end(folder)
    }

    if (hasApi && config.isRateLimited && !config.isNetworkLimited)
      logger.info('only this machine can reach the store, so limits by network do not apply; RATE_LIMITS=on sets them')
    if (hasApi) await saveStockEventPercent(pool, config.stockEventPercent)
    const hasPipeline = config.roles.some((role) => role !== 'api')
    const hasEmail = config.roles.includes('email')
    const hasWebhook = config.roles.includes('webhook')
    // Other roles encrypt nothing and run with any secret.
    const secret = hasApi || hasEmail || hasWebhook ? await openSecret(pool, url, config) : ''
    const connectForCopies = (signal: AbortSignal) => connectClient(url, 'storefront-copies', signal)
    const copies = new FreshCopies({ pool: hasApi ? requestPool : pool, connect: connectForCopies, logger })
    const secretWatch = secret === '' ? null : watchSecret({ copies, secret, logger })
    // OpenTelemetry is loaded only when traces are on.
    const tracing = config.traces && (await import('./operations/open-telemetry.ts')).createTracing(config.traces, logger)
    const metrics = new Metrics(logger)
    metrics.watchPools({ pipeline: pool, ...(hasApi ? { general: requestPool, placing: placingPool } : {}) })
    watchStore(metrics, config, pool, url)
    const deliveryLog = new DeliveryLog({ pool, logger })
    const topic = await createTopic(config, { pool, url, logger, isReadOnly: !hasPipeline, onStored: deliveryLog.published })
    const catalogueTopic = await createPartition(CATALOGUE, config, { pool, url, logger, isReadOnly: !hasPipeline })
    const streams = config.roles.includes('stream')
      ? createStreams(config, { pool, addresses, topic, catalogueTopic, logger, metrics, tracing })
      : null
    const watched: Watched = { metrics, subscriptions: new Map(), mailServer: null, lake: null }
    let isStopping = false
    const canWork = shareChecks(readinessCheck(pool, streams, database))
    const check: ReadinessCheck = async () => (isStopping ? [{ name: 'process', reason: 'the process is stopping' }] : canWork())
    if (secretWatch !== null) metrics.watchSecret(secretWatch)
    const checkAll = checkEveryRole(check, watched, hasEmail || hasWebhook ? secretWatch : null)
    const operations =
      config.operations === null
        ? null
        : new OperationsServer({
            ...config.operations,
            ...{ metrics, check: checkAll, logger, database: await readDatabaseId(pool) },
            isOwnHost: (host) => isOwnHost(host, config),
          })
    if (operations !== null) metrics.collectProcess()
    const services: Service[] =
      operations === null || config.operations === null
        ? [deliveryLog]
        : [explainListenErrors(operations, config.operations, 'OPS_'), deliveryLog]
    // Stops last.
    if (tracing !== null) services.unshift({ start: async () => {}, stop: () => tracing.stop() })
    services.push(copies)
    const encryption = createEncryption(secret, 'account mail')
    const purgers = streams === null ? [] : createPurgers(config.cdnPurgeUrls)
    const hasJobs = hasEmail || hasWebhook || purgers.length > 0
    const jobs = createJobQueue({ url, logger, supervise: hasJobs, runsScheduler: hasApi })
    if (hasApi || hasJobs) services.push(jobs)
    // An API alone opens it at the first look: for the figures, or for an operator.
    for (const each of [topic, catalogueTopic]) services.push(hasPipeline ? each : { start: async () => {}, stop: () => each.stop() })
    if (config.roles.includes('lake'))
      services.push(
        createLake(config, {
          pool,
          store: await openSuitableLake(config, logger),
          topic,
          catalogueTopic,
          deliveryLog,
          logger,
          watched,
          tracing,
        }),
      )
    const mailTemplates = hasApi || hasEmail ? openMailTemplates(config, logger) : null
    if (hasEmail && mailTemplates !== null)
      services.push(await createEmail(config, { pool, topic, jobs, templates: mailTemplates, encryption, logger, now, watched, tracing }))
    if (hasWebhook)
      services.push(
        createWebhook(config, {
          pool,
          topic,
          catalogueTopic,
          jobs,
          encryption: createEncryption(secret, 'webhook secret'),
          logger,
          now,
          watched,
          tracing,
        }),
      )
    if (streams !== null) {
      services.push(createEventBackfill({ pool, logger }))
      const connect = (signal: AbortSignal) => connectClient(url, 'storefront-purge', signal)
      services.push(streams.check, streams.orders, streams.catalogue, createCataloguePurge({ pool, connect, jobs, purgers, logger }))
      services.push(createCategoryRenaming({ pool, logger }))
    }
    if (hasApi) services.push(createFigures({ pool, logger }))
    let server: HttpServer | null = null
    if (hasApi) {
      const auth = createAuth({
        ...authOptions(config, requestPool, logger, now),
        issuer: await claimIssuer(pool, { ...config, isAlone: isEmbedded }, logger),
        keys: await loadSigningKeys(pool, secret),
        secret,
        copies,
        sendAccountMail: (tx, mail) => queueAccountMail(tx, jobs, encryption, mail),
        onAccountDeleted: async (tx, userId, guestIds) => {
          await eraseAddressesOf(tx, userId, erasureOf(config), now())
          await deleteKeysOf(tx, guestIds)
        },
      })
      const catalogue = createCatalogue(config, requestPool, logger, copies)
      const { subscriptions } = watched
      const consoleParts = createConsoleParts(config, { pool: requestPool, url, topic, subscriptions, runCommand, logger })
      server = await createApi({
        ...{ config, pool: requestPool, placingPool, auth, catalogue, jobs },
        ...{ mailTemplates, consoleParts, logger, now, check, metrics, tracing },
        onNumbered(number) {
          witness.orderNumber = Math.max(witness.orderNumber, number)
        },
      })
      const workersAt =
        createWorkers === undefined ? null : (port: number) => createWorkers(workerConfigs({ ...config, port }, { addresses, secret }))
      const housekeeping = createHousekeeping(config, { pool, jobs, logger, now })
      services.push(
        auth,
        housekeeping,
        consoleParts.pipeline,
        consoleParts.audits,
        explainListenErrors(createListener(server, config, logger, workersAt), config),
      )
    }
    const all = inOrder(services, close)
    return {
      server,
      get operationsPort() {
        return operations?.port ?? null
      },
      async start() {
        await all.start()
        if (operations !== null) operations.phase = 'started'
      },
      async stop() {
        isStopping = true
        if (operations !== null) operations.phase = 'stopping'
        await all.stop()
      },
    }
  } catch (error) {
    await close()
    throw error
  }
}

async function warnOfSuperuser(pool: Pool, logger: Logger): Promise<void> {
  const { rows } = await pool.query<{ role: string }>('select rolname as role from pg_roles where rolname = current_user and rolsuper')
  const [superuser] = rows
  if (superuser !== undefined)
    logger.warn(superuser, "the API's role in the database is a superuser: an intruder could do anything there; see docs/operations.md")
}

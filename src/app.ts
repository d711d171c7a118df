import { availableParallelism } from 'node:os'
import type pg from 'pg'
import type { Logger } from 'pino'
import { type Auth, createAuth } from './auth/auth.ts'
import { canonicalEmail } from './auth/email-address.ts'
import { authRoutes } from './auth/routes.ts'
import { createSealing } from './auth/sealed.ts'
import { loadSigningKeys, type SigningKeys } from './auth/signing-keys.ts'
import { findUserByEmail } from './auth/users.ts'
import { catalogueAdminRoutes } from './catalogue/admin-routes.ts'
import { CatalogueVersion } from './catalogue/catalogue-version.ts'
import { PageCache } from './catalogue/page-cache.ts'
import { catalogueRoutes } from './catalogue/routes.ts'
import { loadSampleCatalogue } from './catalogue/sample-catalogue.ts'
import { type CatalogueContext, catalogueShortcut } from './catalogue/serve-catalogue.ts'
import type { Config } from './config.ts'
import { dataFolder, keepSecret } from './db/data-folder.ts'
import { assertMigrated, migrate } from './db/migrate.ts'
import { openOwnDatabase } from './db/open-database.ts'
import { connectClient, createPool, type Pool } from './db/pool.ts'
import { healthRoutes, type ReadinessCheck } from './http/health.ts'
import { createHttpServer, type HttpServer, openApiRoute, requestId } from './http/server.ts'
import { addShortcut } from './http/shortcut.ts'
import { adminOrderRoutes } from './orders/admin-routes.ts'
import { CONNECTIONS_FOR_PLACING } from './orders/checkout.ts'
import { expireOrders } from './orders/expire-orders.ts'
import { deleteExpiredKeys } from './orders/idempotency.ts'
import { orderRoutes } from './orders/routes.ts'
import { createCataloguePurge, PURGE_QUEUE } from './pipeline/cdn/purge-catalogue.ts'
import { createPurgers } from './pipeline/cdn/purger.ts'
import type { ChangeStream } from './pipeline/change-stream.ts'
import { DeliveryLog, findDeliveries } from './pipeline/delivery-log.ts'
import { ACCOUNT_MAIL_QUEUE, createAccountMailWorker, queueAccountMail } from './pipeline/email/account-mail.ts'
import { createEmailSubscriber, EMAIL_QUEUE } from './pipeline/email/email-subscriber.ts'
import { createFileMailer } from './pipeline/email/file-mailer.ts'
import { createMailRenderer } from './pipeline/email/render-mail.ts'
import { createSmtpMailer } from './pipeline/email/smtp-mailer.ts'
import { createTemplateReader } from './pipeline/email/templates.ts'
import { createJobQueue, installJobQueues, type JobQueue, type QueueDefinition } from './pipeline/job-queue.ts'
import type { LakeStore } from './pipeline/lake/lake-store.ts'
import { createLake, openLakeStore } from './pipeline/lake/open-lake.ts'
import { createNatsTopic } from './pipeline/nats-topic.ts'
import { createOrderStreamHandler } from './pipeline/order-stream-handler.ts'
import { createPostgresTopic } from './pipeline/postgres-topic.ts'
import { ensureReplicationSlot, findLostReason, slotNameFor } from './pipeline/replication-slot.ts'
import type { Sealing } from './pipeline/sealing.ts'
import type { Topic } from './pipeline/topic.ts'
import { createWebhookSender } from './pipeline/webhook/webhook-sender.ts'
import { createWebhookSubscriber, WEBHOOK_QUEUE } from './pipeline/webhook/webhook-subscriber.ts'

/** Something that runs until it is stopped. `stop` is idempotent and waits for work in hand. */
interface Service {
  start(): Promise<void>
  stop(): Promise<void>
}

export interface App {
  /** The HTTP API, null in a process without that role. */
  readonly server: HttpServer | null
  /** Returns when every role works and the API listens. */
  start(): Promise<void>
  /** Drains requests, stops the stream at a confirmed position, then the rest. Idempotent. */
  stop(): Promise<void>
}

export interface AppOptions {
  config: Config
  logger: Logger
  now?: () => Date
  /** Called when the store can no longer run, such as when its PostgreSQL died. */
  onFatal?: (message: string) => void
}

const HOUSEKEEPING_QUEUE: QueueDefinition = {
  name: 'order-housekeeping',
  retryDelaySeconds: 60,
  retryDelayMaxSeconds: 60,
  keepSeconds: 3_600,
}
/** The queues of a store. */
export const JOB_QUEUES = [EMAIL_QUEUE, ACCOUNT_MAIL_QUEUE, WEBHOOK_QUEUE, PURGE_QUEUE, HOUSEKEEPING_QUEUE]
// All that placing reads it finds by index, however many rows there are: no batch needs a plan of its own, and none that was made while
// a table was small may read it whole.
const PLACING_SET_UP = 'set plan_cache_mode = force_generic_plan; set enable_seqscan = off'
const EVERY_MINUTE = '* * * * *'
const DRAIN_MS = 5_000
const BROWSER_CACHE_SECONDS = 15
const MAX_WAITING_HASHES = 200
// One core for everything else, which a low priority alone does not secure; see docs/decisions/0012.
const hashingThreads = () => Math.max(1, availableParallelism() - 1)
/** Puts a store together from its configuration, the embedded database and its schema included, and starts nothing yet. */
export async function createApp({ config, logger, now = () => new Date(), onFatal }: AppOptions): Promise<App> {
  const isEmbedded = config.databaseUrl === null
  const database = await openOwnDatabase({ ...config, ...(onFatal === undefined ? {} : { onUnexpectedExit: onFatal }) })
  const onError = (error: Error) => logger.warn({ reason: error.message }, 'an idle database connection broke')
  const shared = { url: database.url, applicationName: 'storefront', onError }
  const placingPoolSize = Math.min(CONNECTIONS_FOR_PLACING, Math.floor(config.databasePoolSize / 2))
  const pool = createPool({ ...shared, size: config.databasePoolSize - placingPoolSize })
  // Placing has its own, which is pipelined; an import's COPY does not go with that.
  const placingPool = createPool({ ...shared, size: placingPoolSize, isPipelined: true, setUp: PLACING_SET_UP })
  const close = async () => {
    await Promise.all([pool.end(), placingPool.end()])
    await database.close()
  }
  try {
    if (isEmbedded) await prepareDatabase(database.url, pool, logger)
    else await assertMigrated(pool)
    if (isEmbedded && (await loadSampleCatalogue(pool))) logger.info('loaded the sample catalogue')

    const topic = createTopic(config, { pool, url: database.url, logger })
    const deliveryLog = new DeliveryLog({ pool, logger })
    const stream = config.roles.includes('stream') ? createStream(pool, database.url, topic, deliveryLog, logger) : null
    const services: Service[] = [deliveryLog]
    const hasApi = config.roles.includes('api')
    const hasEmail = config.roles.includes('email')
    const secret = config.secret ?? keepSecret(dataFolder(config.dataDir), 'secret')
    const hasWebhook = config.roles.includes('webhook')
    const sealing = createSealing(secret, 'account mail')
    const purgers = stream === null ? [] : createPurgers(config.cdnPurgeUrls)
    const hasJobs = hasEmail || hasWebhook || purgers.length > 0
    const jobs = createJobQueue({ url: database.url, logger, supervise: hasJobs, keepsTime: hasApi })
    if (hasApi || hasJobs) services.push(jobs)
    if (config.roles.some((role) => role !== 'api')) services.push(topic)
    if (config.roles.includes('lake')) services.push(await createLakeSubscriber(config, topic, deliveryLog, logger))
    if (hasEmail) services.push(createEmail(config, { pool, topic, jobs, sealing, logger, now }))
    if (hasWebhook) services.push(createWebhook(config, { pool, topic, jobs, sealing: createWebhookSealing(secret), logger, now }))
    if (stream !== null) {
      const connect = () => connectClient(database.url, 'storefront-purge')
      services.push(stream, createCataloguePurge({ pool, connect, jobs, purgers, logger }))
    }
    let server: HttpServer | null = null
    if (hasApi) {
      const auth = createAuth({
        ...authOptions(config, pool, logger, now),
        keys: await loadSigningKeys(pool, secret),
        secret,
        connect: () => connectClient(database.url, 'storefront-sessions'),
        sendAccountMail: (tx, mail) => queueAccountMail(tx, jobs, sealing, mail),
      })
      const catalogue = createCatalogue(config, pool, logger, () => connectClient(database.url, 'storefront-catalogue'))
      const check = readinessCheck(pool, stream, database.url)
      server = await createApi({ config, pool, placingPool, auth, catalogue, logger, now, check })
      const housekeeping = createHousekeeping(config, { pool, jobs, logger, now })
      services.push(auth, catalogue.version, housekeeping, listening(server, config, logger))
    }
    return { server, ...inOrder(services, close) }
  } catch (error) {
    await close()
    throw error
  }
}

/** The notification topic that the settings name. Not started: it works without, only later. */
export function createTopic({ nats }: Config, options: { pool: Pool; url: string; logger: Logger }): Topic {
  return nats === null ? createPostgresTopic(options) : createNatsTopic({ ...options, nats, replicas: nats.replicas })
}

/** The files of the data lake that the settings name. */
export function openLake({ lakeBucket: bucket, dataDir }: Config): Promise<LakeStore> {
  return openLakeStore({ bucket, directory: dataFolder(dataDir).lake, dataDir })
}

/** Brings schema, replication slot and job queue up to date. Several processes may do it at once. */
export async function prepareDatabase(url: string, pool: Pool, logger: Logger): Promise<void> {
  const applied = await migrate(url)
  if (applied.length > 0) logger.info({ applied }, 'migrated the database')
  const slot = await ensureReplicationSlot(pool, orderSlotOf(url))
  if (slot === 'lost') logger.error('the replication slot of the order stream is gone: order changes since then are not published')
  await installJobQueues({ url, logger, queues: JOB_QUEUES })
}

function authOptions(config: Config, pool: Pool, logger: Logger, now: () => Date) {
  return {
    pool,
    issuer: config.baseUrl,
    hashing: { threads: hashingThreads(), maxWaiting: MAX_WAITING_HASHES },
    refreshGraceSeconds: config.refreshGraceSeconds,
    isVerificationRequired: config.isEmailVerificationRequired,
    isThrottled: config.isRateLimited,
    logger,
    now,
  }
}

/** The HTTP API on keys and a database that are never used, for its OpenAPI document. */
export async function createApiForDocument(config: Config, pool: Pool, keys: SigningKeys, logger: Logger): Promise<HttpServer> {
  const now = () => new Date()
  const unused = () => Promise.reject(new Error('there is no database'))
  const auth = createAuth({ ...authOptions(config, pool, logger, now), keys, secret: '', connect: unused, sendAccountMail: unused })
  const catalogue = createCatalogue(config, pool, logger, unused)
  return createApi({ config, pool, placingPool: pool, auth, catalogue, logger, now, check: async () => [] })
}

interface ApiOptions {
  config: Config
  pool: Pool
  placingPool: Pool
  auth: Auth
  catalogue: CatalogueContext
  logger: Logger
  now: () => Date
  check: ReadinessCheck
}

/** The HTTP API with every route. Touches the database only when it is asked something. */
async function createApi({ config, pool, placingPool, auth, catalogue, logger, now, check }: ApiOptions): Promise<HttpServer> {
  const { baseUrl, basePath, trustProxy } = config
  const server = await createHttpServer({ logger, baseUrl, trustProxy })
  addShortcut(server, catalogueShortcut(catalogue), { logger, requestIdOf: requestId })
  const { authenticate } = auth
  await server.register(
    async (scope) => {
      authRoutes(scope, auth.context, authenticate)
      catalogueRoutes(scope, catalogue)
      catalogueAdminRoutes(scope, { context: catalogue, authenticate, currency: config.currency })
      const orders = { pool, authenticate, baseUrl, now, findDeliveries: (orderId: string) => findDeliveries(pool, orderId) }
      orderRoutes(scope, { ...orders, placingPool, maxQuantityPerProductAndUser: config.maxQuantityPerProductAndUser })
      adminOrderRoutes(scope, { ...orders, findUserId: async (email) => (await findUserByEmail(pool, canonicalEmail(email)))?.id ?? null })
      healthRoutes(scope, check)
      openApiRoute(scope)
    },
    { prefix: basePath },
  )
  return server
}

function createCatalogue(config: Config, pool: Pool, logger: Logger, connect: () => Promise<pg.Client>): CatalogueContext {
  return {
    pool,
    baseUrl: config.baseUrl,
    version: new CatalogueVersion({ pool, connect, logger }),
    pages: new PageCache(config.pageCacheBytes),
    lifetimes: { browserSeconds: BROWSER_CACHE_SECONDS, sharedSeconds: config.sharedCacheSeconds },
  }
}

function createStream(pool: Pool, url: string, topic: Topic, deliveryLog: DeliveryLog, logger: Logger): ChangeStream {
  const onPublished = deliveryLog.published
  return createOrderStreamHandler({ url, pool, slotName: orderSlotOf(url), topic, logger, onPublished })
}

async function createLakeSubscriber(config: Config, topic: Topic, deliveryLog: DeliveryLog, logger: Logger): Promise<Service> {
  const { lakeFlushSeconds: flushSeconds, lakeFlushRows: flushRows } = config
  return createLake({ store: await openLake(config), topic, deliveryLog, flushSeconds, flushRows, logger })
}

/** Of orders, by scheduled jobs: in the processes of the API, which know the orders' settings and of which there is always one. */
function createHousekeeping(config: Config, { pool, jobs, logger, now }: Pick<JobsOptions, 'pool' | 'jobs' | 'logger' | 'now'>): Service {
  const { pendingOrderTtlSeconds } = config
  return {
    async start() {
      await jobs.schedule(HOUSEKEEPING_QUEUE.name, EVERY_MINUTE, async () => {
        const deletedKeys = await deleteExpiredKeys(pool)
        const cancelledOrders = pendingOrderTtlSeconds === null ? 0 : await expireOrders(pool, pendingOrderTtlSeconds, now())
        if (deletedKeys + cancelledOrders > 0) logger.info({ deletedKeys, cancelledOrders }, 'tidied up after orders')
      })
    },
    // The job queue stops its workers.
    async stop() {},
  }
}

interface JobsOptions {
  pool: Pool
  topic: Topic
  jobs: JobQueue
  sealing: Sealing
  logger: Logger
  now: () => Date
}

function createEmail(config: Config, { pool, topic, jobs, sealing, logger, now }: JobsOptions): Service {
  const { mailFrom: from, accountUrl } = config
  const mailer =
    config.smtpUrl === null
      ? createFileMailer({ directory: dataFolder(config.dataDir).mail, from })
      : createSmtpMailer({ url: config.smtpUrl, from })
  const readTemplate = createTemplateReader(config.mailTemplates)
  const render = createMailRenderer(readTemplate, config.mailLocale)
  const subscriber = createEmailSubscriber({ pool, jobs, mailer, render, logger, now, maxPerHour: config.mailMaxPerHour })
  const accountMails = createAccountMailWorker({ jobs, mailer, sealing, accountUrl, readTemplate, logger, now })
  const subscription = topic.subscribe('email', subscriber.handle)
  // Last in, first out: the subscriber closes the mailer.
  return inOrder([subscriber, accountMails, subscription])
}

/** Seals the secrets that webhooks are signed with. */
export function createWebhookSealing(secret: string): Sealing {
  return createSealing(secret, 'webhook secret')
}

function createWebhook(config: Config, { pool, topic, jobs, sealing, logger, now }: JobsOptions): Service {
  const sender = createWebhookSender({ isPrivateAllowed: config.isPrivateWebhookAllowed })
  const subscriber = createWebhookSubscriber({ pool, jobs, sender, sealing, logger, now })
  return inOrder([subscriber, topic.subscribe('webhook', subscriber.handle)])
}

function listening(server: HttpServer, config: Config, logger: Logger): Service {
  return {
    async start() {
      await server.listen({ host: config.host, port: config.port })
      logger.info({ addresses: server.addresses() }, `Storefront answers at ${config.baseUrl}`)
    },
    async stop() {
      const impatience = setTimeout(() => server.server.closeAllConnections(), DRAIN_MS)
      await server.close()
      clearTimeout(impatience)
    },
  }
}

function readinessCheck(pool: Pool, stream: ChangeStream | null, url: string): ReadinessCheck {
  return async () => {
    try {
      const lost = stream === null ? null : await findLostReason(pool, orderSlotOf(url))
      if (lost !== null) return [{ name: 'change_stream', reason: lost }]
      if (stream === null) await pool.query('select 1')
    } catch {
      return [{ name: 'database', reason: 'the database does not answer' }]
    }
    return stream?.state === 'failing' ? [{ name: 'change_stream', reason: 'the change stream cannot be read or published' }] : []
  }
}

/** Services that start one after the other and stop in the opposite order; `afterwards` runs once, when all have stopped. */
function inOrder(services: readonly Service[], afterwards: () => Promise<void> = async () => {}): Service {
  let stopped: Promise<void> | null = null
  return {
    async start() {
      for (const service of services) await service.start()
    },
    stop() {
      stopped ??= (async () => {
        for (const service of services.toReversed()) await service.stop()
        await afterwards()
      })()
      return stopped
    },
  }
}

/** The replication slot of the order stream of the database at this address. */
export function orderSlotOf(url: string): string {
  return slotNameFor(decodeURIComponent(new URL(url).pathname.slice(1)))
}

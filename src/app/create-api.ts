import { availableParallelism } from 'node:os'
import type { Logger } from 'pino'
import { activityRoutes } from '../activity/activity-routes.ts'
import type { AuditContext } from '../activity/record-activity.ts'
import { apiKeyRoutes } from '../auth/api-keys/routes.ts'
import { type Auth, createAuth } from '../auth/auth.ts'
import { canonicalEmail, parseEmail } from '../auth/email-address.ts'
import type { RelyingParty } from '../auth/factors/webauthn.ts'
import { oidcRoutes } from '../auth/oidc/routes.ts'
import { operatorRoutes } from '../auth/operators/operator-routes.ts'
import type { HashCost } from '../auth/passwords/password.ts'
import { authRoutes } from '../auth/routes.ts'
import { createEncryption, type Encryption } from '../auth/store-secret.ts'
import { claimIssuer } from '../auth/tokens/issuer.ts'
import { loadSigningKeys, type SigningKeys } from '../auth/tokens/signing-keys.ts'
import { findUserIdsByEmail } from '../auth/users.ts'
import { catalogueAdminRoutes } from '../catalogue/admin-routes.ts'
import { CatalogueVersion } from '../catalogue/catalogue-version.ts'
import { categoryAdminRoutes } from '../catalogue/categories/admin-routes.ts'
import { categoryRoutes } from '../catalogue/categories/routes.ts'
import { feedRoutes } from '../catalogue/feeds/feed-routes.ts'
import { OpenFeeds } from '../catalogue/feeds/open-feeds.ts'
import { findProductIds } from '../catalogue/find-products.ts'
import { samplePictureRoutes } from '../catalogue/import/sample-pictures.ts'
import { CatalogueLanguages } from '../catalogue/languages.ts'
import { PageCache } from '../catalogue/page-cache.ts'
import { priceRoutes } from '../catalogue/price-routes.ts'
import { saveStockEventPercent } from '../catalogue/product-events.ts'
import { tagHeadersOf } from '../catalogue/purge/purger.ts'
import { catalogueRoutes } from '../catalogue/routes.ts'
import { type CatalogueContext, catalogueShortcut } from '../catalogue/serve-catalogue.ts'
import { stockRoutes } from '../catalogue/stock-routes.ts'
import type { Config } from '../config.ts'
import type { RunCommand } from '../console/audit-runner.ts'
import { mailEventRoutes } from '../console/mail-event-routes.ts'
import { type ConsoleParts, consoleRoutes } from '../console/routes.ts'
import { searchRoutes } from '../console/search-routes.ts'
import { ownDataRoutes } from '../customers/account-routes.ts'
import { customerRoutes } from '../customers/admin-routes.ts'
import { findPeople } from '../customers/find-people.ts'
import { createOrderLinks, type OrderLinks } from '../customers/order-link.ts'
import { orderLinkRoutes } from '../customers/order-link-routes.ts'
import { FreshCopies } from '../db/fresh-copies.ts'
import type { Pool } from '../db/pool.ts'
import { Admission } from '../http/admission.ts'
import { publicCorsHeaders } from '../http/cors.ts'
import { healthRoutes, type ReadinessCheck } from '../http/health.ts'
import type { HttpServer } from '../http/http-server.ts'
import { limitConnections } from '../http/limit-connections.ts'
import { problemPages } from '../http/problem-pages.ts'
import { referenceRoutes } from '../http/reference.ts'
import { RequestLog } from '../http/request-log.ts'
import { createHttpServer, openApiRoute, requestId } from '../http/server.ts'
import { addShortcut } from '../http/shortcut.ts'
import { Catalogue } from '../lake/iceberg/catalogue.ts'
import { queueAccountMail } from '../mail/account-mail.ts'
import { findReaderEmail, retryFailed } from '../mail/email-deliveries.ts'
import type { MailTemplates } from '../mail/mail-templates.ts'
import { sendAgain } from '../mail/send-again.ts'
import { mcpRoutes } from '../mcp/mcp-routes.ts'
import type { Metrics } from '../operations/metrics.ts'
import type { TracedPart, Tracing } from '../operations/tracing.ts'
import { adminOrderRoutes } from '../orders/admin-routes.ts'
import { deleteKeysOf, eraseAddressesOf } from '../orders/erase-addresses.ts'
import type { OrderEvent } from '../orders/events.ts'
import { cancellableUpTo } from '../orders/order-status.ts'
import { LockedRows } from '../orders/placing/locked-rows.ts'
import { createOrderBatcher, type OrderBatcher } from '../orders/placing/order-batcher.ts'
import { orderRoutes } from '../orders/routes.ts'
import type { OrderFinders } from '../orders/search-orders.ts'
import type { FindDeliveries } from '../orders/timeline.ts'
import { findDeliveries } from '../topic/delivery-log.ts'
import { createConsoleParts } from './create-console.ts'
import { createListener, workerConfigs } from './create-listener.ts'
import { createShedder } from './create-shedder.ts'
import { createSignIns } from './create-sign-ins.ts'
import type { RunningSubscribers } from './create-subscribers.ts'
import { createTopic } from './create-topic.ts'
import { explainListenErrors } from './explain-listen-errors.ts'
import { createFigures } from './figures.ts'
import { createHousekeeping, erasureOf } from './housekeeping.ts'
import { createLakeQueries, openLake } from './open-lake.ts'
import type { Service } from './service.ts'
import type { StoreParts } from './store-parts.ts'

const BROWSER_CACHE_SECONDS = 15
const MAX_WAITING_HASHES = 200
// Each has up to two batches in memory, mostly some 200 kB. See docs/decisions/catalogue-feeds.md.
const FEEDS = { maxOpen: 64, maxOfNetwork: 4, patienceMs: 60_000 }
// The hash threads leave one core for everything else, which a low priority alone does not ensure; see
// docs/decisions/auth-passwords.md#threads-of-low-priority.
const hashingThreads = (processes: number) => Math.max(1, Math.floor((availableParallelism() - 1) / processes))

interface ApiRoleOptions {
  requestPool: Pool
  placingPool: Pool
  subscriptions: RunningSubscribers['subscriptions']
  check: ReadinessCheck
  /** Called with the greatest order number of each batch that was committed. */
  onNumbered: (number: number) => void
  hashCost: HashCost | undefined
  runCommand: RunCommand | undefined
  createWorkers: ((configs: readonly Config[]) => Service) | undefined
}

/** The role `api`: the HTTP API, and what the store does by the clock. */
export async function createApiRole(parts: StoreParts, options: ApiRoleOptions): Promise<{ server: HttpServer; services: Service[] }> {
  const { config, pool, addresses, topic, sessions, copies, secret, mailEncryption, logger, now } = parts
  const { requestPool, placingPool, subscriptions, check, onNumbered, hashCost, runCommand, createWorkers } = options
  await saveStockEventPercent(pool, config.stockEventPercent)
  const auth = createAuth({
    ...authOptions(config, requestPool, logger, now, hashCost),
    issuer: await claimIssuer(pool, { ...config, isAlone: config.databaseAddresses === null }, logger),
    keys: await loadSigningKeys(pool, secret),
    secret,
    copies,
    sendAccountMail: (tx, mail) => queueAccountMail(tx, mailEncryption, mail),
    onAccountDeleted: async (tx, userId, guestIds) => {
      await eraseAddressesOf(tx, userId, erasureOf(config), now())
      await deleteKeysOf(tx, guestIds)
    },
  })
  const catalogue = createCatalogue(config, requestPool, logger, copies)
  const consoleParts = createConsoleParts(config, { pool: requestPool, url: addresses.api, topic, subscriptions, runCommand, logger })
  const server = await createApi({ ...parts, pool: requestPool, placingPool, auth, catalogue, consoleParts, check, onNumbered })
  const workersAt =
    createWorkers === undefined ? null : (port: number) => createWorkers(workerConfigs({ ...config, port }, { addresses, secret }))
  return {
    server,
    services: [
      createFigures({ pool, logger }),
      auth,
      createHousekeeping(config, { pool, sessions, logger, now }),
      consoleParts.pipeline,
      consoleParts.audits,
      explainListenErrors(createListener(server, config, logger, workersAt), config),
    ],
  }
}

/** The settings of accounts. */
function authOptions(config: Config, pool: Pool, logger: Logger, now: () => Date, cost?: HashCost) {
  return {
    pool,
    hashing: { threads: hashingThreads(config.webConcurrency), maxWaiting: MAX_WAITING_HASHES, cost },
    refreshGraceSeconds: config.refreshGraceSeconds,
    isVerificationRequired: config.isEmailVerificationRequired,
    isThrottled: config.isRateLimited,
    isByNetwork: config.isNetworkLimited,
    isAdminFactorRequired: config.isAdminFactorRequired,
    relyingParty: relyingPartyOf(config),
    logger,
    now,
  }
}

/** The passkeys of the store: its own pages and the shop's pages that CORS_ORIGINS lists by name may use them. */
function relyingPartyOf(config: Config): RelyingParty {
  return { id: config.passkeyDomain, name: config.passkeyDomain, origins: pageOriginsOf(config) }
}

function pageOriginsOf({ baseUrl, corsOrigins }: Config): string[] {
  return [new URL(baseUrl).origin, ...(corsOrigins === '*' ? [] : (corsOrigins ?? []))]
}

/** The HTTP API without a database, for its OpenAPI document. */
export async function createApiForDocument(config: Config, pool: Pool, keys: SigningKeys, logger: Logger): Promise<HttpServer> {
  const now = () => new Date()
  const unused = () => Promise.reject(new Error('there is no database'))
  const copies = new FreshCopies({ pool, connect: unused, logger })
  const auth = createAuth({
    ...authOptions(config, pool, logger, now),
    issuer: config.baseUrl,
    keys,
    secret: '',
    copies,
    sendAccountMail: unused,
    onAccountDeleted: unused,
  })
  const catalogue = createCatalogue(config, pool, logger, copies)
  const url = 'postgres://unused@localhost/unused'
  const consoleParts = createConsoleParts(config, {
    ...{ pool, url, logger, runCommand: undefined, subscriptions: new Map() },
    topic: await createTopic(config, { pool, url, logger }),
  })
  return createApi({
    config,
    pool,
    placingPool: pool,
    auth,
    catalogue,
    mailTemplates: null,
    webhookEncryption: createEncryption('', 'webhook secret'),
    orderLinks: createOrderLinks(''),
    secret: '',
    consoleParts,
    logger,
    now,
    check: async () => [],
  })
}

interface ApiOptions {
  config: Config
  pool: Pool
  placingPool: Pool
  auth: Auth
  catalogue: CatalogueContext
  /** Is null when this process cannot use them. */
  mailTemplates: MailTemplates | null
  /** Encrypts the secrets of webhooks. */
  webhookEncryption: Encryption
  orderLinks: OrderLinks
  /** Signs the hashes of previews. */
  secret: string
  consoleParts: ConsoleParts
  logger: Logger
  now: () => Date
  check: ReadinessCheck
  /** Called with the greatest order number of each batch that was committed. */
  onNumbered?: (number: number) => void
  metrics?: Metrics
  /** Is null when traces are off. */
  tracing?: Tracing | null
}

/** The HTTP API with every route. Uses the database only to answer requests. */
async function createApi(options: ApiOptions): Promise<HttpServer> {
  const {
    config,
    pool,
    placingPool,
    auth,
    catalogue,
    mailTemplates,
    webhookEncryption,
    orderLinks: links,
    secret,
    consoleParts,
    logger,
    now,
    check,
    onNumbered,
    metrics,
    tracing = null,
  } = options
  const { baseUrl, basePath, trustProxy, corsOrigins, maxQuantityPerProductAndUser, maxPendingOrdersPerUser, maxGuestStockPercent } = config
  const reporting = {
    requestLog: new RequestLog(logger, config.loggedRequests),
    ...(metrics === undefined ? {} : { onAnswered: metrics.requestAnswered }),
    ...(tracing === null ? {} : { tracing }),
  }
  const { authenticate, sessionGuard } = auth
  const { admission } = catalogue
  const shared = { lockedRows: new LockedRows(placingPool), baseUrl, now, cancellableStatuses: cancellableUpTo(config.customerCancel) }
  const limits = { maxQuantityPerProductAndUser, maxPendingOrdersPerUser, maxGuestStockPercent }
  const onStore = tracing === null ? undefined : (requests: readonly TracedPart[]) => tracing.startBatch('storeOrders', requests)
  const batcher = createOrderBatcher({ ...shared, ...limits, pool: placingPool, logger, observer: metrics, onNumbered, onStore })
  const shedder = createShedder({ pool, batcher, admission })
  const server = await createHttpServer({
    ...{
      logger,
      baseUrl,
      basePath,
      trustProxy,
      corsOrigins,
      authenticate,
      sessionGuard,
      admission,
      shedder,
      onOverloaded: metrics?.requestShed,
    },
    onUntrustedProxy: metrics?.untrustedProxySeen,
    ...reporting,
  })
  const shortcut = { requestIdOf: requestId, headers: publicCorsHeaders(corsOrigins), ...reporting }
  addShortcut(server, catalogueShortcut(catalogue), shortcut)
  limitConnections(server, { maxConnections: config.maxConnections, onDropped: () => metrics?.connectionDropped() })
  await server.register(
    async (scope) => {
      authRoutes(scope, auth.context)
      oidcRoutes(scope, createSignIns(config, auth.context), baseUrl)
      apiKeyRoutes(scope, auth.context)
      operatorRoutes(scope, auth.context)
      activityRoutes(scope, pool)
      ownDataRoutes(scope, auth.context, admission, shared.cancellableStatuses)
      customerRoutes(scope, auth.context)
      const { defaultLanguage, shop } = config
      orderLinkRoutes(scope, { ...shared, pool, links, throttle: auth.context.throttle, defaultLanguage, shop: shop.name })
      catalogueRoutes(scope, catalogue)
      samplePictureRoutes(scope)
      feedRoutes(scope, catalogue)
      categoryRoutes(scope, catalogue)
      catalogueAdminRoutes(scope, catalogue, config.currency)
      categoryAdminRoutes(scope, catalogue)
      stockRoutes(scope, catalogue)
      priceRoutes(scope, catalogue)
      const findDeliveriesOf: FindDeliveries = (order) => findDeliveries(pool, order)
      const nameOf = (who: string) => auth.context.throttle.nameOf(who)
      const { isVerificationRequired } = auth.context
      const orders = {
        ...shared,
        pool,
        admission,
        nameOf,
        isVerificationRequired,
        isIdempotencyKeyRequired: config.isIdempotencyKeyRequired,
        duplicateOrderSeconds: config.duplicateOrderSeconds,
        batcher: traceOrders(batcher, tracing),
        findDeliveries: findDeliveriesOf,
      }
      orderRoutes(scope, orders)
      const findUserIds = (email: string) => findUserIdsByEmail(pool, canonicalEmail(email))
      const finders: OrderFinders = {
        findBuyers: async (typed) => ({ email: canonicalEmail(typed), userIds: await findUserIds(typed) }),
        findPeople: (text, how) => findPeople(pool, text, how),
        findProducts: (q, most) => findProductIds(pool, q, most),
      }
      const amendments = { parseEmail, findReaderEmail: (userId: string) => findReaderEmail(pool, userId), maxQuantityPerProductAndUser }
      adminOrderRoutes(scope, { ...orders, finders, amendments })
      searchRoutes(scope, { pool, finders })
      healthRoutes(scope, check)
      openApiRoute(scope)
      referenceRoutes(scope)
      problemPages(scope)
      mailEventRoutes(scope, { pool, secret: config.mailEventsSecret, now })
      const mails = {
        templates: mailTemplates,
        findUserIds,
        retryFailed: (eventId: string | null, atMost: number, auditContext: AuditContext) =>
          retryFailed(pool, { eventId, maxPerHour: config.mailMaxPerHour, now: now(), atMost, auditContext }),
        sendAgain: (eventId: string, event: OrderEvent | null, auditContext: AuditContext) =>
          sendAgain(pool, { eventId, event, maxPerHour: config.mailMaxPerHour, now: now(), auditContext }),
      }
      const lakeQueries = createLakeQueries(config)
      const lakeCatalogue = new Catalogue(() => openLake(config))
      scope.addHook('onClose', () => lakeCatalogue.close())
      const { allowedHosts } = config
      const consoleOptions = { ...consoleParts, pool, now, timeZone: config.timeZone, auth: auth.context, baseUrl, basePath, allowedHosts }
      const webhooks = { encryption: webhookEncryption, isPrivateAllowed: config.isPrivateWebhookAllowed }
      consoleRoutes(scope, { ...consoleOptions, mails, webhooks, lakeQueries, lakeCatalogue })
      const isFirstCommit = (hash: string) => auth.context.throttle.isFirstCommit(hash)
      mcpRoutes(scope, { secret, now, baseUrl, allowedHosts, origins: pageOriginsOf(config), isFirstCommit })
    },
    { prefix: basePath },
  )
  return server
}

/** Gives each order a span from its acceptance to its commit. What follows from the order is below it. */
function traceOrders(batcher: OrderBatcher, tracing: Tracing | null): Pick<OrderBatcher, 'place'> {
  if (tracing === null) return batcher
  return {
    async place(request, quotaKey) {
      const span = tracing.start('placeOrder', request.traceparent)
      try {
        const placed = await batcher.place({ ...request, traceparent: span.traceparent }, quotaKey)
        span.end()
        return placed
      } catch (error) {
        span.end(error)
        throw error
      }
    },
  }
}

/** The dependencies of the catalogue's routes. */
function createCatalogue(config: Config, pool: Pool, logger: Logger, copies: FreshCopies): CatalogueContext {
  const pages: CatalogueContext['pages'] = new PageCache(config.pageCacheBytes)
  return {
    pool,
    baseUrl: config.baseUrl,
    version: new CatalogueVersion({ copies, logger, onWentBack: () => pages.clear() }),
    languages: new CatalogueLanguages(config.catalogueLanguage),
    pages,
    admission: new Admission({ connections: pool.options.max, isByNetwork: config.isNetworkLimited }),
    openFeeds: new OpenFeeds({ ...FEEDS, maxOfNetwork: config.isNetworkLimited ? FEEDS.maxOfNetwork : FEEDS.maxOpen }),
    productUrl: config.shopProductUrl,
    lifetimes: { browserSeconds: BROWSER_CACHE_SECONDS, sharedSeconds: config.sharedCacheSeconds },
    tagHeaders: tagHeadersOf(config.cdnPurgeUrls),
  }
}

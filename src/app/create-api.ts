import { availableParallelism } from 'node:os'
import type { Logger } from 'pino'
import { activityRoutes } from '../activity/activity-routes.ts'
import type { RunCommand } from '../audit/audit-runner.ts'
import { pipelineRoutes } from '../audit/pipeline-routes.ts'
import type { PipelineOptions } from '../audit/pipeline-status.ts'
import { auditRoutes } from '../audit/routes.ts'
import { apiKeyRoutes } from '../auth/api-keys/routes.ts'
import { type Auth, createAuth } from '../auth/auth.ts'
import { consoleSessionRoutes } from '../auth/console-session-routes.ts'
import { ensureGuest } from '../auth/create-guest.ts'
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
import { groupRoutes } from '../catalogue/group-routes.ts'
import { samplePictureRoutes } from '../catalogue/import/sample-pictures.ts'
import { CatalogueLanguages } from '../catalogue/languages.ts'
import { PageCache } from '../catalogue/page-cache.ts'
import { priceRoutes } from '../catalogue/price-routes.ts'
import { saveStockEventPercent } from '../catalogue/product-events.ts'
import { tagHeadersOf } from '../catalogue/purge/purger.ts'
import { catalogueRoutes } from '../catalogue/routes.ts'
import { type CatalogueContext, catalogueShortcut } from '../catalogue/serve-catalogue.ts'
import { stockRoutes } from '../catalogue/stock-routes.ts'
import { ORDER_EVENTS } from '../change-stream/publish-order-events.ts'
import { makeEvents } from '../change-stream/publish-stored-events.ts'
import type { Config } from '../config.ts'
import { ownDataRoutes } from '../customers/account-routes.ts'
import { customerRoutes } from '../customers/admin-routes.ts'
import { findPeople } from '../customers/find-people.ts'
import { createOrderLinks, type OrderLinks } from '../customers/order-link.ts'
import { orderLinkRoutes } from '../customers/order-link-routes.ts'
import { searchRoutes } from '../customers/search-routes.ts'
import { FreshCopies } from '../db/fresh-copies.ts'
import type { Pool } from '../db/pool.ts'
import { figuresRoutes } from '../figures/routes.ts'
import { Admission } from '../http/admission.ts'
import { CONSOLE_PAGE, servePage } from '../http/browser-page.ts'
import { publicCorsHeaders } from '../http/cors.ts'
import { healthRoutes, type ReadinessCheck } from '../http/health.ts'
import { findForeignHost } from '../http/host.ts'
import type { HttpServer } from '../http/http-server.ts'
import { limitConnections } from '../http/limit-connections.ts'
import { problemPages } from '../http/problem-pages.ts'
import { referenceRoutes } from '../http/reference.ts'
import { RequestLog } from '../http/request-log.ts'
import { createHttpServer, openApiRoute, requestId } from '../http/server.ts'
import { addShortcut } from '../http/shortcut.ts'
import { Catalogue } from '../lake/iceberg/catalogue.ts'
import { icebergRoutes } from '../lake/iceberg/routes.ts'
import { lakeRoutes } from '../lake/routes.ts'
import { queueAccountMail } from '../mail/account-mail.ts'
import { findReaderEmail } from '../mail/email-deliveries.ts'
import { mailEventRoutes } from '../mail/mail-event-routes.ts'
import type { MailTemplates } from '../mail/mail-templates.ts'
import { mailRoutes } from '../mail/routes.ts'
import { mcpRoutes } from '../mcp/mcp-routes.ts'
import type { Metrics } from '../operations/metrics.ts'
import type { TracedPart, Tracing } from '../operations/tracing.ts'
import { adminOrderRoutes } from '../orders/admin-routes.ts'
import { deleteKeysOf, eraseAddressesOf } from '../orders/erase-addresses.ts'
import { cancellableUpTo, versionOf } from '../orders/order-status.ts'
import { LockedRows } from '../orders/placing/locked-rows.ts'
import { createOrderBatcher, type OrderBatcher } from '../orders/placing/order-batcher.ts'
import { orderRoutes } from '../orders/routes.ts'
import type { OrderFinders } from '../orders/search-orders.ts'
import type { FindDeliveries } from '../orders/timeline.ts'
import { findDeliveries } from '../topic/delivery-log.ts'
import { webhookRoutes } from '../webhooks/routes.ts'
import { isSignedWebhook } from '../webhooks/webhook-signature.ts'
import { createBestSellers } from './best-sellers.ts'
import { type Audits, createAudits } from './create-audits.ts'
import { createListener } from './create-listener.ts'
import { createShedder } from './create-shedder.ts'
import { createSignIns } from './create-sign-ins.ts'
import { createTopic } from './create-topic.ts'
import { explainListenErrors } from './explain-listen-errors.ts'
import { createFigures } from './figures.ts'
import { createHousekeeping, erasureOf } from './housekeeping.ts'
import { createLakeQueries, openLake } from './open-lake.ts'
import type { Service } from './service.ts'
import type { StoreParts } from './store-parts.ts'

const BROWSER_CACHE_SECONDS = 15
const MAX_WAITING_HASHES = 200
// Each feed has up to two batches in memory, usually about 200 kB. See docs/decisions/catalogue-feeds.md.
const FEEDS = { maxOpen: 64, maxOfNetwork: 4, patienceMs: 60_000 }
// Hash threads leave one core for other work, which a low priority alone does not ensure:
// docs/decisions/auth-passwords.md#threads-of-low-priority.
const hashingThreads = (processes: number) => Math.max(1, Math.floor((availableParallelism() - 1) / processes))

export type SharedConfig = Pick<Config, 'port' | 'databaseAddresses' | 'secret'>

interface ApiRoleOptions {
  requestPool: Pool
  placingPool: Pool
  readStates: PipelineOptions['readStates']
  check: ReadinessCheck
  /** Called with the greatest order number of each committed batch. */
  onNumbered: (number: number) => void
  hashCost: HashCost | undefined
  runCommand: RunCommand | undefined
  createWorkers: ((shared: SharedConfig) => Service) | undefined
}

/** The HTTP API, and the store's scheduled work. */
export async function createApiRole(parts: StoreParts, options: ApiRoleOptions): Promise<{ server: HttpServer; services: Service[] }> {
  const { config, pool, addresses, topic, sessions, copies, secret, mailEncryption, logger, now } = parts
  const { requestPool, placingPool, readStates, check, onNumbered, hashCost, runCommand, createWorkers } = options
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
  const audits = createAudits(config, { pool: requestPool, url: addresses.api, topic, readStates, runCommand, logger })
  const server = await createApi({ ...parts, pool: requestPool, placingPool, auth, catalogue, audits, check, onNumbered })
  const workersAt = createWorkers === undefined ? null : (port: number) => createWorkers({ port, databaseAddresses: addresses, secret })
  return {
    server,
    services: [
      createFigures({ pool, logger }),
      createBestSellers({ pool, logger }),
      auth,
      createHousekeeping(config, { pool, sessions, logger, now }),
      audits.pipeline,
      audits.runner,
      explainListenErrors(createListener(server, config, logger, workersAt), config),
    ],
  }
}

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

/** The relying party of passkeys. Pages of the store and of the origins in CORS_ORIGINS may use them. */
function relyingPartyOf(config: Config): RelyingParty {
  return { id: config.passkeyDomain, name: config.passkeyDomain, origins: pageOriginsOf(config) }
}

function pageOriginsOf({ baseUrl, corsOrigins }: Config): string[] {
  return [new URL(baseUrl).origin, ...(corsOrigins === '*' ? [] : (corsOrigins ?? []))]
}

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
  const audits = createAudits(config, {
    ...{ pool, url, logger, runCommand: undefined, readStates: async () => [] },
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
    audits,
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
  mailTemplates: MailTemplates | null
  webhookEncryption: Encryption
  orderLinks: OrderLinks
  secret: string
  audits: Audits
  logger: Logger
  now: () => Date
  check: ReadinessCheck
  onNumbered?: (number: number) => void
  metrics?: Metrics
  tracing?: Tracing | null
}

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
    audits,
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
      groupRoutes(scope, catalogue)
      stockRoutes(scope, catalogue)
      priceRoutes(scope, catalogue)
      const findDeliveriesOf: FindDeliveries = ({ id, statusHistory }) =>
        findDeliveries(pool, { id, versions: statusHistory.map(versionOf) })
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
      adminOrderRoutes(scope, { ...orders, finders, amendments, parseEmail, ensureGuest })
      searchRoutes(scope, { pool, finders })
      healthRoutes(scope, check)
      openApiRoute(scope)
      referenceRoutes(scope)
      problemPages(scope)
      const { mailEventsSecret: signedBy, mailMaxPerHour: maxPerHour, timeZone, allowedHosts } = config
      mailEventRoutes(scope, {
        pool,
        isSigned: signedBy === null ? null : (headers, body) => isSignedWebhook(signedBy, headers, body, now()),
      })
      // The OpenAPI document omits the console's own calls.
      scope.register(async (console) => {
        console.addHook('onRequest', (request, _reply, done) => done(findForeignHost(request, { baseUrl, allowedHosts }) ?? undefined))
        servePage(console, CONSOLE_PAGE)
        consoleSessionRoutes(console, { auth: auth.context, baseUrl, basePath, timeZone })
      })
      figuresRoutes(scope, { pool, now, timeZone })
      pipelineRoutes(scope, audits)
      webhookRoutes(scope, { pool, now, encryption: webhookEncryption, isPrivateAllowed: config.isPrivateWebhookAllowed })
      auditRoutes(scope, { pool, audits: audits.runner, baseUrl })
      const findOrderEvent = async (eventId: string) => (await makeEvents(pool, ORDER_EVENTS, [eventId])).get(eventId) ?? null
      mailRoutes(scope, { pool, templates: mailTemplates, findUserIds, findOrderEvent, maxPerHour, now })
      lakeRoutes(scope, { pool, queries: createLakeQueries(config) })
      const lakeCatalogue = new Catalogue(() => openLake(config))
      scope.addHook('onClose', () => lakeCatalogue.close())
      icebergRoutes(scope, { catalogue: lakeCatalogue })
      const isFirstCommit = (hash: string) => auth.context.throttle.isFirstCommit(hash)
      mcpRoutes(scope, { secret, now, baseUrl, allowedHosts, origins: pageOriginsOf(config), isFirstCommit })
    },
    { prefix: basePath },
  )
  return server
}

/** Traces orders. An order's span lasts from its acceptance to its commit, and is the parent of all later spans. */
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

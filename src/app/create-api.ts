import { availableParallelism } from 'node:os'
import type { Logger } from 'pino'
import { type Auth, createAuth } from '../auth/auth.ts'
import { canonicalEmail } from '../auth/email-address.ts'
import { authRoutes } from '../auth/routes.ts'
import type { SigningKeys } from '../auth/tokens/signing-keys.ts'
import { findUserByEmail } from '../auth/users.ts'
import { catalogueAdminRoutes } from '../catalogue/admin-routes.ts'
import { CatalogueVersion } from '../catalogue/catalogue-version.ts'
import { PageCache } from '../catalogue/page-cache.ts'
import { catalogueRoutes } from '../catalogue/routes.ts'
import { ReadLimiter } from '../catalogue/search/read-limiter.ts'
import { type CatalogueContext, catalogueShortcut } from '../catalogue/serve-catalogue.ts'
import { stockRoutes } from '../catalogue/stock-routes.ts'
import type { Config } from '../config.ts'
import type { Pool } from '../db/pool.ts'
import type { Connect } from '../db/with-reconnect.ts'
import { publicCorsHeaders } from '../http/cors.ts'
import { drain } from '../http/drain.ts'
import { healthRoutes, type ReadinessCheck } from '../http/health.ts'
import type { HttpServer } from '../http/http-server.ts'
import { problemPages } from '../http/problem-pages.ts'
import { referenceRoutes } from '../http/reference.ts'
import { createHttpServer, openApiRoute, requestId } from '../http/server.ts'
import { addShortcut } from '../http/shortcut.ts'
import type { Metrics } from '../operations/metrics.ts'
import { adminOrderRoutes } from '../orders/admin-routes.ts'
import { LockedRows } from '../orders/placing/locked-rows.ts'
import { createOrderBatcher } from '../orders/placing/order-batcher.ts'
import { orderRoutes } from '../orders/routes.ts'
import type { FindDeliveries } from '../orders/timeline.ts'
import { findDeliveries } from '../topic/delivery-log.ts'
import type { Service } from './service.ts'

const DRAIN_MS = 5_000
const BROWSER_CACHE_SECONDS = 15
const MAX_WAITING_HASHES = 200
// After a change of the catalogue every requested page is read again: such a burst takes well under two seconds.
const WAITING_READS = { maxWaiting: 500, waitMs: 2_000 }
// One core is left for everything else, which a low priority alone does not ensure; see docs/decisions/0012.
const hashingThreads = () => Math.max(1, availableParallelism() - 1)

/** The settings of accounts. */
export function authOptions(config: Config, pool: Pool, logger: Logger, now: () => Date) {
  return {
    pool,
    hashing: { threads: hashingThreads(), maxWaiting: MAX_WAITING_HASHES },
    refreshGraceSeconds: config.refreshGraceSeconds,
    isVerificationRequired: config.isEmailVerificationRequired,
    isThrottled: config.isRateLimited,
    logger,
    now,
  }
}

/** The HTTP API without a database, for its OpenAPI document. */
export async function createApiForDocument(config: Config, pool: Pool, keys: SigningKeys, logger: Logger): Promise<HttpServer> {
  const now = () => new Date()
  const unused = () => Promise.reject(new Error('there is no database'))
  const auth = createAuth({
    ...authOptions(config, pool, logger, now),
    issuer: config.baseUrl,
    keys,
    secret: '',
    connect: unused,
    sendAccountMail: unused,
    onAccountDeleted: unused,
  })
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
  metrics?: Metrics
}

/** The HTTP API with every route. Uses the database only to answer requests. */
export async function createApi(options: ApiOptions): Promise<HttpServer> {
  const { config, pool, placingPool, auth, catalogue, logger, now, check, metrics } = options
  const { baseUrl, basePath, trustProxy, corsOrigins } = config
  const counting = metrics === undefined ? {} : { onAnswered: metrics.requestAnswered }
  const { authenticate } = auth
  const server = await createHttpServer({ logger, baseUrl, basePath, trustProxy, corsOrigins, authenticate, ...counting })
  const shortcut = { logger, requestIdOf: requestId, headers: publicCorsHeaders(corsOrigins), ...counting }
  addShortcut(server, catalogueShortcut(catalogue), shortcut)
  await server.register(
    async (scope) => {
      authRoutes(scope, auth.context)
      catalogueRoutes(scope, catalogue)
      catalogueAdminRoutes(scope, catalogue, config.currency)
      stockRoutes(scope, catalogue)
      const { maxQuantityPerProductAndUser, maxPendingOrdersPerUser } = config
      const shared = { lockedRows: new LockedRows(placingPool), baseUrl, now }
      const limits = { maxQuantityPerProductAndUser, maxPendingOrdersPerUser }
      const orders = {
        ...shared,
        pool,
        batcher: createOrderBatcher({ ...shared, ...limits, pool: placingPool, logger, observer: metrics }),
        findDeliveries: ((order) => findDeliveries(pool, order)) satisfies FindDeliveries,
      }
      orderRoutes(scope, orders)
      adminOrderRoutes(scope, { ...orders, findUserId: async (email) => (await findUserByEmail(pool, canonicalEmail(email)))?.id ?? null })
      healthRoutes(scope, check)
      openApiRoute(scope)
      referenceRoutes(scope)
      problemPages(scope)
    },
    { prefix: basePath },
  )
  return server
}

/** The dependencies of the catalogue's routes, on this pool and one more connection. */
export function createCatalogue(config: Config, pool: Pool, logger: Logger, connect: Connect): CatalogueContext {
  const pages: CatalogueContext['pages'] = new PageCache(config.pageCacheBytes)
  // The other half is for logins, orders and the readiness check, which never wait for reads of the catalogue.
  const places = Math.max(1, Math.floor(pool.options.max / 2))
  return {
    pool,
    baseUrl: config.baseUrl,
    version: new CatalogueVersion({ pool, connect, logger, onWentBack: () => pages.clear() }),
    pages,
    limits: {
      reads: new ReadLimiter({ places, ...WAITING_READS }),
      searches: new ReadLimiter({ places: Math.max(1, places - 1), ...WAITING_READS }),
    },
    lifetimes: { browserSeconds: BROWSER_CACHE_SECONDS, sharedSeconds: config.sharedCacheSeconds },
  }
}

/** The listener of the API. */
export function createListener(server: HttpServer, config: Config, logger: Logger): Service {
  return {
    async start() {
      // For `localhost` Fastify opens a second listener, which `drain` does not know.
      await server.listen({ host: config.host === 'localhost' ? '127.0.0.1' : config.host, port: config.port })
      logger.info({ addresses: server.addresses() }, `Storefront answers at ${config.baseUrl}`)
    },
    async stop() {
      await drain(server, DRAIN_MS)
    },
  }
}

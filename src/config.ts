import { resolve } from 'node:path'
import { isCurrency } from '../client/src/currency.ts'
import { findMisspeltNames } from './config/misspelt-names.ts'
import {
  isOfThisMachine,
  readAllowedHosts,
  readCorsOrigins,
  readOperations,
  readProductUrl,
  readPurgeUrls,
  readTrustProxy,
} from './config/network.ts'
import { readOidcProviders } from './config/oidc.ts'
import {
  readCatalogueLanguage,
  readDatabaseAddresses,
  readDefaultLanguage,
  readHeaderName,
  readLakeBucket,
  readLocale,
  readMailEventsSecret,
  readMailFrom,
  readMailReplyTo,
  readNats,
  readObjectStoreEnvironment,
  readShop,
  readStaffMails,
  readTimeZone,
} from './config/services.ts'
import { ConfigError, type ReadSetting, type Settings, settingsOf } from './config/settings.ts'
import { readTraces } from './config/traces.ts'
import { CUSTOMER_CANCELS } from './orders/order-status.ts'
import { SUBSCRIBER_ROLES, type SubscriberRole } from './subscribers.ts'

export type Role = 'api' | 'stream' | SubscriberRole
export const ROLES: readonly Role[] = ['api', 'stream', ...SUBSCRIBER_ROLES]

const LOGGED_REQUESTS = ['notable', 'all'] as const
const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
const LOG_FORMATS = ['auto', 'pretty', 'json'] as const

export type Config = Readonly<ReturnType<typeof readAll>>

const SECRET_MIN_LENGTH = 32
// Longer than a bank transfer or a long weekend takes. See docs/decisions/orders-limits.md#expiry.
const PENDING_ORDER_TTL_SECONDS = 7 * 86_400
// A person who tries the store places far fewer orders. See docs/decisions/orders-limits.md#pending-orders.
const MAX_PENDING_ORDERS = 10_000

export interface Environment {
  config: Config
  settings: ReadSetting[]
  problems: string[]
  misspelt: string[]
}

/** Reads the settings. Throws ConfigError, which lists every problem. */
export function readConfig(env: NodeJS.ProcessEnv = process.env): Config {
  const { config, problems, misspelt } = readEnvironment(env)
  if (problems.length === 0) return config
  // Lists misspelt names too, because one may be the reason why another setting is missing.
  const lines = [...problems, ...misspelt]
  throw new ConfigError(lines.length === 1 ? lines.join() : `the settings cannot be used:\n${lines.map((line) => `  ${line}`).join('\n')}`)
}

/** Like `readConfig`, with the origin of each setting. Returns the problems instead of throwing. */
export function readEnvironment(env: NodeJS.ProcessEnv = process.env): Environment {
  const read = settingsOf(env)
  const config = Object.freeze(readAll(read, env))
  return { config, settings: [...read.read.values()], problems: read.problems, misspelt: findMisspeltNames(env, [...read.read.keys()]) }
}

function readAll(read: Settings, env: NodeJS.ProcessEnv) {
  const host = read.text('HOST', 'localhost', 'an address or a name of this machine')
  const port = read.integer('PORT', 3000, 0, 65_535)
  const basePath = readBasePath(read)
  const databaseAddresses = readDatabaseAddresses(read)
  const mailLocale = readLocale(read)
  const defaultLanguage = readDefaultLanguage(read, mailLocale)
  const derivedUrl = `http://localhost:${port}${basePath}`
  const baseUrl = readBaseUrl(read, derivedUrl)
  const isRateLimited = read.oneOf('RATE_LIMITS', ['on', 'off'], 'on') === 'on'
  const trustProxy = readTrustProxy(read)
  const mailFrom = readMailFrom(read)
  return {
    host,
    port,
    /** Empty, or a path such as `/v1` without a slash at the end. */
    basePath,
    /** The public address, without a slash at the end. It is also the issuer of access tokens. */
    baseUrl,
    isBaseUrlGiven: read.isSet('BASE_URL'),
    dataDir: read.setting('DATA_DIR', { mustBe: 'a folder', parse: toPath }, { value: resolve('./data'), documented: './data' }),
    /** The value is null for the embedded PostgreSQL. May contain passwords, and must not be logged. */
    databaseAddresses,
    databasePoolSize: read.integer('DATABASE_POOL_SIZE', 10, 2, 1_000),
    isEmbeddedMeant: read.oneOf('EMBEDDED', ['on', 'off'], 'off') === 'on',
    nats: readNats(read),
    /** Encrypts signing keys, account mails and webhook secrets. Null if the store's secret is in `dataDir`. */
    secret: readSecret(read),
    smtpUrl: read.url('SMTP_URL', ['smtp:', 'smtps:'], 'mails are files'),
    smtpCaFile: optionalPath(read, 'SMTP_CA', 'a PEM file', 'the authorities that Node.js knows'),
    mailFrom,
    shop: readShop(read, mailFrom),
    mailReplyTo: readMailReplyTo(read),
    mailEventsSecret: readMailEventsSecret(read),
    staffMails: readStaffMails(read, defaultLanguage),
    isSenderGiven: read.isSet('MAIL_FROM'),
    /** The header with each mail's id, by which the mail provider drops repeats. */
    mailIdempotencyHeader: readHeaderName(read),
    mailTemplates: optionalPath(read, 'MAIL_TEMPLATES', 'a folder', ''),
    mailLocale,
    defaultLanguage,
    timeZone: readTimeZone(read),
    catalogueLanguage: readCatalogueLanguage(read, defaultLanguage),
    /** The most order mails an hour for one account. Further mails wait. Null means no limit. */
    mailMaxPerHour: read.integer('MAIL_MAX_PER_HOUR', 200, 0, 10_000) || null,
    isPrivateWebhookAllowed: read.oneOf('WEBHOOK_ALLOW_PRIVATE', ['on', 'off'], 'off') === 'on',
    lakeBucket: readLakeBucket(read),
    /** AWS's SDK reads these variables itself. They may be secrets and must not be logged. */
    objectStoreEnvironment: readObjectStoreEnvironment(read, env),
    lakeFlushSeconds: read.integer(
      'LAKE_FLUSH_SECONDS',
      {
        value: databaseAddresses === null ? 10 : 30,
        documented: '10 (30 with DATABASE_URL)',
        from: databaseAddresses && 'DATABASE_URL',
      },
      1,
      86_400,
    ),
    lakeFlushRows: read.integer('LAKE_FLUSH_ROWS', 50_000, 1, 1_000_000),
    refreshGraceSeconds: read.integer('REFRESH_GRACE_SECONDS', 10, 0, 300),
    isEmailVerificationRequired: read.oneOf('EMAIL_VERIFICATION', ['off', 'required'], 'off') === 'required',
    /** The page to which account mails link. If null, they contain only the token. */
    accountUrl: read.url('ACCOUNT_URL', ['http:', 'https:'], '')?.replace(/#.*$/, '') ?? null,
    /** The page to which order mails link. If null, they link to the store's own page. */
    shopOrderUrl: read.url('SHOP_ORDER_URL', ['http:', 'https:'], '')?.replace(/#.*$/, '') ?? null,
    /** Whether an admin without a second factor can only set one up, once another admin has one. */
    isAdminFactorRequired: read.oneOf('ADMIN_SECOND_FACTOR', ['required', 'off'], 'required') === 'required',
    passkeyDomain: readPasskeyDomain(read, baseUrl),
    isRateLimited,
    /** Whether each client network has limits. By default it has none if only this machine can reach the store. */
    isNetworkLimited: read.isSet('RATE_LIMITS') ? isRateLimited : trustProxy !== false || !isOfThisMachine(host, new URL(baseUrl).hostname),
    /** The proxies whose X-Forwarded-For is trusted: their addresses and networks, or their number. False for none. */
    trustProxy,
    allowedHosts: readAllowedHosts(read),
    /** Origins whose scripts may use the API. `*` allows all, and null only the API's own. */
    corsOrigins: readCorsOrigins(read),
    /** The OpenID providers. They contain secrets and must not be logged. */
    oidcProviders: readOidcProviders(read),
    currency: read.setting(
      'CURRENCY',
      { mustBe: 'an ISO 4217 code such as EUR', parse: (text) => (isCurrency(text) ? text : undefined) },
      { value: 'EUR', documented: 'EUR' },
    ),
    /** The address of a product in the shop, with `{slug}`. If null, feeds have no links. */
    shopProductUrl: readProductUrl(read),
    pageCacheBytes: read.integer('PAGE_CACHE_MB', 64, 0, 16_384) * 1_048_576,
    sharedCacheSeconds: read.integer('CDN_MAX_AGE_SECONDS', 60, 0, 31_536_000),
    /** The caches to purge. Their URLs may contain a token and must not be logged. */
    cdnPurgeUrls: readPurgeUrls(read),
    /** The most connections of one process. Above it, each new connection closes one. */
    maxConnections: read.integer('MAX_CONNECTIONS', 5_000, 10, 1_000_000),
    /** The time from the stop signal, at which `/readyz` becomes 503, to the end of listening. */
    drainDelaySeconds: read.integer('DRAIN_DELAY_SECONDS', 0, 0, 60),
    maxQuantityPerProductAndUser: read.integerOrOff('MAX_QUANTITY_PER_PRODUCT_AND_USER', null, 1_000_000),
    pendingOrderTtlSeconds: read.integerOrOff(
      'PENDING_ORDER_TTL',
      PENDING_ORDER_TTL_SECONDS,
      366 * 86_400,
      `${PENDING_ORDER_TTL_SECONDS} (7 days)`,
    ),
    guestPendingOrderTtlSeconds: read.integerOrOff('GUEST_PENDING_ORDER_TTL', 3_600, 366 * 86_400, '3600 (an hour)'),
    maxGuestStockPercent: read.integerOrOff('MAX_GUEST_STOCK_PERCENT', 20, 100),
    isIdempotencyKeyRequired: read.oneOf('IDEMPOTENCY_KEY', ['optional', 'required'], 'optional') === 'required',
    customerCancel: read.oneOf('CUSTOMER_CANCEL', CUSTOMER_CANCELS, 'pending'),
    /** The time within which a person's repeated order is refused, unless the request says that it is intended. */
    duplicateOrderSeconds: read.integer('DUPLICATE_ORDER_SECONDS', 0, 0, 86_400),
    maxPendingOrdersPerUser: read.integerOrOff('MAX_PENDING_ORDERS_PER_USER', MAX_PENDING_ORDERS, 1_000_000),
    /** The days after an order's last change in which its address and note are kept despite the account's deletion. */
    retainOrderAddressDays: read.integer('RETAIN_ORDER_ADDRESS_DAYS', 3_650, 30, 36_500),
    catalogueEventDays: read.integer('CATALOGUE_EVENT_DAYS', 400, 31, 36_500),
    /**
     * The share of a set stock level, in percent, by which the level must change for another event. 0 means no events.
     */
    stockEventPercent: read.integer('STOCK_EVENT_PERCENT', 0, 0, 100),
    operations: readOperations(read),
    /** The number of processes. In each of several processes: the number of those that share its port. */
    webConcurrency: read.integer('WEB_CONCURRENCY', 1, 1, 64),
    /** It contains secrets and must not be logged. */
    traces: readTraces(read),
    roles: read.list('ROLES', ROLES),
    /** The whole store's roles. An alert names one that no process has. */
    expectedRoles: read.list('EXPECTED_ROLES', ROLES),
    logLevel: read.oneOf('LOG_LEVEL', LOG_LEVELS, 'info'),
    loggedRequests: read.oneOf('LOG_REQUESTS', LOGGED_REQUESTS, 'notable'),
    logFormat: read.oneOf('LOG_FORMAT', LOG_FORMATS, 'auto'),
  }
}

/**
 * Throws ConfigError for one of several processes that has no database setting, because it would sell the sample
 * catalogue.
 */
export function assertEmbeddedIsMeant({ databaseAddresses, isEmbeddedMeant, roles, nats, dataDir }: Config): void {
  if (databaseAddresses !== null || isEmbeddedMeant) return
  const reason =
    nats !== null ? 'NATS_URL is set' : roles.length < ROLES.length ? `the process has only the roles ${roles.join(', ')}` : null
  if (reason === null) return
  throw new ConfigError(`${reason}, and DATABASE_URL is not set; set it, or EMBEDDED=on for the embedded store in ${dataDir}`)
}

function readBaseUrl({ setting }: Settings, derived: string): string {
  // Other paths are appended to this address, and it is public.
  const parse = (value: string) => {
    const url = URL.canParse(value) ? new URL(value) : null
    if (url === null || !['http:', 'https:'].includes(url.protocol)) return undefined
    if (url.search + url.hash + url.username + url.password !== '') return undefined
    return value.replace(/[?#]$/, '').replace(/\/+$/, '')
  }
  const mustBe = 'a URL that starts with http:// or https:// and has no query, no fragment and no credentials'
  const unset = { value: derived, documented: 'http://localhost:PORT and BASE_PATH', from: 'PORT, BASE_PATH' }
  return setting('BASE_URL', { mustBe, parse, secrecy: 'url' }, unset)
}

function readPasskeyDomain({ setting, read }: Settings, baseUrl: string): string {
  const { hostname } = new URL(baseUrl)
  // Refuses a bare top-level domain. Browsers also refuse public suffixes such as co.uk.
  const isAbove = (value: string) => hostname.endsWith(`.${value}`) && value.includes('.')
  const isRefused = read.get('BASE_URL')?.origin === 'refused'
  const parse = (value: string) => (value === hostname || isAbove(value) || isRefused ? value : undefined)
  const mustBe = 'the host of BASE_URL or a domain above it'
  return setting('PASSKEY_DOMAIN', { mustBe, parse }, { value: hostname, documented: 'the host of BASE_URL', from: 'BASE_URL' })
}

function readBasePath({ setting }: Settings): string {
  const parse = (value: string) => {
    const path = value.replace(/\/+$/, '')
    return path === '' || /^(\/[A-Za-z0-9._~-]+)+$/.test(path) ? path : undefined
  }
  return setting('BASE_PATH', { mustBe: 'a path such as /v1', parse }, { value: '', documented: '' })
}

function optionalPath({ setting }: Settings, name: string, mustBe: string, documented: string): string | null {
  return setting(name, { mustBe, parse: toPath }, { value: null, documented })
}

function toPath(text: string): string {
  return resolve(text)
}

const isLongEnough = (secret: string) => secret.length >= SECRET_MIN_LENGTH
const SECRET_LENGTH = `at least ${SECRET_MIN_LENGTH} characters long`

function readSecret({ setting, isSet, problems }: Settings): string | null {
  const parse = (value: string) => (isLongEnough(value) ? value : undefined)
  const unset = { value: null, documented: 'kept in DATA_DIR' }
  if (isSet('DATABASE_URL') && !isSet('STOREFRONT_SECRET')) problems.push('STOREFRONT_SECRET is required with DATABASE_URL')
  return setting('STOREFRONT_SECRET', { mustBe: SECRET_LENGTH, parse, secrecy: 'secret' }, unset)
}

/** Returns a long enough secret. Throws ConfigError, which contains `name`, for a short one. */
export function checkSecret(name: string, value: string): string {
  if (!isLongEnough(value)) throw new ConfigError(`${name} must be ${SECRET_LENGTH}`)
  return value
}

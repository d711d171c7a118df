import { resolve } from 'node:path'
import { findMisspeltNames } from './config/misspelt-names.ts'
import {
  checkLastPort,
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
import { isCurrency } from './currency.ts'
import { CUSTOMER_CANCELS } from './orders/order-status.ts'
import { SUBSCRIBER_ROLES, type SubscriberRole } from './subscribers.ts'

export type Role = 'api' | 'stream' | SubscriberRole
export const ROLES: readonly Role[] = ['api', 'stream', ...SUBSCRIBER_ROLES]

const LOGGED_REQUESTS = ['notable', 'all'] as const
const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
const LOG_FORMATS = ['auto', 'pretty', 'json'] as const

/** Every setting of a process, read once from the environment and frozen. */
export type Config = Readonly<ReturnType<typeof readAll>>

const SECRET_MIN_LENGTH = 32
// The time is longer than a bank transfer or a long weekend takes. See docs/decisions/orders-limits.md#expiry.
const PENDING_ORDER_TTL_SECONDS = 7 * 86_400
// Somebody who tries the store places far fewer. See docs/decisions/orders-limits.md#pending-orders.
const MAX_PENDING_ORDERS = 10_000

/** An environment as this process reads it. `config` is to be used only where there are no problems. */
export interface Environment {
  config: Config
  settings: ReadSetting[]
  /** A line for each value that is refused, or that others contradict. */
  problems: string[]
  /** A line for each name that is no setting and resembles one. */
  misspelt: string[]
}

/** Reads and checks the environment. Throws ConfigError, which lists every problem. */
export function readConfig(env: NodeJS.ProcessEnv = process.env): Config {
  const { config, problems, misspelt } = readEnvironment(env)
  if (problems.length === 0) return config
  // A misspelt name may be the reason why another setting is missing.
  const lines = [...problems, ...misspelt]
  throw new ConfigError(lines.length === 1 ? lines.join() : `the settings cannot be used:\n${lines.map((line) => `  ${line}`).join('\n')}`)
}

/** Like `readConfig`, with the origin of each setting. Throws nothing. */
export function readEnvironment(env: NodeJS.ProcessEnv = process.env): Environment {
  const read = settingsOf(env)
  const config = Object.freeze(readAll(read, env))
  const { operations, roles, webConcurrency } = config
  if (operations !== null && roles.includes('api')) checkLastPort(read, operations.port, webConcurrency)
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
    /** Prefix of every route, `''` or such as `/v1`; never ends in a slash. */
    basePath,
    /** The public address, without a slash at the end; also the issuer of access tokens. */
    baseUrl,
    /** Whether BASE_URL is set; otherwise `baseUrl` is derived from the port. */
    isBaseUrlGiven: read.isSet('BASE_URL'),
    dataDir: read.setting('DATA_DIR', { mustBe: 'a folder', parse: toPath }, { value: resolve('./data'), documented: './data' }),
    /** Is null for the embedded PostgreSQL in `dataDir`. May contain passwords: not for logs. */
    databaseAddresses,
    databasePoolSize: read.integer('DATABASE_POOL_SIZE', 10, 2, 1_000),
    /** Whether one process among several may use the embedded store. */
    isEmbeddedMeant: read.oneOf('EMBEDDED', ['on', 'off'], 'off') === 'on',
    /** Is null when the notification topic is a database table. */
    nats: readNats(read),
    /**
     * Encrypts signing keys, account mails and webhook secrets at rest; null when the store's secret is in `dataDir`.
     */
    secret: readSecret(read),
    /** Is null when mails are written as files below `dataDir`. */
    smtpUrl: read.url('SMTP_URL', ['smtp:', 'smtps:'], 'mails are files'),
    /** PEM file of the authority that signed the mail server's certificate; null for Node's own list. */
    smtpCaFile: optionalPath(read, 'SMTP_CA', 'a PEM file', 'the authorities that Node.js knows'),
    mailFrom,
    shop: readShop(read, mailFrom),
    mailReplyTo: readMailReplyTo(read),
    mailEventsSecret: readMailEventsSecret(read),
    staffMails: readStaffMails(read, defaultLanguage),
    isSenderGiven: read.isSet('MAIL_FROM'),
    /** Carries the id of each mail, by which the provider drops a repeated one; null for none. */
    mailIdempotencyHeader: readHeaderName(read),
    /** A folder of mail templates that replace the built-in ones, or null. */
    mailTemplates: optionalPath(read, 'MAIL_TEMPLATES', 'a folder', ''),
    /** BCP 47, for amounts in mails of its language. Null: they are written as usual in the mail's language. */
    mailLocale,
    /** The language of accounts that have chosen none. */
    defaultLanguage,
    /** IANA, of the shop's days and local times. */
    timeZone: readTimeZone(read),
    /** BCP 47, of products' own texts. */
    catalogueLanguage: readCatalogueLanguage(read, defaultLanguage),
    /** Order mails an hour for one account; further ones wait. No limit when null. */
    mailMaxPerHour: read.integer('MAIL_MAX_PER_HOUR', 200, 0, 10_000) || null,
    /** Whether webhooks may go to addresses off the public internet, and over plain http. */
    isPrivateWebhookAllowed: read.oneOf('WEBHOOK_ALLOW_PRIVATE', ['on', 'off'], 'off') === 'on',
    /** Is null when the lake is files below `dataDir`. */
    lakeBucket: readLakeBucket(read),
    /** The variables that AWS's SDK reads itself. They may be secrets: not for logs. */
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
    /** Whether an account is created only after a mailed token verifies its address. */
    isEmailVerificationRequired: read.oneOf('EMAIL_VERIFICATION', ['off', 'required'], 'off') === 'required',
    /** The page of the shop to which account mails link; null when they contain only the token. */
    accountUrl: read.url('ACCOUNT_URL', ['http:', 'https:'], '')?.replace(/#.*$/, '') ?? null,
    /** The page of the shop to which order mails link; null for the store's own. */
    shopOrderUrl: read.url('SHOP_ORDER_URL', ['http:', 'https:'], '')?.replace(/#.*$/, '') ?? null,
    /** Whether an admin without a second factor can only set one up, once another admin has one. */
    isAdminFactorRequired: read.oneOf('ADMIN_SECOND_FACTOR', ['required', 'off'], 'required') === 'required',
    /** The domain that passkeys belong to (WebAuthn's RP id): the host of `baseUrl`, or one above it. */
    passkeyDomain: readPasskeyDomain(read, baseUrl),
    /** Whether failed logins, registrations and account mails are limited for each client. */
    isRateLimited,
    /** Whether requests count for the client's network: by default not in a store that only this machine can reach. */
    isNetworkLimited: read.isSet('RATE_LIMITS') ? isRateLimited : trustProxy !== false || !isOfThisMachine(host, new URL(baseUrl).hostname),
    /** Proxies whose X-Forwarded-For is trusted: addresses and networks, or their number; false for none. */
    trustProxy,
    /** Names besides the host of `baseUrl` at which the console and the operations port answer. */
    allowedHosts: readAllowedHosts(read),
    /** Origins whose scripts may use the API, `*` for all, null for its own only. */
    corsOrigins: readCorsOrigins(read),
    /** Providers with which customers sign in. They contain secrets: not for logs. */
    oidcProviders: readOidcProviders(read),
    /** ISO 4217, for imported lines without a currency. */
    currency: read.setting(
      'CURRENCY',
      { mustBe: 'an ISO 4217 code such as EUR', parse: (text) => (isCurrency(text) ? text : undefined) },
      { value: 'EUR', documented: 'EUR' },
    ),
    /** The page of a product in the shop, with `{slug}` for its slug; null where feeds have no links. */
    shopProductUrl: readProductUrl(read),
    /** Bound of the page cache of the catalogue in each process of the API. */
    pageCacheBytes: read.integer('PAGE_CACHE_MB', 64, 0, 16_384) * 1_048_576,
    /** The time that shared caches keep the catalogue's answers unless they are purged. */
    sharedCacheSeconds: read.integer('CDN_MAX_AGE_SECONDS', 60, 0, 31_536_000),
    /** Caches to purge after changes. They may contain a token: not for logs. */
    cdnPurgeUrls: readPurgeUrls(read),
    /** Open connections of this process's API; above it one is closed for each new one. */
    maxConnections: read.integer('MAX_CONNECTIONS', 5_000, 10, 1_000_000),
    /** The time between the signal to stop, from which `/readyz` is 503, and the end of listening. */
    drainDelaySeconds: read.integer('DRAIN_DELAY_SECONDS', 0, 0, 60),
    /** Units of one product that a customer can buy in all; null for no limit. */
    maxQuantityPerProductAndUser: read.integerOrOff('MAX_QUANTITY_PER_PRODUCT_AND_USER', null, 1_000_000),
    /** Age in seconds at which a pending order is cancelled; null for never. */
    pendingOrderTtlSeconds: read.integerOrOff(
      'PENDING_ORDER_TTL',
      PENDING_ORDER_TTL_SECONDS,
      366 * 86_400,
      `${PENDING_ORDER_TTL_SECONDS} (7 days)`,
    ),
    /** The same of a guest's order. */
    guestPendingOrderTtlSeconds: read.integerOrOff('GUEST_PENDING_ORDER_TTL', 3_600, 366 * 86_400, '3600 (an hour)'),
    /** The share of a product's stock that pending orders of one network's guests hold at most; null for no limit. */
    maxGuestStockPercent: read.integerOrOff('MAX_GUEST_STOCK_PERCENT', 20, 100),
    isIdempotencyKeyRequired: read.oneOf('IDEMPOTENCY_KEY', ['optional', 'required'], 'optional') === 'required',
    /** The last status in which customers cancel their own orders. */
    customerCancel: read.oneOf('CUSTOMER_CANCEL', CUSTOMER_CANCELS, 'pending'),
    /** Within this time the same order of a person is refused, unless it says that it is meant; 0 for never. */
    duplicateOrderSeconds: read.integer('DUPLICATE_ORDER_SECONDS', 0, 0, 86_400),
    /** Pending orders of one customer; null for no limit. */
    maxPendingOrdersPerUser: read.integerOrOff('MAX_PENDING_ORDERS_PER_USER', MAX_PENDING_ORDERS, 1_000_000),
    /** Days after an order's last change for which its address and note are kept when its account is deleted. */
    retainOrderAddressDays: read.integer('RETAIN_ORDER_ADDRESS_DAYS', 3_650, 30, 36_500),
    /** Days for which events of the catalogue are kept; the newest of each product, its price and its stock stay. */
    catalogueEventDays: read.integer('CATALOGUE_EVENT_DAYS', 400, 31, 36_500),
    /** An event each time that a level of stock changes by this part of the number that was set; 0 for none. */
    stockEventPercent: read.integer('STOCK_EVENT_PERCENT', 0, 0, 100),
    /** Address of metrics and health, null for none. */
    operations: readOperations(read),
    /** Processes of the API that share the port, this one included. */
    webConcurrency: read.integer('WEB_CONCURRENCY', 1, 1, 64),
    /** The destination of traces; null when they are off. Contains secrets: not for logs. */
    traces: readTraces(read),
    roles: read.list('ROLES', ROLES),
    /** The roles of all processes of the store; an alert names one that no process has. */
    expectedRoles: read.list('EXPECTED_ROLES', ROLES),
    logLevel: read.oneOf('LOG_LEVEL', LOG_LEVELS, 'info'),
    loggedRequests: read.oneOf('LOG_REQUESTS', LOGGED_REQUESTS, 'notable'),
    /** `auto`: readable lines on a terminal, JSON elsewhere. */
    logFormat: read.oneOf('LOG_FORMAT', LOG_FORMATS, 'auto'),
  }
}

/**
 * Throws ConfigError for one process among several without a database: it would sell the sample catalogue of an
 * embedded store.
 */
export function assertEmbeddedIsMeant({ databaseAddresses, isEmbeddedMeant, roles, nats, dataDir }: Config): void {
  if (databaseAddresses !== null || isEmbeddedMeant) return
  const reason =
    nats !== null ? 'NATS_URL is set' : roles.length < ROLES.length ? `the process has only the roles ${roles.join(', ')}` : null
  if (reason === null) return
  throw new ConfigError(`${reason}, and DATABASE_URL is not set; set it, or EMBEDDED=on for the embedded store in ${dataDir}`)
}

function readBaseUrl({ setting }: Settings, derived: string): string {
  // Paths are appended to it, and it is public.
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
  // Browsers refuse a public suffix such as co.uk as well.
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

/** Returns the secret. Throws ConfigError, which contains `name`, when it is too short. */
export function checkSecret(name: string, value: string): string {
  if (!isLongEnough(value)) throw new ConfigError(`${name} must be ${SECRET_LENGTH}`)
  return value
}

import { resolve } from 'node:path'
import { readDatabaseAddresses } from './config/database.ts'
import { readLakeBucket, readObjectStoreEnvironment } from './config/lake-bucket.ts'
import { readNats } from './config/nats.ts'
import { readCorsOrigins, readPurgeUrls, readTrustProxy } from './config/network.ts'
import { readOidcProviders } from './config/oidc.ts'
import { ConfigError, type Settings, settingsOf } from './config/settings.ts'
import { findLocale } from './currency.ts'
import type { DatabaseAddresses } from './db/addresses.ts'
import { isLanguage, LANGUAGES, type Language, languageOf } from './language.ts'
import { isCurrency } from './money.ts'

export const ROLES = ['api', 'stream', 'email', 'lake', 'webhook'] as const
export type Role = (typeof ROLES)[number]

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
const LOG_FORMATS = ['auto', 'pretty', 'json'] as const

/** Every setting of a process, read once from the environment and frozen. */
export type Config = ReturnType<typeof readConfig>

const SECRET_MIN_LENGTH = 32
const SENDER = /^(?:[^<>\r\n]*<[^\s<>@]+@[A-Za-z0-9.-]+>|[^\s<>@]+@[A-Za-z0-9.-]+)$/
// Longer than a bank transfer or a long weekend. See decision 0112.
const PENDING_ORDER_TTL_SECONDS = 7 * 86_400
// Four times the orders of a real wholesaler's busiest account in three weeks. See decision 0113.
const MAX_PENDING_ORDERS = 500

/** Reads and checks the environment. Throws ConfigError. */
export function readConfig(env: NodeJS.ProcessEnv = process.env) {
  const read = settingsOf(env)
  const host = read.text('HOST', '127.0.0.1')
  const port = read.integer('PORT', 3000, 0, 65_535)
  const basePath = readBasePath(read.text('BASE_PATH', ''))
  const databaseAddresses = readDatabaseAddresses(read)
  const mailLocale = readLocale(read.optional('MAIL_LOCALE'))
  const baseUrl = readBaseUrl(read.url('BASE_URL', ['http:', 'https:']))
  return Object.freeze({
    host,
    port,
    /** Prefix of every route, `''` or such as `/v1`; never ends in a slash. */
    basePath,
    /** The public address, without a slash at the end; also the issuer of access tokens. */
    baseUrl: baseUrl ?? `http://localhost:${port}${basePath}`,
    /** Whether BASE_URL is set; otherwise `baseUrl` is derived from the port. */
    isBaseUrlGiven: baseUrl !== null,
    dataDir: resolve(read.text('DATA_DIR', './data')),
    /** Null for the embedded PostgreSQL in `dataDir`. They may contain passwords: not for logs. */
    databaseAddresses,
    databasePoolSize: read.integer('DATABASE_POOL_SIZE', 10, 2, 1_000),
    /** Whether one process among several may use the embedded store. */
    isEmbeddedMeant: read.oneOf('EMBEDDED', ['on', 'off'], 'off') === 'on',
    /** Null when the notification topic is a table of the database. */
    nats: readNats(read),
    /** Encrypts signing keys, account mails and webhook secrets at rest. Null when the store's secret is in `dataDir`. */
    secret: readSecret(read.optional('STOREFRONT_SECRET'), databaseAddresses),
    /** Null when mails are written as files below `dataDir`. */
    smtpUrl: read.url('SMTP_URL', ['smtp:', 'smtps:']),
    /** PEM file of the authority that signed the mail server's certificate; null for Node's own list. */
    smtpCaFile: optionalPath(read.optional('SMTP_CA')),
    mailFrom: readMailFrom(read.text('MAIL_FROM', 'Storefront <no-reply@storefront.example>')),
    /** Carries the id of each mail, by which the provider drops a repeated one; null for none. */
    mailIdempotencyHeader: readHeaderName(read.optional('MAIL_IDEMPOTENCY_HEADER')),
    /** A folder of mail templates that replace the built-in ones, or null. */
    mailTemplates: optionalPath(read.optional('MAIL_TEMPLATES')),
    /** BCP 47, for amounts in mails of its language. Null: they are written as usual in the mail's language. */
    mailLocale,
    /** Of accounts that have chosen none. */
    defaultLanguage: readDefaultLanguage(read.optional('DEFAULT_LANGUAGE'), mailLocale),
    /** Order mails an hour for one account; further ones wait. Null for no limit. */
    mailMaxPerHour: read.integer('MAIL_MAX_PER_HOUR', 200, 0, 10_000) || null,
    /** Whether webhooks may go to addresses off the public internet, and over plain http. */
    isPrivateWebhookAllowed: read.oneOf('WEBHOOK_ALLOW_PRIVATE', ['on', 'off'], 'off') === 'on',
    /** Null when the lake is files below `dataDir`. */
    lakeBucket: readLakeBucket(read),
    /** What AWS's SDK reads itself. They may be secrets: not for logs. */
    objectStoreEnvironment: readObjectStoreEnvironment(env),
    lakeFlushSeconds: read.integer('LAKE_FLUSH_SECONDS', databaseAddresses === null ? 10 : 60, 1, 86_400),
    lakeFlushRows: read.integer('LAKE_FLUSH_ROWS', 50_000, 1, 1_000_000),
    refreshGraceSeconds: read.integer('REFRESH_GRACE_SECONDS', 10, 0, 300),
    /** Whether an account is created only after a mailed token verifies its address. */
    isEmailVerificationRequired: read.oneOf('EMAIL_VERIFICATION', ['off', 'required'], 'off') === 'required',
    /** The page of the shop to which account mails link; null when they contain only the token. */
    accountUrl: read.url('ACCOUNT_URL', ['http:', 'https:'])?.replace(/#.*$/, '') ?? null,
    /** Whether admins can only set up a second factor, once one of them has one. */
    isAdminFactorRequired: read.oneOf('ADMIN_SECOND_FACTOR', ['required', 'off'], 'required') === 'required',
    /** The domain that passkeys belong to (WebAuthn's RP id): the host of `baseUrl`, or one above it. */
    passkeyDomain: readPasskeyDomain(read.optional('PASSKEY_DOMAIN'), baseUrl ?? 'http://localhost'),
    /** Whether failed logins, registrations and account mails are limited for each client. */
    isRateLimited: read.oneOf('RATE_LIMITS', ['on', 'off'], 'on') === 'on',
    /** Proxies whose X-Forwarded-For is trusted: addresses and networks, or their number; false for none. */
    trustProxy: readTrustProxy(read.optional('TRUST_PROXY')),
    /** Origins whose scripts may use the API, `*` for all, null for its own only. */
    corsOrigins: readCorsOrigins(read.optional('CORS_ORIGINS')),
    /** Providers with which customers sign in. They contain secrets: not for logs. */
    oidcProviders: readOidcProviders(read),
    /** ISO 4217, for imported lines without a currency. */
    currency: readCurrency(read.text('CURRENCY', 'EUR')),
    /** Bound of the page cache of the catalogue in each process of the API. */
    pageCacheBytes: read.integer('PAGE_CACHE_MB', 64, 0, 16_384) * 1_048_576,
    /** How long shared caches keep the catalogue's answers unless they are purged. */
    sharedCacheSeconds: read.integer('CDN_MAX_AGE_SECONDS', 60, 0, 31_536_000),
    /** Caches to purge after changes. They may contain a token: not for logs. */
    cdnPurgeUrls: readPurgeUrls(read.optional('CDN_PURGE_URL')),
    /** Pieces of one product that a customer can buy in all; null for no limit. */
    maxQuantityPerProductAndUser: read.integerOrOff('MAX_QUANTITY_PER_PRODUCT_AND_USER', null, 1_000_000),
    /** Age in seconds at which a pending order is cancelled; null for never. */
    pendingOrderTtlSeconds: read.integerOrOff('PENDING_ORDER_TTL', PENDING_ORDER_TTL_SECONDS, 366 * 86_400),
    /** Pending orders of one customer; null for no limit. */
    maxPendingOrdersPerUser: read.integerOrOff('MAX_PENDING_ORDERS_PER_USER', MAX_PENDING_ORDERS, 1_000_000),
    /** Days after an order's last change for which its address and note are kept when its account is deleted. */
    retainOrderAddressDays: read.integer('RETAIN_ORDER_ADDRESS_DAYS', 3_650, 30, 36_500),
    /** Address of metrics and health, null for none. */
    operations: readOperations(read),
    roles: read.list('ROLES', ROLES),
    /** The roles of all processes of the store; an alert names one that no process has. */
    expectedRoles: read.list('EXPECTED_ROLES', ROLES),
    logLevel: read.oneOf('LOG_LEVEL', LOG_LEVELS, 'info'),
    /** `auto`: readable lines on a terminal, JSON elsewhere. */
    logFormat: read.oneOf('LOG_FORMAT', LOG_FORMATS, 'auto'),
  })
}

/** Throws ConfigError for one process among several without a database: it would sell the sample catalogue of an embedded store. */
export function assertEmbeddedIsMeant({ databaseAddresses, isEmbeddedMeant, roles, nats, dataDir }: Config): void {
  if (databaseAddresses !== null || isEmbeddedMeant) return
  const reason =
    nats !== null ? 'NATS_URL is set' : roles.length < ROLES.length ? `the process has only the roles ${roles.join(', ')}` : null
  if (reason === null) return
  throw new ConfigError(`${reason}, and DATABASE_URL is not set; set it, or EMBEDDED=on for the embedded store in ${dataDir}`)
}

function readOperations({ optional, text, integer }: Settings) {
  const given = optional('OPS_PORT')
  if (given === 'off') return null
  // With OPS_PORT set, the process does not start without the port.
  return { host: text('OPS_HOST', '127.0.0.1'), port: integer('OPS_PORT', 9464, 0, 65_535), isRequired: given !== null }
}

function readBaseUrl(value: string | null): string | null {
  if (value === null) return null
  const { search, hash, username, password } = new URL(value)
  // Paths are appended to it, and it is public.
  if (search !== '' || hash !== '' || username !== '' || password !== '') {
    throw new ConfigError('BASE_URL must have no query, no fragment and no credentials')
  }
  return value.replace(/[?#]$/, '').replace(/\/+$/, '')
}

function readPasskeyDomain(value: string | null, baseUrl: string): string {
  const { hostname } = new URL(baseUrl)
  if (value === null || value === hostname) return hostname
  // Browsers refuse a public suffix such as co.uk as well.
  if (hostname.endsWith(`.${value}`) && value.includes('.')) return value
  throw new ConfigError(`PASSKEY_DOMAIN must be ${hostname}, the host of BASE_URL, or a domain above it`)
}

function readBasePath(value: string): string {
  const path = value.replace(/\/+$/, '')
  if (path !== '' && !/^(\/[A-Za-z0-9._~-]+)+$/.test(path)) throw new ConfigError('BASE_PATH must look like /v1')
  return path
}

function readMailFrom(value: string): string {
  if (!SENDER.test(value)) throw new ConfigError('MAIL_FROM must be an e-mail address, such as Store <no-reply@store.example>')
  return value
}

/** Headers that a mail has already, or that change how it is delivered. */
const TAKEN_HEADERS =
  /^(?:from|to|cc|bcc|sender|reply-to|return-path|subject|date|message-id|in-reply-to|references|received|content-.*|mime-version|auto-submitted|list-.*|x-storefront-event|dkim-signature|resent-.*)$/i

function readHeaderName(value: string | null): string | null {
  if (value === null) return null
  if (/^[A-Za-z][A-Za-z0-9-]{0,59}$/.test(value) && !TAKEN_HEADERS.test(value)) return value
  throw new ConfigError('MAIL_IDEMPOTENCY_HEADER must be the name of a header of the mail provider, such as Resend-Idempotency-Key')
}

function readCurrency(value: string): string {
  if (!isCurrency(value)) throw new ConfigError('CURRENCY must be an ISO 4217 code such as EUR')
  return value
}

function readLocale(value: string | null): string | null {
  if (value === null) return null
  const locale = findLocale(value)
  if (locale !== null) return locale
  throw new ConfigError('MAIL_LOCALE must be a language tag such as en, de-AT or fr')
}

/** MAIL_LOCALE is older: a shop whose amounts are those of Austria has German mails. */
function readDefaultLanguage(value: string | null, mailLocale: string | null): Language {
  if (value === null) return (mailLocale === null ? null : languageOf(mailLocale)) ?? 'en'
  if (isLanguage(value)) return value
  throw new ConfigError(`DEFAULT_LANGUAGE must be one of ${LANGUAGES.join(', ')}`)
}

function optionalPath(value: string | null): string | null {
  return value === null ? null : resolve(value)
}

function readSecret(value: string | null, databaseAddresses: DatabaseAddresses | null): string | null {
  if (value === null && databaseAddresses !== null) throw new ConfigError('STOREFRONT_SECRET is required with DATABASE_URL')
  return value === null ? null : checkSecret('STOREFRONT_SECRET', value)
}

/** Returns the secret. Throws ConfigError, which contains `name`, when it is too short. */
export function checkSecret(name: string, value: string): string {
  if (value.length < SECRET_MIN_LENGTH) throw new ConfigError(`${name} must have at least ${SECRET_MIN_LENGTH} characters`)
  return value
}

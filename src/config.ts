import { isIP } from 'node:net'
import { resolve } from 'node:path'
import { isCurrency } from './currency.ts'

const ROLES = ['api', 'stream', 'email', 'lake', 'webhook'] as const
export type Role = (typeof ROLES)[number]

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
type LogLevel = (typeof LOG_LEVELS)[number]

/** Every setting of a process, read once from the environment and frozen. */
export interface Config {
  readonly host: string
  readonly port: number
  /** Prefix of every route, `''` or such as `/v1`; never ends in a slash. */
  readonly basePath: string
  /** The address clients use, without a slash at the end. It is also the issuer of access tokens. */
  readonly baseUrl: string
  readonly dataDir: string
  /** Null means: the embedded PostgreSQL in `dataDir`. */
  readonly databaseUrl: string | null
  readonly databasePoolSize: number
  /** Null means: the notification topic is a table of the database. */
  readonly nats: NatsConfig | null
  /** Encrypts signing keys and the secrets of webhooks at rest. Null with the embedded store, which keeps its own in `dataDir`. */
  readonly secret: string | null
  /** Null means: mails are written as files below `dataDir`. */
  readonly smtpUrl: string | null
  readonly mailFrom: string
  /** A folder of mail templates that stand in for the built-in ones; null for those only. */
  readonly mailTemplates: string | null
  /** BCP 47. How amounts are written in mails. */
  readonly mailLocale: string
  /** How many order mails an account gets in an hour before the next ones wait; null for no limit. */
  readonly mailMaxPerHour: number | null
  /** Whether webhooks may go to addresses off the public internet, and over plain http. */
  readonly isPrivateWebhookAllowed: boolean
  /** Null means: the lake is files below `dataDir`. */
  readonly lakeBucket: LakeBucket | null
  readonly lakeFlushSeconds: number
  readonly lakeFlushRows: number
  readonly refreshGraceSeconds: number
  /** Whether an account is made only when its address has been proven by a mailed token. */
  readonly isEmailVerificationRequired: boolean
  /** The page of the shop that account mails link to; null when they show the bare token. */
  readonly accountUrl: string | null
  /** Whether failed logins, registrations and account mails are limited for each client. */
  readonly isRateLimited: boolean
  /** Proxies whose X-Forwarded-For counts: their addresses and networks, or how many there are; false for none. */
  readonly trustProxy: readonly string[] | number | false
  /** Origins whose scripts may use the API, `*` for all, null for none but its own. */
  readonly corsOrigins: readonly string[] | '*' | null
  /** ISO 4217. Used where an imported line names no currency. */
  readonly currency: string
  /** How much memory the ready pages of the catalogue may take in a process with the API. */
  readonly pageCacheBytes: number
  /** How long a cache in front of the store keeps the catalogue's answers when nothing purges them. */
  readonly sharedCacheSeconds: number
  /** Caches in front of the store that are told of changes; they may carry a token: not for logs. */
  readonly cdnPurgeUrls: readonly string[]
  /** Pieces of one product that one customer can buy in all; null for any number. */
  readonly maxQuantityPerProductAndUser: number | null
  /** After how many seconds an order that is still pending is cancelled; null for never. */
  readonly pendingOrderTtlSeconds: number | null
  /** Where metrics and health are, null for nowhere. */
  readonly operations: OperationsConfig | null
  readonly roles: readonly Role[]
  readonly logLevel: LogLevel
}

interface OperationsConfig {
  readonly host: string
  readonly port: number
  /** Whether the port was asked for, so that the process is of no use without. */
  readonly isRequired: boolean
}

/** How to reach the broker. Paths are null when not set. */
interface NatsConfig {
  /** Addresses with commas between; a login in one of them counts for all. */
  readonly servers: string
  readonly replicas: number
  readonly credentialsFile: string | null
  readonly caFile: string | null
  readonly certFile: string | null
  readonly keyFile: string | null
}

/** Where in an object store the lake is. Credentials are the business of AWS's SDK, which reads its own settings. */
interface LakeBucket {
  readonly bucket: string
  /** Without slashes at its ends; empty for the bucket's root. */
  readonly prefix: string
  /** Null for AWS itself. */
  readonly endpoint: string | null
  /** Null: as the SDK finds it. */
  readonly region: string | null
}

/** A setting that cannot be used. The message names it; the process ends with exit status 2. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

const SECRET_MIN_LENGTH = 32
// Settings of the design that this release cannot honour yet: ignoring one silently would lose mail or data.
const NOT_YET = ['WEB_CONCURRENCY'] as const

/** Reads and checks the environment. Throws ConfigError. */
export function readConfig(env: NodeJS.ProcessEnv = process.env): Config {
  const read = reader(env)
  for (const name of NOT_YET) {
    if (read.optional(name) !== null) throw new ConfigError(`${name} is not supported by this version of Storefront; unset it`)
  }
  const host = read.text('HOST', '127.0.0.1')
  const port = read.integer('PORT', 3000, 0, 65_535)
  const basePath = readBasePath(read.text('BASE_PATH', ''))
  const databaseUrl = read.url('DATABASE_URL', ['postgres:', 'postgresql:'])
  return Object.freeze({
    host,
    port,
    basePath,
    baseUrl: (read.url('BASE_URL', ['http:', 'https:']) ?? `http://localhost:${port}${basePath}`).replace(/\/+$/, ''),
    dataDir: resolve(read.text('DATA_DIR', './data')),
    databaseUrl,
    databasePoolSize: read.integer('DATABASE_POOL_SIZE', 10, 2, 1_000),
    nats: readNats(read),
    secret: readSecret(read.optional('STOREFRONT_SECRET'), databaseUrl),
    smtpUrl: read.url('SMTP_URL', ['smtp:', 'smtps:']),
    mailFrom: read.text('MAIL_FROM', 'Storefront <no-reply@storefront.example>'),
    mailTemplates: optionalPath(read.optional('MAIL_TEMPLATES')),
    mailLocale: readLocale(read.text('MAIL_LOCALE', 'en')),
    mailMaxPerHour: read.integer('MAIL_MAX_PER_HOUR', 200, 0, 10_000) || null,
    isPrivateWebhookAllowed: read.oneOf('WEBHOOK_ALLOW_PRIVATE', ['on', 'off'], 'off') === 'on',
    lakeBucket: readLakeBucket(read),
    lakeFlushSeconds: read.integer('LAKE_FLUSH_SECONDS', databaseUrl === null ? 10 : 60, 1, 86_400),
    lakeFlushRows: read.integer('LAKE_FLUSH_ROWS', 50_000, 1, 1_000_000),
    refreshGraceSeconds: read.integer('REFRESH_GRACE_SECONDS', 10, 0, 300),
    isEmailVerificationRequired: read.oneOf('EMAIL_VERIFICATION', ['off', 'required'], 'off') === 'required',
    accountUrl: read.url('ACCOUNT_URL', ['http:', 'https:'])?.replace(/#.*$/, '') ?? null,
    isRateLimited: read.oneOf('RATE_LIMITS', ['on', 'off'], 'on') === 'on',
    trustProxy: readTrustProxy(read.optional('TRUST_PROXY')),
    corsOrigins: readCorsOrigins(read.optional('CORS_ORIGINS')),
    currency: readCurrency(read.text('CURRENCY', 'EUR')),
    pageCacheBytes: read.integer('PAGE_CACHE_MB', 64, 0, 16_384) * 1_048_576,
    sharedCacheSeconds: read.integer('CDN_MAX_AGE_SECONDS', 60, 0, 31_536_000),
    cdnPurgeUrls: readPurgeUrls(read.optional('CDN_PURGE_URL')),
    maxQuantityPerProductAndUser: read.integer('MAX_QUANTITY_PER_PRODUCT_AND_USER', 0, 0, 1_000_000) || null,
    pendingOrderTtlSeconds: read.integer('PENDING_ORDER_TTL', 0, 0, 366 * 86_400) || null,
    operations: readOperations(read),
    roles: read.list('ROLES', ROLES),
    logLevel: read.oneOf('LOG_LEVEL', LOG_LEVELS, 'info'),
  })
}

function reader(env: NodeJS.ProcessEnv) {
  const optional = (name: string) => {
    const value = env[name]?.trim()
    return value === undefined || value === '' ? null : value
  }
  const oneOf = <T extends string>(name: string, allowed: readonly T[], fallback: T): T => {
    const value = optional(name) ?? fallback
    if (!allowed.includes(value as T)) throw new ConfigError(`${name} must be one of ${allowed.join(', ')}`)
    return value as T
  }
  return {
    optional,
    oneOf,
    text: (name: string, fallback: string) => optional(name) ?? fallback,
    integer(name: string, fallback: number, min: number, max: number) {
      const value = optional(name)
      if (value === null) return fallback
      const number = /^\d{1,9}$/.test(value) ? Number(value) : Number.NaN
      if (!(number >= min && number <= max)) throw new ConfigError(`${name} must be a whole number from ${min} to ${max}`)
      return number
    },
    // The value is not echoed: it may hold a password.
    url(name: string, protocols: string[]) {
      const value = optional(name)
      if (value === null) return null
      if (!URL.canParse(value) || !protocols.includes(new URL(value).protocol)) {
        throw new ConfigError(`${name} must be a URL that starts with ${protocols.map((p) => `${p}//`).join(' or ')}`)
      }
      return value
    },
    list<T extends string>(name: string, allowed: readonly T[]): readonly T[] {
      const value = optional(name)
      if (value === null) return allowed
      return parseList(value.split(','), allowed, name)
    },
  }
}

function parseList<T extends string>(values: readonly string[], allowed: readonly T[], name: string): readonly T[] {
  const wanted = values.map((v) => v.trim()).filter((v) => v !== '')
  const unknown = wanted.find((v) => !allowed.includes(v as T))
  if (unknown !== undefined || wanted.length === 0) throw new ConfigError(`${name} must name some of ${allowed.join(', ')}`)
  return allowed.filter((v) => wanted.includes(v))
}

/** Narrows a process to the roles named on its command line. Throws ConfigError. */
export function parseRoles(values: readonly string[]): readonly Role[] {
  return parseList(values, ROLES, '--role')
}

function readOperations({ optional, text, integer }: ReturnType<typeof reader>): OperationsConfig | null {
  const given = optional('OPS_PORT')
  if (given === 'off') return null
  return { host: text('OPS_HOST', '127.0.0.1'), port: integer('OPS_PORT', 9464, 0, 65_535), isRequired: given !== null }
}

function readNats({ optional, integer }: ReturnType<typeof reader>): NatsConfig | null {
  const servers = optional('NATS_URL')
  const files = {
    credentialsFile: optional('NATS_CREDENTIALS'),
    caFile: optional('NATS_CA'),
    certFile: optional('NATS_CERT'),
    keyFile: optional('NATS_KEY'),
  }
  const replicas = integer('NATS_REPLICAS', 1, 1, 5)
  if (servers === null) return null
  const isAddress = (text: string) => URL.canParse(text) && ['nats:', 'tls:'].includes(new URL(text).protocol) && new URL(text).host !== ''
  // The value is not echoed: it may hold a password.
  if (!servers.split(',').every((server) => isAddress(server.trim()))) {
    throw new ConfigError('NATS_URL must list URLs that start with nats:// or tls://, with commas between')
  }
  if ((files.certFile === null) !== (files.keyFile === null)) throw new ConfigError('NATS_CERT and NATS_KEY must be set together')
  return Object.freeze({ servers, replicas, ...files })
}

const LAKE_URL = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/([A-Za-z0-9!_.'()=/-]*))?$/

function readLakeBucket({ optional, url }: ReturnType<typeof reader>): LakeBucket | null {
  const address = optional('LAKE_URL')
  const endpoint = url('S3_ENDPOINT', ['http:', 'https:'])
  if (address === null) {
    if (endpoint !== null) throw new ConfigError('S3_ENDPOINT needs LAKE_URL, such as s3://bucket/prefix')
    return null
  }
  const [, bucket, path = ''] = LAKE_URL.exec(address) ?? []
  const prefix = path.replace(/\/+$/, '')
  // The value is not echoed: somebody may have put a key into it.
  if (bucket === undefined || /^\/|\/\/|(^|\/)\.\.?(\/|$)/.test(prefix)) {
    throw new ConfigError('LAKE_URL must look like s3://bucket/prefix, with letters, digits and - _ . = in the prefix')
  }
  if (endpoint !== null && (new URL(endpoint).username !== '' || new URL(endpoint).password !== '')) {
    throw new ConfigError('S3_ENDPOINT must hold no credentials; they are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY')
  }
  // Other servers than AWS mostly do not care, but the signature has to name one.
  const region = optional('AWS_REGION') ?? (endpoint === null ? null : 'us-east-1')
  return Object.freeze({ bucket, prefix, endpoint, region })
}

function readBasePath(value: string): string {
  const path = value.replace(/\/+$/, '')
  if (path !== '' && !/^(\/[A-Za-z0-9._~-]+)+$/.test(path)) throw new ConfigError('BASE_PATH must look like /v1')
  return path
}

const MAX_PROXIES = 10

function readTrustProxy(value: string | null): Config['trustProxy'] {
  if (value === null) return false
  if (/^\d+$/.test(value) && Number(value) >= 1 && Number(value) <= MAX_PROXIES) return Number(value)
  const networks = value.split(',').map((network) => network.trim())
  if (networks.every(isNetwork)) return networks
  throw new ConfigError(
    `TRUST_PROXY must list addresses and networks such as 10.0.0.0/8, or be a number of proxies from 1 to ${MAX_PROXIES}`,
  )
}

function isNetwork(text: string): boolean {
  const [address = '', prefix, ...rest] = text.split('/')
  const bits = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1
  return (
    rest.length === 0 && bits > 0 && (prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) >= 1 && Number(prefix) <= bits))
  )
}

function readCorsOrigins(value: string | null): readonly string[] | '*' | null {
  if (value === null || value === '*') return value
  const origins = value.split(',').map((origin) => origin.trim())
  // As browsers send it: no path, no default port, in lower case. Apps have schemes of their own.
  const isOrigin = (text: string) =>
    /^[a-z][a-z0-9+.-]*:\/\/[^/?#@*\s]+$/.test(text) && URL.canParse(text) && isPlain(text, new URL(text).origin)
  const isPlain = (text: string, origin: string) => origin === text || (origin === 'null' && !text.startsWith('http'))
  if (origins.every(isOrigin)) return origins
  throw new ConfigError('CORS_ORIGINS must be *, or origins such as https://shop.example with commas between')
}

const CACHES = ['varnish:', 'fastly:', 'cloudflare:']

// The values are not echoed: they may hold a token.
function readPurgeUrls(value: string | null): readonly string[] {
  const urls = (value ?? '')
    .split(',')
    .map((url) => url.trim())
    .filter((url) => url !== '')
  const isGood = (url: string) => {
    if (!URL.canParse(url)) return false
    const { protocol, hostname, password } = new URL(url)
    return CACHES.includes(protocol) && hostname !== '' && (protocol === 'varnish:' || password !== '')
  }
  if (urls.every(isGood)) return urls
  throw new ConfigError(
    'CDN_PURGE_URL must be varnish://host:port, fastly://:token@service or cloudflare://:token@zone, or several with commas',
  )
}

function readCurrency(value: string): string {
  if (!isCurrency(value)) throw new ConfigError('CURRENCY must be an ISO 4217 code such as EUR')
  return value
}

function readLocale(value: string): string {
  try {
    const [locale] = Intl.NumberFormat.supportedLocalesOf(value)
    if (locale !== undefined) return locale
  } catch {
    // Not a language tag at all.
  }
  throw new ConfigError('MAIL_LOCALE must be a language tag such as en, de-AT or fr')
}

function optionalPath(value: string | null): string | null {
  return value === null ? null : resolve(value)
}

function readSecret(value: string | null, databaseUrl: string | null): string | null {
  if (value === null && databaseUrl !== null) throw new ConfigError('STOREFRONT_SECRET is required with DATABASE_URL')
  if (value !== null && value.length < SECRET_MIN_LENGTH) {
    throw new ConfigError(`STOREFRONT_SECRET must have at least ${SECRET_MIN_LENGTH} characters`)
  }
  return value
}

import assert from 'node:assert/strict'
import { resolve } from 'node:path'
import { test } from 'node:test'
import { ConfigError } from '../src/config/settings.ts'
import { assertEmbeddedIsMeant, ROLES, readConfig } from '../src/config.ts'

const SECRET = 'a secret that is long enough to be one'
const DATABASE_URL = 'postgres://shop:hunter2@db.example/shop'

/** The refusal of these settings, which must be one line. */
function refusal(settings: Record<string, string>): string {
  try {
    readConfig(settings)
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error))
    assert.ok(!error.message.includes('\n'))
    return error.message
  }
  return assert.fail(`took ${JSON.stringify(settings)}`)
}

test('needs no setting: the embedded store on this machine', () => {
  const { host, port, basePath, baseUrl, dataDir, databaseAddresses, secret, smtpUrl, currency, roles, logLevel, ...rest } = readConfig({})
  assert.deepEqual(
    { host, port, basePath, baseUrl, dataDir, databaseAddresses, secret, smtpUrl, currency, roles, logLevel },
    {
      host: 'localhost',
      port: 3_000,
      basePath: '',
      baseUrl: 'http://localhost:3000',
      dataDir: resolve('data'),
      databaseAddresses: null,
      secret: null,
      smtpUrl: null,
      currency: 'EUR',
      roles: ROLES,
      logLevel: 'info',
    },
  )
  assert.deepEqual([rest.lakeFlushSeconds, rest.lakeFlushRows, rest.refreshGraceSeconds, rest.databasePoolSize], [10, 50_000, 10, 10])
  assert.deepEqual([rest.isRateLimited, rest.isEmailVerificationRequired, rest.trustProxy, rest.accountUrl], [true, false, false, null])
  assert.match(rest.mailFrom, /@/)
  assert.deepEqual([rest.mailTemplates, rest.mailLocale, rest.mailMaxPerHour, rest.isPrivateWebhookAllowed], [null, null, 200, false])
  assert.equal(rest.defaultLanguage, 'en')
})

test('has an operations port on this machine, one that must be free only when it was asked for, or none', () => {
  assert.deepEqual(readConfig({}).operations, { host: 'localhost', port: 9_464, isRequired: false })
  assert.deepEqual(readConfig({ OPS_PORT: '9464' }).operations, { host: 'localhost', port: 9_464, isRequired: true })
  assert.equal(readConfig({ OPS_PORT: 'off' }).operations, null)
  assert.equal(refusal({ OPS_PORT: 'on' }), 'OPS_PORT must be off or a whole number from 0 to 65535, not "on"')
})

test('passkeys belong to the host of BASE_URL or to a domain above it', () => {
  const domainWith = (PASSKEY_DOMAIN?: string) => readConfig({ BASE_URL: 'https://api.shop.example/v1', PASSKEY_DOMAIN }).passkeyDomain
  assert.deepEqual(
    [domainWith(), domainWith('api.shop.example'), domainWith('shop.example')],
    ['api.shop.example', 'api.shop.example', 'shop.example'],
  )
  assert.equal(readConfig({}).passkeyDomain, 'localhost')
  for (const PASSKEY_DOMAIN of ['example', 'op.example', 'other.example', 'https://shop.example', 'x.api.shop.example'])
    assert.match(
      refusal({ BASE_URL: 'https://api.shop.example', PASSKEY_DOMAIN }),
      /^PASSKEY_DOMAIN must be the host of BASE_URL or a domain above it, not "/,
    )
})

test('mails have the language of MAIL_LOCALE unless there is another or the store does not have it', () => {
  const languageWith = (settings: Record<string, string>) => readConfig(settings).defaultLanguage
  assert.equal(languageWith({ MAIL_LOCALE: 'de-AT' }), 'de')
  assert.equal(languageWith({ MAIL_LOCALE: 'pt-BR' }), 'en')
  assert.equal(languageWith({ MAIL_LOCALE: 'de-AT', DEFAULT_LANGUAGE: 'es' }), 'es')
  assert.equal(readConfig({ DEFAULT_LANGUAGE: 'es' }).catalogueLanguage, 'es')
})

test('takes any number of OpenID providers up to ten, each with its own settings, and refuses half of one', () => {
  assert.deepEqual(readConfig({}).oidcProviders, [])
  const ACME = { OIDC_PROVIDERS: 'acme', OIDC_ACME_ISSUER: 'https://id.acme.example', OIDC_ACME_CLIENT_ID: 'shop' }
  const big = {
    OIDC_BIG_ID_ISSUER: 'http://127.0.0.1:9000/realm',
    OIDC_BIG_ID_CLIENT_ID: 'us',
    OIDC_BIG_ID_CLIENT_SECRET: 's',
    OIDC_BIG_ID_NAME: 'Big',
  }
  assert.deepEqual(readConfig({ ...ACME, ...big, OIDC_PROVIDERS: 'acme, big-id' }).oidcProviders, [
    { id: 'acme', name: 'acme', issuer: 'https://id.acme.example', clientId: 'shop', clientSecret: null },
    { id: 'big-id', name: 'Big', issuer: 'http://127.0.0.1:9000/realm', clientId: 'us', clientSecret: 's' },
  ])
  for (const OIDC_PROVIDERS of ['Acme', 'acme,acme', 'a b', '1a', 'a/b', Array.from({ length: 11 }, (_, index) => `a${index}`).join()]) {
    assert.match(refusal({ ...ACME, OIDC_PROVIDERS }), /^OIDC_PROVIDERS must be up to 10 different names/, OIDC_PROVIDERS)
  }
  for (const issuer of [
    'id.acme.example',
    'http://id.acme.example',
    'https://id.acme.example/?x',
    'https://me:secret@id.example',
    'ftp://id.example',
  ]) {
    assert.match(refusal({ ...ACME, OIDC_ACME_ISSUER: issuer }), /^OIDC_ACME_ISSUER must be the https address of the provider/, issuer)
    assert.doesNotMatch(refusal({ ...ACME, OIDC_ACME_ISSUER: issuer }), /secret/)
  }
  for (const name of ['OIDC_ACME_CLIENT_ID', 'OIDC_ACME_ISSUER'])
    assert.equal(refusal({ ...ACME, [name]: '' }), `${name} is required: OIDC_PROVIDERS names acme`)
  const twin = { OIDC_B_ISSUER: ACME.OIDC_ACME_ISSUER, OIDC_B_CLIENT_ID: 'x' }
  assert.equal(refusal({ ...ACME, ...twin, OIDC_PROVIDERS: 'acme,b' }), 'OIDC_PROVIDERS must have different issuers')
})

test('is frozen', () => {
  const config = readConfig({})
  assert.throws(() => Object.assign(config, { port: 1 }), TypeError)
})

test('reads only the environment it is given, and takes a blank setting for none', () => {
  assert.deepEqual(readConfig({ PORT: ' ', DATABASE_URL: '', CURRENCY: '', ROLES: ' ', UNKNOWN: 'x' }), readConfig({}))
})

test('takes each setting it knows', () => {
  const config = readConfig({
    HOST: '0.0.0.0',
    PORT: '0',
    BASE_PATH: '/shop/v1/',
    BASE_URL: 'https://shop.example/v1/',
    DATA_DIR: '/var/lib/shop',
    DATABASE_URL,
    DATABASE_POOL_SIZE: '40',
    STOREFRONT_SECRET: ` ${SECRET} `,
    SMTP_URL: 'smtps://me:hunter2@mail.example',
    SMTP_CA: '/etc/mail-ca.pem',
    MAIL_IDEMPOTENCY_HEADER: 'Resend-Idempotency-Key',
    MAIL_EVENTS_SECRET: 'whsec_c3RvcmVmcm9udCBtYWlsIGV2ZW50cyBzZWNyZXQ=',
    ...{ MAIL_FROM: 'Shop <shop@shop.example>', MAIL_REPLY_TO: 'Help <help@shop.example>' },
    ...{ SHOP_NAME: 'Tea & House', SHOP_LOGO_URL: 'https://shop.example/logo.png', SHOP_COLOR: '#FFD400', SHOP_CONTACT: ' +43 1 23456' },
    EMBEDDED: 'on',
    LAKE_FLUSH_SECONDS: '5',
    LAKE_FLUSH_ROWS: '100',
    REFRESH_GRACE_SECONDS: '0',
    CURRENCY: 'JPY',
    ROLES: 'lake, api,lake',
    EXPECTED_ROLES: 'lake,stream,api',
    ...{ LOG_LEVEL: 'debug', LOG_REQUESTS: 'all', LOG_FORMAT: 'pretty' },
    RATE_LIMITS: 'off',
    ADMIN_SECOND_FACTOR: 'off',
    PASSKEY_DOMAIN: 'shop.example',
    MAX_CONNECTIONS: '700',
    DRAIN_DELAY_SECONDS: '5',
    PAGE_CACHE_MB: '0',
    WEB_CONCURRENCY: '4',
    CDN_MAX_AGE_SECONDS: '3600',
    SHOP_PRODUCT_URL: 'https://shop.example/p/{slug}',
    SHOP_ORDER_URL: 'https://shop.example/order?a=1#old',
    CDN_PURGE_URL: 'varnish://cache:6081',
    MAIL_TEMPLATES: 'mails',
    MAIL_LOCALE: 'de-at',
    DEFAULT_LANGUAGE: 'fr',
    CATALOGUE_LANGUAGE: 'pt-BR',
    SHOP_TIME_ZONE: 'america/santiago',
    OIDC_PROVIDERS: 'acme',
    OIDC_ACME_ISSUER: 'https://id.acme.example',
    OIDC_ACME_CLIENT_ID: 'shop',
    MAIL_MAX_PER_HOUR: '0',
    WEBHOOK_ALLOW_PRIVATE: 'on',
    CORS_ORIGINS: 'https://shop.example, http://localhost:5173,capacitor://localhost',
    ...{ ALLOWED_HOSTS: 'api-1, Store.internal', OPS_PORT: '9000', OPS_HOST: '0.0.0.0' },
    RETAIN_ORDER_ADDRESS_DAYS: '2922',
    CATALOGUE_EVENT_DAYS: '90',
    STOCK_EVENT_PERCENT: '10',
  })
  const { isEmailVerificationRequired, accountUrl, trustProxy, nats, ...known } = config
  assert.deepEqual(known, {
    host: '0.0.0.0',
    port: 0,
    basePath: '/shop/v1',
    baseUrl: 'https://shop.example/v1',
    isBaseUrlGiven: true,
    dataDir: '/var/lib/shop',
    databaseAddresses: { api: DATABASE_URL, stream: DATABASE_URL, owner: DATABASE_URL },
    databasePoolSize: 40,
    isEmbeddedMeant: true,
    secret: SECRET,
    smtpUrl: 'smtps://me:hunter2@mail.example',
    ...{ smtpCaFile: '/etc/mail-ca.pem', staffMails: null },
    ...{ mailFrom: 'Shop <shop@shop.example>', mailReplyTo: 'Help <help@shop.example>', isSenderGiven: true, lakeBucket: null },
    shop: { name: 'Tea & House', logoUrl: 'https://shop.example/logo.png', color: '#ffd400', contact: '+43 1 23456' },
    mailIdempotencyHeader: 'Resend-Idempotency-Key',
    mailEventsSecret: 'whsec_c3RvcmVmcm9udCBtYWlsIGV2ZW50cyBzZWNyZXQ=',
    lakeFlushSeconds: 5,
    lakeFlushRows: 100,
    refreshGraceSeconds: 0,
    isRateLimited: false,
    isNetworkLimited: false,
    isAdminFactorRequired: false,
    passkeyDomain: 'shop.example',
    maxConnections: 700,
    drainDelaySeconds: 5,
    pageCacheBytes: 0,
    sharedCacheSeconds: 3_600,
    shopProductUrl: 'https://shop.example/p/{slug}',
    shopOrderUrl: 'https://shop.example/order?a=1',
    cdnPurgeUrls: ['varnish://cache:6081'],
    maxQuantityPerProductAndUser: null,
    objectStoreEnvironment: {},
    pendingOrderTtlSeconds: 604_800,
    ...{ isIdempotencyKeyRequired: false, customerCancel: 'pending', duplicateOrderSeconds: 0 },
    guestPendingOrderTtlSeconds: 3_600,
    maxGuestStockPercent: 20,
    maxPendingOrdersPerUser: 10_000,
    retainOrderAddressDays: 2_922,
    catalogueEventDays: 90,
    stockEventPercent: 10,
    mailTemplates: resolve('mails'),
    mailLocale: 'de-AT',
    defaultLanguage: 'fr',
    timeZone: 'America/Santiago',
    catalogueLanguage: 'pt-BR',
    oidcProviders: [{ id: 'acme', name: 'acme', issuer: 'https://id.acme.example', clientId: 'shop', clientSecret: null }],
    mailMaxPerHour: null,
    isPrivateWebhookAllowed: true,
    allowedHosts: ['api-1', 'store.internal'],
    corsOrigins: ['https://shop.example', 'http://localhost:5173', 'capacitor://localhost'],
    currency: 'JPY',
    operations: { host: '0.0.0.0', port: 9_000, isRequired: true },
    webConcurrency: 4,
    traces: null,
    roles: ['api', 'lake'],
    expectedRoles: ['api', 'stream', 'lake'],
    ...{ logLevel: 'debug', loggedRequests: 'all', logFormat: 'pretty' },
  })
})

test('derives the public address from port and prefix, and flushes the lake less often beside a database of its own', () => {
  assert.equal(readConfig({ PORT: '8080', BASE_PATH: '/v1' }).baseUrl, 'http://localhost:8080/v1')
  assert.equal(readConfig({ DATABASE_URL, STOREFRONT_SECRET: SECRET }).lakeFlushSeconds, 30)
})

test('refuses whole numbers that are none or out of range', () => {
  for (const PORT of ['abc', '-1', '65536', '1.5', '1e3', '0x10', '99999999999']) {
    assert.equal(refusal({ PORT }), `PORT must be a whole number from 0 to 65535, not "${PORT}"`)
  }
  assert.match(refusal({ DATABASE_POOL_SIZE: '1' }), /^DATABASE_POOL_SIZE must be a whole number from 2/)
  assert.match(refusal({ LAKE_FLUSH_SECONDS: '0' }), /^LAKE_FLUSH_SECONDS must be a whole number from 1/)
  assert.match(refusal({ LAKE_FLUSH_ROWS: '1000001' }), /^LAKE_FLUSH_ROWS must be a whole number from 1 to 1000000/)
  assert.match(refusal({ REFRESH_GRACE_SECONDS: '301' }), /^REFRESH_GRACE_SECONDS must be a whole number from 0 to 300/)
})

test('refuses addresses of another kind and never shows the password in them', () => {
  for (const [name, values] of Object.entries({
    DATABASE_URL: ['mysql://shop:hunter2@db/shop', 'shop:hunter2@db', 'hunter2'],
    SMTP_URL: ['http://me:hunter2@mail', 'mail.example:hunter2'],
    ...{ BASE_URL: ['ftp://hunter2@shop.example', 'shop.example'], SHOP_LOGO_URL: ['https://me:hunter2@shop.example/logo.png'] },
  })) {
    for (const value of values) {
      const message = refusal({ STOREFRONT_SECRET: SECRET, [name]: value })
      assert.match(message, new RegExp(`^${name} must be a URL that starts with \\w+://`))
      assert.ok(!message.includes('hunter2'))
    }
  }
})

test('an address whose password is not percent-encoded is refused with what to write, and without the password', () => {
  for (const [name, url, starts] of [
    ['SMTP_URL', 'smtp://apikey:SG.a/b#c@smtp.example:587', 'smtp:// or smtps://'],
    ['DATABASE_URL', 'postgres://shop:a#b@db/shop', 'postgres:// or postgresql://'],
  ] as const) {
    assert.equal(
      refusal({ STOREFRONT_SECRET: SECRET, [name]: url }),
      `${name} must be a URL that starts with ${starts} and has / ? # and % of user and password percent-encoded (%2F %3F %23 %25)`,
    )
  }
  const SMTP_URL = 'smtp://apikey:SG.a%2Fb%23c@smtp.example:587'
  assert.equal(readConfig({ STOREFRONT_SECRET: SECRET, SMTP_URL }).smtpUrl, SMTP_URL)
})

test('refuses a public address that no path can be appended to', () => {
  for (const BASE_URL of ['https://shop.example/?a=1', 'https://shop.example/#a', 'https://me:hunter2@shop.example']) {
    assert.equal(
      refusal({ BASE_URL }),
      'BASE_URL must be a URL that starts with http:// or https:// and has no query, no fragment and no credentials',
    )
  }
  assert.equal(readConfig({ BASE_URL: 'https://shop.example/api/v1//' }).baseUrl, 'https://shop.example/api/v1')
})

test('refuses a database without a secret, and a short secret without showing it', () => {
  assert.equal(refusal({ DATABASE_URL }), 'STOREFRONT_SECRET is required with DATABASE_URL')
  assert.equal(refusal({ STOREFRONT_SECRET: 'x'.repeat(31) }), 'STOREFRONT_SECRET must be at least 32 characters long')
  assert.equal(readConfig({ STOREFRONT_SECRET: 'x'.repeat(32) }).secret, 'x'.repeat(32))
})

test('refuses words that are not on the list', () => {
  assert.match(refusal({ ROLES: 'api,kitchen' }), new RegExp(`^ROLES must be some of ${ROLES.join(', ')}, not "api,kitchen"$`))
  assert.match(refusal({ MAIL_LOCALE: 'kitchen_' }), /^MAIL_LOCALE must be a language tag/)
  for (const DEFAULT_LANGUAGE of ['it', 'DE', 'de-AT', 'en,de']) {
    assert.equal(refusal({ DEFAULT_LANGUAGE }), `DEFAULT_LANGUAGE must be one of en, de, fr, es, not "${DEFAULT_LANGUAGE}"`)
  }
  for (const CATALOGUE_LANGUAGE of ['DE', 'pt-br', 'pt_BR', 'iw', 'x-klingon', 'german', 'de-DE-u-co-phonebk'])
    assert.match(refusal({ CATALOGUE_LANGUAGE }), /^CATALOGUE_LANGUAGE must be a language tag in canonical form/)
  assert.match(refusal({ ROLES: ',' }), /^ROLES must be some of/)
  assert.equal(refusal({ LOG_FORMAT: 'xml' }), 'LOG_FORMAT must be one of auto, pretty, json, not "xml"')
  assert.match(refusal({ LOG_LEVEL: 'loud' }), /^LOG_LEVEL must be one of trace, debug/)
  assert.match(refusal({ RATE_LIMITS: 'maybe' }), /^RATE_LIMITS must be one of on, off, not "maybe"$/)
  for (const CURRENCY of ['eur', 'EURO', '€']) assert.match(refusal({ CURRENCY }), /^CURRENCY must be an ISO 4217 code/)
  for (const BASE_PATH of ['v1', '/a b', '/../x?', '//']) {
    if (BASE_PATH !== '//') assert.equal(refusal({ BASE_PATH }), `BASE_PATH must be a path such as /v1, not "${BASE_PATH}"`)
    else assert.equal(readConfig({ BASE_PATH }).basePath, '')
  }
})

test('takes off, and no zero, for a limit of orders that is not to be', () => {
  for (const name of ['PENDING_ORDER_TTL', 'MAX_PENDING_ORDERS_PER_USER', 'MAX_QUANTITY_PER_PRODUCT_AND_USER']) {
    assert.match(refusal({ [name]: '0' }), new RegExp(`^${name} must be off or a whole number from 1 to \\d+, not "0"$`))
  }
  const none = readConfig({ PENDING_ORDER_TTL: 'off', MAX_PENDING_ORDERS_PER_USER: 'off', MAX_QUANTITY_PER_PRODUCT_AND_USER: 'off' })
  assert.deepEqual([none.pendingOrderTtlSeconds, none.maxPendingOrdersPerUser, none.maxQuantityPerProductAndUser], [null, null, null])
  assert.equal(readConfig({ PENDING_ORDER_TTL: '1' }).pendingOrderTtlSeconds, 1)
})

test('takes a bucket for the lake, and refuses what is none without showing it', () => {
  assert.equal(readConfig({ AWS_REGION: 'eu-central-1' }).lakeBucket, null)
  const aws = readConfig({ LAKE_URL: 's3://my.bucket/a/b_c/', AWS_REGION: 'eu-central-1' }).lakeBucket
  assert.deepEqual(aws, { bucket: 'my.bucket', prefix: 'a/b_c', endpoint: null, region: 'eu-central-1' })
  assert.deepEqual(readConfig({ LAKE_URL: 's3://bucket' }).lakeBucket, { bucket: 'bucket', prefix: '', endpoint: null, region: null })
  const other = readConfig({ LAKE_URL: 's3://bucket/lake', S3_ENDPOINT: 'http://127.0.0.1:9000' }).lakeBucket
  assert.deepEqual(other, { bucket: 'bucket', prefix: 'lake', endpoint: 'http://127.0.0.1:9000', region: 'us-east-1' })
  for (const LAKE_URL of [
    's3://',
    's3://B',
    'https://bucket',
    's3://hunter2:x@bucket/a',
    's3://bucket/a//b',
    's3://bucket/../b',
    's3://bucket/a b',
  ]) {
    const message = refusal({ LAKE_URL })
    assert.match(message, /^LAKE_URL must be an address such as s3:\/\/bucket\/prefix/)
    assert.ok(!message.includes('hunter2'))
  }
  assert.match(refusal({ S3_ENDPOINT: 'http://127.0.0.1:9000' }), /^S3_ENDPOINT needs LAKE_URL/)
  assert.match(refusal({ LAKE_URL: 's3://bucket', S3_ENDPOINT: 's3.example' }), /^S3_ENDPOINT must be a URL/)
  assert.match(
    refusal({ LAKE_URL: 's3://bucket', S3_ENDPOINT: 'http://me:hunter2@s3.example' }),
    /^S3_ENDPOINT must be a URL that starts with http:\/\/ or https:\/\/ and has no credentials$/,
  )
})

test('takes several brokers, and refuses an address of anything else without showing it', () => {
  assert.equal(readConfig({}).nats, null)
  assert.equal(readConfig({ NATS_REPLICAS: '3' }).nats, null)
  const nats = readConfig({ NATS_URL: 'nats://me:hunter2@a:4222, tls://b', NATS_REPLICAS: '3', NATS_CREDENTIALS: '/run/nats.creds' }).nats
  assert.deepEqual([nats?.servers, nats?.replicas, nats?.credentialsFile], ['nats://me:hunter2@a:4222, tls://b', 3, '/run/nats.creds'])
  for (const NATS_URL of ['a:4222', 'http://me:hunter2@a', 'nats://a,', 'nats://']) {
    assert.equal(refusal({ NATS_URL }), 'NATS_URL must be URLs that start with nats:// or tls://, separated by commas')
  }
  assert.equal(refusal({ NATS_URL: 'nats://a', NATS_CERT: '/cert.pem' }), 'NATS_CERT and NATS_KEY must be set together')
  assert.deepEqual(
    ['1', '3', '5'].map((NATS_REPLICAS) => readConfig({ NATS_URL: 'nats://a', NATS_REPLICAS }).nats?.replicas),
    [1, 3, 5],
  )
  for (const NATS_REPLICAS of ['0', '2', '4', '7', 'three']) {
    assert.equal(refusal({ NATS_URL: 'nats://a', NATS_REPLICAS }), `NATS_REPLICAS must be one of 1, 3, 5, not "${NATS_REPLICAS}"`)
  }
})

test('refuses the embedded store to one process among several, unless it is meant', () => {
  const assertMeant = (settings: Record<string, string>) => assertEmbeddedIsMeant(readConfig({ DATA_DIR: '/shop', ...settings }))
  const message = (reason: string) => `${reason}, and DATABASE_URL is not set; set it, or EMBEDDED=on for the embedded store in /shop`
  for (const [settings, reason] of [
    [{ ROLES: 'api,lake' }, 'the process has only the roles api, lake'],
    [{ NATS_URL: 'nats://a' }, 'NATS_URL is set'],
  ] as const) {
    assert.throws(() => assertMeant(settings), new ConfigError(message(reason)))
    assertMeant({ ...settings, EMBEDDED: 'on' })
    assertMeant({ ...settings, DATABASE_URL, STOREFRONT_SECRET: SECRET })
  }
  // One machine's store may well send mails and have its lake in a bucket.
  assertMeant({ SMTP_URL: 'smtp://mail', LAKE_URL: 's3://bucket', STOREFRONT_SECRET: SECRET })
  assert.match(refusal({ EMBEDDED: 'yes' }), /^EMBEDDED must be one of on, off, not "yes"$/)
})

test('refuses a sender that is no address, and takes one with and without a name', () => {
  for (const MAIL_FROM of ['nope', 'Shop', 'Shop <shop>', '<a@b> x', 'a b@c', 'a@b@c', 'Shop <a@b.example>, b@c.example']) {
    assert.equal(
      refusal({ MAIL_FROM }),
      `MAIL_FROM must be an e-mail address, such as Store <no-reply@store.example>, not ${JSON.stringify(MAIL_FROM)}`,
    )
  }
  for (const MAIL_FROM of ['shop@shop.example', 'Shop <shop@shop.example>', '"The, Shop" <shop@shop.example>']) {
    assert.equal(readConfig({ MAIL_FROM }).mailFrom, MAIL_FROM)
    assert.equal(readConfig({ MAIL_REPLY_TO: MAIL_FROM }).mailReplyTo, MAIL_FROM)
  }
  assert.equal(readConfig({ MAIL_FROM: 'Müller <shop@läden.example>' }).mailFrom, 'Müller <shop@xn--lden-loa.example>')
  assert.equal(readConfig({ MAIL_REPLY_TO: 'shop@läden.example' }).mailReplyTo, 'shop@xn--lden-loa.example')
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ConfigError } from '../src/config/settings.ts'
import { ROLES, readConfig, readEnvironment } from '../src/config.ts'
import { runStorefront } from './store-process.ts'

const SECRET = 'hunter2'
const LONG_SECRET = `${SECRET} that is long enough to be a secret`

/** Every setting that may contain a secret, with values that the store takes. */
const WITH_SECRETS = {
  DATABASE_URL: `postgres://shop:${SECRET}@db.example/shop?sslmode=require&sslpassword=${SECRET}`,
  DATABASE_STREAM_URL: `postgres://stream:${SECRET},x@db.example/shop`,
  STOREFRONT_SECRET: LONG_SECRET,
  NATS_URL: `nats://${SECRET}@a:4222, tls://me:${SECRET}@b`,
  SMTP_URL: `smtps://${SECRET}:${SECRET},@mail.example`,
  ACCOUNT_URL: `https://shop.example/account?key=${SECRET}#${SECRET}`,
  CDN_PURGE_URL: `fastly://:${SECRET}@service?api=http://me:${SECRET}@a,cloudflare://:${SECRET}@zone`,
  LAKE_URL: 's3://bucket/lake',
  AWS_SECRET_ACCESS_KEY: SECRET,
  AWS_SESSION_TOKEN: SECRET,
  OIDC_PROVIDERS: 'acme',
  OIDC_ACME_ISSUER: 'https://id.example',
  OIDC_ACME_CLIENT_ID: 'shop',
  OIDC_ACME_CLIENT_SECRET: SECRET,
  OTEL_EXPORTER_OTLP_ENDPOINT: `https://me:${SECRET}@otel.example`,
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `https://otel.example/?key=${SECRET}`,
  OTEL_EXPORTER_OTLP_HEADERS: `api-key=${SECRET}`,
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: `api-key=${SECRET}`,
}

test('config prints each setting with its value and its origin', async (t) => {
  const env = { BASE_URL: 'https://shop.example/', DATA_DIR: '/srv/shop', PENDING_ORDER_TTL: 'off', ROLES: 'lake,api' }
  const { status, stdout, stderr } = await runStorefront(t, ['config', '--json'], { env })
  assert.deepEqual([status, stderr], [0, ''])
  const { settings, problems, warnings } = JSON.parse(stdout)
  assert.deepEqual([problems, warnings], [[], []])
  const find = (name: string) => settings.find((setting: { name: string }) => setting.name === name)
  for (const [name, value, origin, from] of [
    ['HOST', 'localhost', 'default', null],
    ['BASE_URL', 'https://shop.example', 'environment', null],
    ['PASSKEY_DOMAIN', 'shop.example', 'derived', 'BASE_URL'],
    ['DATA_DIR', '/srv/shop', 'environment', null],
    ['ROLES', 'api, lake', 'environment', null],
    ['PENDING_ORDER_TTL', 'off', 'environment', null],
    ['SMTP_URL', null, 'default', null],
    ['LAKE_FLUSH_SECONDS', '10', 'default', null],
  ] as const)
    assert.deepEqual([find(name).value, find(name).origin, find(name).from], [value, origin, from], name)
  assert.equal(find('SMTP_URL').default, 'mails are files')
  const text = await runStorefront(t, ['config'], { env })
  assert.match(text.stdout, /^PASSKEY_DOMAIN +\| shop\.example +\| derived from BASE_URL$/m)
  assert.match(text.stdout, /^SMTP_URL +\| \(mails are files\) +\| default$/m)
})

test('config shows each value as a person would write it, also a default that is no text', () => {
  for (const { name, value } of readEnvironment({}).settings)
    assert.ok(value === null || !/\[object|\*\*\*/.test(value), `${name}: ${value}`)
})

test('config shows what is derived from a database of its own', () => {
  const { settings, problems } = readEnvironment({ DATABASE_URL: WITH_SECRETS.DATABASE_URL, STOREFRONT_SECRET: LONG_SECRET })
  assert.deepEqual(problems, [])
  const byName = new Map(settings.map((setting) => [setting.name, setting]))
  for (const name of ['DATABASE_STREAM_URL', 'DATABASE_OWNER_URL', 'LAKE_FLUSH_SECONDS'])
    assert.deepEqual([byName.get(name)?.origin, byName.get(name)?.from], ['derived', 'DATABASE_URL'])
  assert.equal(byName.get('DATABASE_OWNER_URL')?.value, 'postgres://shop:***@db.example/shop?sslmode=require&sslpassword=***')
})

test('no secret is printed, neither by config nor with a refusal, whichever setting it is in', async (t) => {
  assert.deepEqual(readEnvironment(WITH_SECRETS).problems, [])
  for (const args of [['config'], ['config', '--json']]) {
    const { status, stdout, stderr } = await runStorefront(t, args, { env: WITH_SECRETS })
    assert.equal(status, 0, stderr)
    assert.ok(stdout.includes('***') && !(stdout + stderr).includes(SECRET), stdout)
  }
  const broken = Object.entries(WITH_SECRETS).filter(([, value]) => value.includes(SECRET))
  for (const [name, value] of broken) {
    for (const wrong of [value.replace('://', ':/ /'), value.replace('://', ':'), `ftp://me:${SECRET}@x`, SECRET]) {
      const { settings, problems } = readEnvironment({ ...WITH_SECRETS, [name]: wrong })
      assert.ok(!JSON.stringify([settings, problems]).includes(SECRET), name)
    }
  }
})

test('all problems are reported at once, with the values that are no secrets', async (t) => {
  const env = {
    ...{ DATABASE_URL: `mysql://me:${SECRET}@db/shop`, STOREFRONT_SECRET: SECRET, PORT: 'abc', MAIL_FROM: 'nope', ROLES: 'api,kitchen' },
    ...{ BASE_URL: `https://me:${SECRET}@shop.example`, PASSKEY_DOMAIN: 'shop.example', SMTP_ULR: `smtp://me:${SECRET}@mail` },
  }
  const lines = [
    'PORT must be a whole number from 0 to 65535, not "abc"',
    'DATABASE_URL must be a URL that starts with postgres:// or postgresql://',
    'BASE_URL must be a URL that starts with http:// or https:// and has no query, no fragment and no credentials',
    'MAIL_FROM must be an e-mail address, such as Store <no-reply@store.example>, not "nope"',
    'STOREFRONT_SECRET must be at least 32 characters long',
    `ROLES must be some of ${ROLES.join(', ')}, not "api,kitchen"`,
    'SMTP_ULR is no setting: did you mean SMTP_URL?',
  ]
  const serve = await runStorefront(t, ['serve'], { env })
  assert.deepEqual(serve, {
    ...{ status: 2, stdout: '' },
    stderr: `storefront: the settings cannot be used:\n${lines.map((line) => `  ${line}\n`).join('')}`,
  })
  const config = await runStorefront(t, ['config', '--json'], { env })
  assert.equal(config.status, 2)
  const { settings, problems, warnings } = JSON.parse(config.stdout)
  assert.deepEqual([...problems, ...warnings], lines)
  const port = settings.find(({ name }: { name: string }) => name === 'PORT')
  assert.deepEqual([port.value, port.origin], [null, 'refused'])
})

test('the problems of settings that belong together do not follow from another refusal', () => {
  const problemsOf = (env: Record<string, string>) => readEnvironment({ STOREFRONT_SECRET: LONG_SECRET, ...env }).problems
  const stream = 'postgres://stream@db/shop'
  assert.equal(problemsOf({ DATABASE_URL: 'nope', DATABASE_STREAM_URL: stream }).length, 1)
  assert.deepEqual(problemsOf({ DATABASE_STREAM_URL: stream }), ['DATABASE_STREAM_URL goes with DATABASE_URL, which is not set'])
  assert.equal(problemsOf({ LAKE_URL: 'nope', S3_ENDPOINT: 'http://127.0.0.1:9000' }).length, 1)
  assert.throws(() => readConfig({ NATS_URL: 'nats://a', NATS_CERT: '/x' }), new ConfigError('NATS_CERT and NATS_KEY must be set together'))
})

test('a name that resembles a setting is reported with the nearest one, and no other name is', async (t) => {
  const misspeltIn = (...names: string[]) => readEnvironment(Object.fromEntries(names.map((name) => [name, SECRET]))).misspelt
  assert.deepEqual(misspeltIn('SMTP_ULR', 'DATABASE_URI', 'smtp_url', 'LOGLEVEL', 'STOREFRONT_SECERT', 'PROT'), [
    'SMTP_ULR is no setting: did you mean SMTP_URL?',
    'DATABASE_URI is no setting: did you mean DATABASE_URL?',
    'smtp_url is no setting: did you mean SMTP_URL?',
    'LOGLEVEL is no setting: did you mean LOG_LEVEL?',
    'STOREFRONT_SECERT is no setting: did you mean STOREFRONT_SECRET?',
    'PROT is no setting: did you mean PORT?',
  ])
  // What shells, Kubernetes, systemd, npm and AWS's SDK set.
  const foreign = [
    ...['HOME', 'PATH', 'HOSTNAME', 'LANG', 'PWD', 'USER', 'TMPDIR', 'NODE_ENV', 'NODE_OPTIONS', 'PGHOST', 'PGPORT', 'TERM', 'SHLVL'],
    ...['STOREFRONT_SERVICE_HOST', 'STOREFRONT_PORT', 'NATS_PORT', 'NATS_SERVICE_PORT', 'KUBERNETES_PORT', 'AWS_REGIONS', 'AWS_PROFILE'],
    ...['INVOCATION_ID', 'JOURNAL_STREAM', 'npm_config_cache', 'INIT_CWD', 'COLOR', 'EDITOR', 'SHELL', '_'],
  ]
  assert.deepEqual(misspeltIn(...foreign), [])
  const { status, stderr } = await runStorefront(t, ['lake', 'query', 'select 1'], { env: { SMTP_ULR: SECRET, DATA_DIR: '/nowhere' } })
  assert.deepEqual([status, stderr.split('\n')[0]], [1, 'storefront: SMTP_ULR is no setting: did you mean SMTP_URL?'])
})

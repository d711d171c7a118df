import assert from 'node:assert/strict'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { catalogueSlotOf, orderSlotOf } from '../src/app/prepare-database.ts'
import { openSecret } from '../src/app/secrets.ts'
import { changeIssuer } from '../src/auth/tokens/issuer.ts'
import { createReplicationSlot } from '../src/change-stream/replication-slot.ts'
import { recordCreatedSlot } from '../src/change-stream/slot-positions.ts'
import { roleOf } from '../src/db/addresses.ts'
import { LocalLakeStore } from '../src/lake/local-store.ts'
import { makeDataFolder } from './data-folders.ts'
import { createTestDatabase, databaseUrl } from './database.ts'
import { assertFinding, examine } from './doctor-harness.ts'
import { Stopwatch } from './eventually.ts'
import { freePort } from './free-port.ts'
import { startHangingServer } from './hanging-server.ts'
import { writeFiles } from './lake-harness.ts'
import { type Conditions, startS3Server } from './s3-server.ts'
import { startSmtpServer } from './smtp-server.ts'
import { TEST_SECRET } from './store.ts'
import { fillDisk, mountTmpfs, NO_TMPFS } from './tmpfs.ts'

/** A database with its slot, and the settings of its roles. */
async function makeDatabase(t: TestContext) {
  const db = await createTestDatabase(t)
  const slot = orderSlotOf(db.url)
  for (const name of [slot, catalogueSlotOf(db.url)]) {
    await createReplicationSlot(db.pool, name)
    await recordCreatedSlot(db.pool, name)
  }
  const { api, stream, owner } = db.addresses
  return { db, slot, env: { DATABASE_URL: api, DATABASE_STREAM_URL: stream, DATABASE_OWNER_URL: owner } }
}

const FILE = 'iceberg/order_events/metadata/snap-0000000000000001-0.avro'

/** A bucket whose lake has one file. */
async function makeBucket(t: TestContext, options: { conditions?: Conditions } = {}) {
  const server = await startS3Server(t, options)
  Object.assign(process.env, server.env)
  const today = new Date().toISOString().slice(0, 10)
  const file = join(server.folder, 'lake', FILE.replace('2026-11-22', today))
  mkdirSync(join(file, '..'), { recursive: true })
  writeFileSync(file, 'the bytes of a file')
  return { server, file, env: { LAKE_URL: `s3://${server.bucket}/lake`, S3_ENDPOINT: server.url, AWS_REGION: server.env.AWS_REGION ?? '' } }
}

test('everything is well in a store that is complete, and nothing is changed by looking', async (t) => {
  const { db, slot, env } = await makeDatabase(t)
  const mails = await startSmtpServer(t)
  const bucket = await makeBucket(t)
  const read = async () =>
    (await db.pool.query('select confirmed_flush_lsn, restart_lsn from pg_replication_slots where slot_name = $1', [slot])).rows
  const before = await read()
  const all = { ...env, ...bucket.env, SMTP_URL: mails.url, MAIL_FROM: 'Shop <shop@shop.example>', EMAIL_VERIFICATION: 'required' }
  const findings = await examine({ ...all, BASE_URL: 'https://shop.example', TRUST_PROXY: '10.0.0.0/8', IDEMPOTENCY_KEY: 'required' })
  assert.deepEqual(
    findings.filter(({ status }) => status !== 'ok').map(({ check, found }) => [check, found.replace(/,.*/, '')]),
    [
      ['database server', 'fsync is off'],
      ['slot', `${slot} is not read by any process`],
    ],
    'no process of this store runs, and the server of the tests does not wait for its disk',
  )
  const checks = [
    'versions',
    'settings',
    'proxies',
    'repeats',
    'process',
    'disk',
    'database',
    'database server',
    'schema',
    'clock',
    'secret',
    'issuer',
  ]
  const others = ['stream role', 'owner role', 'slot', 'catalogue slot', 'standby', 'broker', 'mail server', 'lake', 'lake tables', 'cache']
  assert.deepEqual(
    findings.map(({ check }) => check),
    [...checks, ...others],
  )
  assertFinding(findings, 'database', 'ok', /^PostgreSQL \d+\.\d+.*, database test_\w+, role \w+$/)
  assertFinding(findings, 'lake', 'ok', /can be listed, read and written, and refuses to overwrite/)
  assert.deepEqual([mails.mails.length, await read()], [0, before])
  assert.equal(readFileSync(bucket.file, 'utf8'), 'the bytes of a file')
  assert.equal(readdirSync(bucket.server.folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()).length, 1)
})

test('a database that refuses, does not exist or does not run is one problem with its setting', async (t) => {
  const { env } = await makeDatabase(t)
  const wrong = (url: string) => Object.assign(new URL(url), { password: 'hunter2' }).href
  const password = await examine({ ...env, DATABASE_URL: wrong(env.DATABASE_URL) })
  assertFinding(password, 'database', 'problem', /password authentication failed/, /^check DATABASE_URL$/)
  const stream = await examine({ ...env, DATABASE_STREAM_URL: wrong(env.DATABASE_STREAM_URL) })
  assertFinding(stream, 'stream role', 'problem', /password authentication failed/, /^check DATABASE_STREAM_URL$/)
  assertFinding(stream, 'database', 'ok', /^PostgreSQL/)
  const owner = await examine({ ...env, DATABASE_OWNER_URL: wrong(env.DATABASE_OWNER_URL) })
  assertFinding(owner, 'owner role', 'problem', /password authentication failed/, /^check DATABASE_OWNER_URL$/)
  assertFinding(await examine({ DATABASE_URL: databaseUrl('nowhere') }), 'database', 'problem', /database "nowhere" does not exist/)
  const away = await examine({ DATABASE_URL: `postgres://me:hunter2@127.0.0.1:${await freePort()}/shop` })
  assertFinding(away, 'database', 'problem', /ECONNREFUSED/, /^check that it runs, and DATABASE_URL$/)
  assert.ok(!JSON.stringify([password, stream, owner, away]).includes('hunter2'))
  assert.equal(away.filter(({ status }) => status === 'problem').length, 1)
})

test('servers that hang are problems after a bounded time, all at once', async (t) => {
  const port = await startHangingServer(t)
  const env = {
    ...{ DATABASE_URL: `postgres://me@127.0.0.1:${port}/shop`, NATS_URL: `nats://127.0.0.1:${port}`, SMTP_URL: `smtp://127.0.0.1:${port}` },
    ...{ LAKE_URL: 's3://bucket/lake', S3_ENDPOINT: `http://127.0.0.1:${port}`, OPS_PORT: String(port) },
    CDN_PURGE_URL: `varnish://127.0.0.1:${port}`,
  }
  Object.assign(process.env, { AWS_ACCESS_KEY_ID: 'x', AWS_SECRET_ACCESS_KEY: 'x' })
  const stopwatch = new Stopwatch(t)
  const findings = await examine(env, { timeoutMs: 1_000 })
  assert.ok(stopwatch.ms < 5_000)
  for (const check of ['database', 'broker', 'mail server', 'lake', 'process', 'cache'])
    assertFinding(findings, check, 'problem', /^no answer within 1 s$/)
})

test('a slot that is missing, or whose refill was not finished, is a problem', async (t) => {
  const { db, slot, env } = await makeDatabase(t)
  await db.pool.query(`update slot_positions set refill_id = gen_random_uuid(), refill_reason = 'it was lost' where slot_name = $1`, [slot])
  assertFinding(await examine(env), 'slot', 'problem', /^it was lost; the role stream publishes what is missing$/, /role stream/)
  await db.pool.query('select pg_drop_replication_slot($1)', [slot])
  assertFinding(await examine(env), 'slot', 'problem', /does not exist/, /start a process with the role stream/)
})

test('missing rights, a pending migration and another secret are problems', async (t) => {
  const { db, env } = await makeDatabase(t)
  await openSecret(db.pool, db.url, { secret: TEST_SECRET, dataDir: '' })
  assertFinding(await examine(env), 'secret', 'ok', /is that of the store/)
  assertFinding(
    await examine({ ...env, STOREFRONT_SECRET: 'x'.repeat(40) }),
    'secret',
    'problem',
    /is not that of the store/,
    /last changed to/,
  )
  await changeIssuer(db.pool, 'https://shop.example')
  const issuer = await examine({ ...env, BASE_URL: 'https://other.example' })
  assertFinding(issuer, 'issuer', 'problem', /issued for https:\/\/shop\.example$/, /storefront issuer change/)
  await db.pool.query(`revoke insert on orders from ${roleOf(env.DATABASE_URL)}`)
  await db.pool.query(`revoke usage on order_numbers from ${roleOf(env.DATABASE_URL)}`)
  assertFinding(await examine(env), 'schema', 'problem', /lacks rights: insert on orders, usage on order_numbers$/, /storefront migrate/)
  await db.pool.query('delete from migrations where name = (select max(name) from migrations)')
  assertFinding(await examine(env), 'schema', 'problem', /lacks 1 of \d+ migrations/, /^run storefront migrate$/)
  const stream = await examine({ ...env, DATABASE_STREAM_URL: env.DATABASE_URL })
  assertFinding(stream, 'stream role', 'problem', /may not replicate/, /set DATABASE_STREAM_URL .* or run "alter role/)
})

test('a clock that differs is a warning, and a problem from five minutes on', async (t) => {
  const { env } = await makeDatabase(t)
  for (const [seconds, status] of [
    [0, 'ok'],
    [60, 'warning'],
    [-60, 'warning'],
    [-600, 'problem'],
    [600, 'problem'],
  ] as const)
    assertFinding(await examine(env, { now: () => Date.now() + seconds * 1_000 }), 'clock', status, /differ by \d+\.\d s$/)
})

test('a mail server that is closed, and a sender that was forgotten', async (t) => {
  const server = await startSmtpServer(t)
  assertFinding(await examine({ SMTP_URL: server.url }), 'mail server', 'warning', /MAIL_FROM is not set/, /set MAIL_FROM/)
  assertFinding(await examine({ SMTP_URL: server.url.replace('smtp:', 'smtps:') }), 'mail server', 'problem', /SSL|TLS|wrong version/i)
  await server.stop()
  const away = await examine({ SMTP_URL: server.url })
  assertFinding(away, 'mail server', 'problem', /ECONNREFUSED/, /check that the mail server runs/)
  assertFinding(away, 'settings', 'warning', /anybody can make this store mail/, /^set EMAIL_VERIFICATION=required$/)
})

test('mail templates with which a process of the role email would not start', async () => {
  const env = { DATABASE_URL: databaseUrl('nowhere'), MAIL_TEMPLATES: '/nowhere/at/all' }
  assertFinding(
    await examine(env),
    'settings',
    'problem',
    /^MAIL_TEMPLATES: \/nowhere\/at\/all is not a folder$/,
    /^correct MAIL_TEMPLATES or the file/,
  )
  assertFinding(await examine({ ...env, ROLES: 'lake' }), 'settings', 'ok', /./)
})

test('a bucket that does not exist, refuses the key, or overwrites', async (t) => {
  const { server, env } = await makeBucket(t)
  assertFinding(await examine({ ...env, LAKE_URL: 's3://another/lake' }), 'lake', 'problem', /NoSuchBucket/, /check LAKE_URL/)
  assertFinding(await examine({ ...env, LAKE_URL: `s3://${server.bucket}/empty` }), 'lake', 'ok', /refuses to overwrite/)
  assert.deepEqual(readdirSync(join(server.folder, 'empty/.probe')), [])
  process.env.AWS_SECRET_ACCESS_KEY = 'wrong'
  assertFinding(await examine(env), 'lake', 'problem', /SignatureDoesNotMatch/, /credentials/)
  for (const [conditions, found] of [
    ['ignored', /ignores If-None-Match/],
    ['refused', /does not implement If-None-Match/],
  ] as const) {
    const { server: other, env: settings } = await makeBucket(t, { conditions })
    assertFinding(await examine({ ...settings, LAKE_URL: `s3://${other.bucket}/empty` }), 'lake', 'problem', found, /conditional writes/)
  }
  const careless = await makeBucket(t, { conditions: 'ignored' })
  assertFinding(await examine(careless.env), 'lake', 'problem', /ignores If-None-Match/, /conditional writes/)
  assert.equal(readFileSync(careless.file, 'utf8'), 'the bytes of a file')
})

test('tables of the lake that are damaged or were moved', async (t) => {
  const { lake: root } = makeDataFolder(t)
  const directory = dirname(root)
  const look = () => examine({ DATA_DIR: directory })
  assertFinding(await look(), 'lake tables', 'ok', /^none was written yet$/)
  await writeFiles(t, new LocalLakeStore(root), [3])
  assertFinding(await look(), 'lake tables', 'ok', /^order_events can be read$/)
  const metadata = join(root, 'iceberg/order_events/metadata')
  writeFileSync(join(metadata, 'v9.metadata.json'), '{"format-version": 2,')
  const found = /v9\.metadata\.json: it is no metadata of a table, or was changed$/
  assertFinding(await look(), 'lake tables', 'warning', found, /^run storefront lake repair$/)
  rmSync(join(metadata, 'v9.metadata.json'))
  renameSync(metadata, `${metadata}.aside`)
  assertFinding(await look(), 'lake tables', 'warning', /the metadata of the lake are gone$/, /^run storefront lake repair$/)
  renameSync(`${metadata}.aside`, metadata)
  const { lake: elsewhere } = makeDataFolder(t)
  cpSync(root, elsewhere, { recursive: true })
  assertFinding(
    await examine({ DATA_DIR: dirname(elsewhere) }),
    'lake tables',
    'warning',
    /^order_events is damaged, or its metadata name another place$/,
    /lake maintain$/,
  )
})

test('a bucket whose rights lack listing, reading or writing', async (t) => {
  const { server, file, env } = await makeBucket(t)
  const refusing = async (isRefused: (request: { method: string; key: string }) => boolean) => {
    server.fault = (request) => (isRefused(request) ? { status: 403 } : undefined)
    return examine(env)
  }
  const remedy = /the credentials may list, read and write: docs\/operate\/lake\.md$/
  for (const isRefused of [
    ({ key }: { key: string }) => key === '',
    ({ method, key }: { method: string; key: string }) => method === 'GET' && key !== '',
    ({ method }: { method: string }) => method === 'PUT',
  ])
    assertFinding(await refusing(isRefused), 'lake', 'problem', /AccessDenied/, remedy)
  assertFinding(await refusing(() => false), 'lake', 'ok', /listed, read and written/)
  assert.equal(readFileSync(file, 'utf8'), 'the bytes of a file')
})

test('a file that a merge deletes meanwhile says nothing against the bucket', async (t) => {
  const { server, file, env } = await makeBucket(t)
  const merged = file.replace('0000000000000001-', '0000000000000000-')
  writeFileSync(merged, 'the merged file')
  const deleteAfter = (isMoment: (request: { method: string; key: string }) => boolean) => {
    writeFileSync(file, 'the bytes of a file')
    server.fault = (request) => {
      if (!isMoment(request) || !existsSync(file)) return undefined
      return { after: () => rmSync(file) }
    }
    return examine(env)
  }
  const gone = await deleteAfter(({ key }) => key === '')
  assertFinding(gone, 'lake', 'ok', /refuses to overwrite/)
  let reads = 0
  const goneAfterReading = await deleteAfter(({ method, key }) => method === 'GET' && key !== '' && reads++ === 0)
  assertFinding(goneAfterReading, 'lake', 'ok', /refuses to overwrite/)
  server.fault = ({ method }) => (method === 'PUT' ? { status: 409 } : undefined)
  assertFinding(await examine(env), 'lake', 'ok', /refuses to overwrite/)
  assert.equal(readFileSync(merged, 'utf8'), 'the merged file')
})

test('a disk with little room is a warning, and a full one a problem', { skip: NO_TMPFS }, async (t) => {
  const { path } = makeDataFolder(t)
  assert.equal(mountTmpfs(t, path, 400), null)
  assertFinding(await examine({ DATA_DIR: path }), 'disk', 'ok', /are free on the disk of/)
  writeFileSync(join(path, 'ballast'), Buffer.alloc(365 * 1024 * 1024))
  assertFinding(await examine({ DATA_DIR: path }), 'disk', 'warning', /^3\d MB of 4\d\d MB are free/, /make room/)
  fillDisk(path)
  assertFinding(await examine({ DATA_DIR: path }), 'disk', 'problem', /is full \(\d+ MB free\)$/, /make room/)
})

test('the public address and the trusted proxies must go together', async () => {
  const env = { BASE_URL: 'https://shop.example' }
  assertFinding(await examine(env), 'proxies', 'warning', /no proxy is trusted/, /set TRUST_PROXY/)
  assertFinding(await examine({ TRUST_PROXY: '1' }), 'proxies', 'warning', /BASE_URL is http:\/\/localhost:3000/, /set BASE_URL/)
  assertFinding(await examine({ BASE_URL: 'http://shop.example' }), 'proxies', 'warning', /plain http/, /TLS/)
  assertFinding(await examine({ ...env, TRUST_PROXY: '10.0.0.0/8' }), 'proxies', 'ok', /trusted: 10\.0\.0\.0\/8$/)
})

test('a public shop in which two clicks are two orders is shown two settings against it', async () => {
  const env = { BASE_URL: 'https://shop.example' }
  assertFinding(await examine(env), 'repeats', 'warning', /two clicks/, /DUPLICATE_ORDER_SECONDS.*IDEMPOTENCY_KEY/)
  assertFinding(await examine({ ...env, DUPLICATE_ORDER_SECONDS: '600' }), 'repeats', 'ok', /after 600 s/)
  assertFinding(await examine({ ...env, IDEMPOTENCY_KEY: 'required' }), 'repeats', 'ok', /each order/)
  assertFinding(await examine({}), 'repeats', 'ok', /a program/)
  assertFinding(await examine({ NATS_URL: 'nats://127.0.0.1:1' }), 'settings', 'problem', /NATS_URL is set/, /EMBEDDED=on/)
})

test('a Node.js that is too old', async () => {
  const old = await examine({ EMBEDDED: 'on' }, { node: '24.11.0' })
  assertFinding(old, 'versions', 'problem', /^Storefront 0\.1\.0 on Node\.js 24\.11\.0$/, /^run it on Node\.js 26 or later/)
  assertFinding(await examine({ EMBEDDED: 'on' }, { node: '26.0.0' }), 'versions', 'ok', /26\.0\.0$/)
})

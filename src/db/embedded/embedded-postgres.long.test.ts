import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { after, type TestContext, test } from 'node:test'
import pg from 'pg'
import { onCleanup } from '../../../test/cleanup.ts'
import { makeDataFolder, serverProcesses, untilNoServer } from '../../../test/data-folders.ts'
import { eventually } from '../../../test/eventually.ts'
import { freePort } from '../../../test/free-port.ts'
import { assertReachable } from '../assert-suitable.ts'
import { openOwnDatabase, openSharedDatabase } from '../open-database.ts'
import { connectClient } from '../pool.ts'
import { type DataFolder, DataFolderInUse } from './data-folder.ts'
import { type EmbeddedOptions, type EmbeddedPostgres, findEmbeddedPostgres, startEmbeddedPostgres } from './embedded-postgres.ts'

// Creating a cluster takes a second, so all tests that need no separate one share this one in turn.
const folder = makeDataFolder({ after })

async function start(t: TestContext, folder: DataFolder, options?: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const server = await startEmbeddedPostgres(folder, options)
  onCleanup(t, () => server.stop())
  return server
}

async function query<T extends pg.QueryResultRow>(url: string, sql: string): Promise<T[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query<T>(sql)).rows
  } finally {
    await client.end()
  }
}

function socketsIn({ cluster }: DataFolder): string[] {
  return readdirSync(cluster).filter((name) => /^\.s\.PGSQL\.\d+$/.test(name))
}

test('starts on an empty folder, and again with the committed data', async (t) => {
  assert.equal(existsSync(folder.path), false)
  const first = await start(t, folder)
  await query(first.url, 'create table kept as select 7 as number')
  await first.stop()
  assert.deepEqual(serverProcesses(folder.path), [])
  const second = await start(t, folder)
  assert.deepEqual(await query(second.url, 'select number from kept'), [{ number: 7 }])
  assert.equal(new URL(second.url).pathname, '/storefront')
})

test('takes another port if another process has taken the free one', async (t) => {
  const other = createServer().listen(0, '127.0.0.1')
  onCleanup(t, () => void other.close())
  await once(other, 'listening')
  const ports = [(other.address() as AddressInfo).port, await freePort()]
  const told = ports.values()
  const server = await start(t, folder, { findPort: async () => told.next().value ?? 0 })
  assert.equal(Number(new URL(server.url).port), ports[1])
  assert.deepEqual(await query(server.url, 'select 1 as one'), [{ one: 1 }])
  await server.stop()
})

test('is reached by a Unix socket in its folder, and by TCP if the path is too long for a socket', async (t) => {
  const isLocal = 'select inet_server_addr() is null as yes'
  const server = await start(t, folder)
  assert.deepEqual(await query(server.addresses.owner, isLocal), [{ yes: true }])
  assert.deepEqual(await query(server.url, isLocal), [{ yes: false }])
  assert.equal(statSync(join(folder.cluster, socketsIn(folder)[0] ?? '')).mode & 0o077, 0)
  await server.stop()

  const long = { ...folder, cluster: join(folder.path, 'x'.repeat(90)) }
  renameSync(folder.cluster, long.cluster)
  try {
    const far = await start(t, long)
    assert.equal(far.addresses.owner, far.url)
    assert.deepEqual(await findEmbeddedPostgres(long), far.addresses)
    assert.deepEqual([await query(far.url, isLocal), socketsIn(long)], [[{ yes: false }], []])
    await far.stop()
  } finally {
    renameSync(long.cluster, folder.cluster)
  }
})

test('is reached by TCP if no socket can be created in its folder', async (t) => {
  const obstacle = join(folder.cluster, '.s.probe')
  mkdirSync(obstacle)
  onCleanup(t, () => rmSync(obstacle, { recursive: true }))
  const { addresses, url } = await start(t, folder)
  assert.equal(addresses.owner, url)
  assert.deepEqual(socketsIn(folder), [])
})

test('runs a durable server for this machine only, ready for logical replication', async (t) => {
  const { url } = await start(t, folder)
  const rows = await query<{ name: string; setting: string }>(
    url,
    `select name, setting from pg_settings where name in ('wal_level', 'fsync', 'synchronous_commit', 'full_page_writes', 'data_checksums',
      'listen_addresses', 'unix_socket_directories', 'server_encoding', 'TimeZone') order by name collate "C"`,
  )
  assert.deepEqual(Object.fromEntries(rows.map(({ name, setting }) => [name, setting])), {
    TimeZone: 'UTC',
    data_checksums: 'on',
    fsync: 'on',
    full_page_writes: 'on',
    listen_addresses: '127.0.0.1',
    server_encoding: 'UTF8',
    synchronous_commit: 'on',
    unix_socket_directories: folder.cluster,
    wal_level: 'logical',
  })
})

test('refuses every connection without the password, which only its owner can read', async (t) => {
  const { url } = await start(t, folder)
  assert.equal(readFileSync(join(folder.path, 'postgres-password'), 'utf8').trim(), new URL(url).password)
  for (const name of ['postgres-password', 'postgres.log']) assert.equal(statSync(join(folder.path, name)).mode & 0o777, 0o600, name)
  assert.equal(statSync(folder.cluster).mode & 0o777, 0o700)
  assert.equal(statSync(folder.path).mode & 0o777, 0o700)
  for (const password of ['', 'wrong']) {
    const stranger = Object.assign(new URL(url), { password }).href
    await assert.rejects(query(stranger, 'select 1'), (error: Error & { code?: string }) => error.code === '28P01' || password === '')
  }
})

test('reports in one line that the folder is in use, and leaves its server alone', async (t) => {
  const server = await start(t, folder)
  await assert.rejects(startEmbeddedPostgres(folder), (error: Error) => {
    assert.ok(error instanceof DataFolderInUse)
    assert.equal(
      error.message,
      `${folder.path} is in use by another Storefront (process ${process.pid}); stop that one, or set DATA_DIR to another folder`,
    )
    return true
  })
  assert.deepEqual(await query(server.url, 'select 1 as one'), [{ one: 1 }])
})

test('of two concurrent starts on an empty folder, one succeeds', async (t) => {
  const folder = makeDataFolder(t)
  const starts = await Promise.allSettled([startEmbeddedPostgres(folder), startEmbeddedPostgres(folder)])
  for (const start of starts) if (start.status === 'fulfilled') onCleanup(t, () => start.value.stop())
  assert.deepEqual(starts.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
  const [lost] = starts.flatMap((start) => (start.status === 'rejected' ? [start.reason] : []))
  assert.ok(lost instanceof DataFolderInUse)
})

test('starts again after a crash while the cluster was being created', async (t) => {
  const folder = makeDataFolder(t)
  const draft = `${folder.cluster}.new`
  mkdirSync(join(draft, 'base'), { recursive: true })
  writeFileSync(join(draft, 'PG_VERSION'), '18\n')
  writeFileSync(join(folder.path, 'postgres-password.new'), 'half')
  const { url } = await start(t, folder)
  assert.deepEqual(await query(url, 'select 1 as one'), [{ one: 1 }])
  assert.deepEqual(
    readdirSync(folder.path).filter((name) => name.endsWith('.new')),
    [],
  )
})

test('starts again after a crash between creating the password and the cluster', async (t) => {
  const folder = makeDataFolder(t)
  mkdirSync(join(folder.path, 'postgres.new/cluster'), { recursive: true })
  writeFileSync(join(folder.path, 'postgres-password'), 'x'.repeat(43))
  const { url } = await start(t, folder)
  assert.deepEqual(await query(url, 'select 1 as one'), [{ one: 1 }])
  assert.equal(existsSync(join(folder.path, 'postgres.new')), false)
})

test('refuses a cluster whose password is missing, and creates no other cluster', async (t) => {
  await (await start(t, folder)).stop()
  const file = join(folder.path, 'postgres-password')
  renameSync(file, `${file}.away`)
  onCleanup(t, () => void (existsSync(`${file}.away`) && renameSync(`${file}.away`, file)))
  const before = readdirSync(folder.path).toSorted()
  await assert.rejects(startEmbeddedPostgres(folder), {
    name: 'SecretUnusable',
    message: `${file} is missing beside the store in ${folder.cluster}: restore it from a backup; nothing was changed`,
  })
  assert.deepEqual(readdirSync(folder.path).toSorted(), before)
  renameSync(`${file}.away`, file)
  await (await start(t, folder)).stop()
})

test('creates no new cluster beside the remaining files of a store', async (t) => {
  const own = makeDataFolder(t)
  for (const [name, file] of Object.entries({ secret: 'secret', 'postgres-password': 'postgres-password', lake: 'lake/orders' })) {
    mkdirSync(join(own.path, name === file ? '.' : name), { recursive: true })
    writeFileSync(join(own.path, file), 'x'.repeat(43))
    await assert.rejects(startEmbeddedPostgres(own), {
      name: 'PostgresUnavailable',
      message: `the database ${own.cluster} is missing beside ${name}: mount its disk, or run storefront restore with a backup, or move that away for a new store; nothing was changed`,
    })
    assert.deepEqual(readdirSync(own.path).toSorted(), [name, 'lock', 'owner'].toSorted())
    rmSync(join(own.path, name), { recursive: true })
  }
  // The empty disk for a new store's lake.
  mkdirSync(join(own.lake, 'lost+found'), { recursive: true })
  await (await start(t, own)).stop()
  renameSync(own.cluster, join(own.path, 'elsewhere'))
  await assert.rejects(startEmbeddedPostgres(own), /is missing beside postgres-password: /)
  renameSync(join(own.path, 'elsewhere'), own.cluster)
  await (await start(t, own)).stop()
})

test('stop may be called twice at once and again later', async (t) => {
  const server = await start(t, folder)
  await Promise.all([server.stop(), server.stop('wait'), server.stop()])
  await server.stop()
})

test('a patient stop lets the other clients finish, and any other stop disconnects them', async (t) => {
  const patient = await start(t, folder)
  const client = new pg.Client({ connectionString: patient.url })
  await client.connect()
  let stopped = false
  const stop = patient.stop('wait').then(() => {
    stopped = true
  })
  // A server that is shutting down refuses new clients and lets this one finish.
  await eventually(async () =>
    query(patient.url, 'select 1').then(
      () => false,
      () => true,
    ),
  )
  assert.deepEqual((await client.query('select 1 as one')).rows, [{ one: 1 }])
  assert.equal(stopped, false)
  await client.end()
  await stop

  const hasty = await start(t, folder)
  const cut = new pg.Client({ connectionString: hasty.url })
  const ended = new Promise((resolve) => cut.on('error', resolve))
  await cut.connect()
  await hasty.stop()
  await ended
})

test('works in a folder whose path has spaces, quotes and dollar signs', async (t) => {
  const folder = makeDataFolder(t, `it's "my" $(data) folder; \`x\` %n`)
  const { url } = await start(t, folder)
  assert.deepEqual(await query(url, 'select 1 as one'), [{ one: 1 }])
})

test('keeps all other secrets of the store from the server', { skip: process.platform !== 'linux' && 'needs /proc' }, async (t) => {
  process.env.STOREFRONT_SECRET = 'not for the server, not for anybody'
  onCleanup(t, () => void delete process.env.STOREFRONT_SECRET)
  await start(t, folder)
  const [postgres] = serverProcesses(folder.path).filter(({ program }) => program === 'postgres')
  assert.ok(!readFileSync(`/proc/${postgres?.pid}/environ`, 'utf8').includes('not for the server'))
  assert.ok(
    !readFileSync(`/proc/${postgres?.pid}/cmdline`, 'utf8').includes(readFileSync(join(folder.path, 'postgres-password'), 'utf8').trim()),
  )
})

test('other processes find the server only while it runs', async (t) => {
  assert.equal(await findEmbeddedPostgres(folder), null)
  const server = await start(t, folder)
  assert.deepEqual(await findEmbeddedPostgres(folder), server.addresses)
  await server.stop()
  assert.equal(await findEmbeddedPostgres(folder), null)
})

test('the check of its own server opens one session for each role, because no pooler can be between', async (t) => {
  const { addresses } = await start(t, folder)
  const client = await connectClient(addresses.owner, 'test')
  onCleanup(t, () => client.end())
  const countSessions = async () => {
    const { rows } = await client.query<{ sessions: string }>(`select sessions from pg_stat_database where datname = current_database()`)
    return Number(rows[0]?.sessions)
  }
  const before = await countSessions()
  await assertReachable(addresses, ['api', 'stream', 'owner'], { isNeeded: true })
  await eventually(async () => (await countSessions()) >= before + 3, { what: 'three sessions' })
  assert.equal(await countSessions(), before + 3)
})

test("a command uses a running store's server, and starts its own if there is none", async (t) => {
  const options = { databaseAddresses: null, dataDir: folder.path }
  const store = await openOwnDatabase(options)
  onCleanup(t, () => store.close())
  const beside = await openSharedDatabase(options)
  assert.deepEqual(beside.addresses, store.addresses)
  await beside.close()
  assert.deepEqual(await query(store.addresses.api, 'select 1 as one'), [{ one: 1 }])
  await store.close()

  const [first, second] = await Promise.all([openSharedDatabase(options), openSharedDatabase(options)])
  onCleanup(t, () => Promise.all([first.close(), second.close()]).then(() => {}))
  assert.deepEqual(first.addresses, second.addresses)
  assert.deepEqual(await query(first.addresses.api, 'select 1 as one'), [{ one: 1 }])
  await Promise.all([first.close(), second.close()])
  await untilNoServer(folder.path)
})

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { promisify } from 'node:util'
import pg from 'pg'
import { type Cleanup, onCleanup } from '../../test/cleanup.ts'
import { connectTo, databaseUrl } from '../../test/database.ts'
import { debianPostgresMissing, startDebianPostgres } from '../../test/debian-postgres.ts'
import { eventually } from '../../test/eventually.ts'
import { freePort } from '../../test/free-port.ts'
import { readCommands } from '../../test/operations-commands.ts'
import { startOwnServer } from '../../test/own-server.ts'
import { createRestorableStore, type RestorableStore, readLakeRows } from '../../test/restorable-store.ts'
import { TEST_SECRET } from '../../test/store.ts'
import { BIN, launch, runStorefront } from '../../test/store-process.ts'
import { dataFolder } from '../db/embedded/data-folder.ts'
import { startEmbeddedPostgres } from '../db/embedded/embedded-postgres.ts'

const DOCUMENTED = readCommands('3. Run this where `DATA_DIR` is, with the settings of the store and the three addresses:')
const SKIP = { skip: debianPostgresMissing }

/** A stopped embedded store with orders. The last order's change is only in the replication slot. */
async function makeStore(t: Cleanup, settings: Record<string, string> = { STOREFRONT_SECRET: TEST_SECRET }) {
  const store = createRestorableStore(t, settings)
  const running = await store.start()
  const placed = [await running.place(), await running.place(), await running.place()]
  const [first] = placed
  assert.ok(first)
  await running.cancel(first)
  await running.untilDelivered()
  await running.stop()
  Object.assign(store.environment, { ROLES: 'api', EMBEDDED: 'on' })
  const alone = await store.start()
  placed.push(await alone.place())
  await alone.stop()
  delete store.environment.ROLES
  return { store, numbers: placed.map(({ number }) => number) }
}

const move = (t: Cleanup, store: RestorableStore, settings: Record<string, string>, args: string[] = []) =>
  runStorefront(t, ['database', 'move', ...args], { env: { ...store.environment, ...settings } })

function movedCluster(store: RestorableStore): string | null {
  const name = readdirSync(store.dataDir).find((name) => name.startsWith('postgres.moved-'))
  return name === undefined ? null : join(store.dataDir, name)
}

async function countRows(
  pool: { query: pg.Client['query'] },
  table: 'orders' | 'email_deliveries' | 'database_incarnations',
): Promise<number> {
  return (await pool.query(`select from ${table}`)).rowCount ?? 0
}

/** Asserts that topic, mails and lake have every order once, and that `verify` finds nothing. */
async function assertWhole(store: RestorableStore, running: Awaited<ReturnType<RestorableStore['start']>>, events: number): Promise<void> {
  await running.untilDelivered()
  const report = await running.verify()
  assert.deepEqual([report.findings, report.undecided, report.topic.events], [[], [], events])
  assert.equal(await countRows(running.pool, 'email_deliveries'), events)
  const rows = await readLakeRows(store.dataDir)
  assert.equal(rows.length, events)
  assert.equal(new Set(rows.map(({ eventId }) => eventId)).size, events)
}

test('a store moves from the embedded database to another server and back, with all work in flight', SKIP, async (t) => {
  const server = await startOwnServer(t)
  // The store keeps the secret in its own folder.
  const { store, numbers } = await makeStore(t, {})
  const { STOREFRONT_SECRET: _, ...addresses } = server.settings
  symlinkSync(BIN, join(store.dataDir, 'storefront'))
  const env = { ...store.environment, ...addresses }
  const { stdout, stderr } = await promisify(execFile)('sh', ['-euc', DOCUMENTED], { env, cwd: store.dataDir })
  assert.equal(stderr, '')
  server.settings.STOREFRONT_SECRET = readFileSync(join(store.dataDir, 'secret'), 'utf8').trim()
  assert.match(stdout, /^copied \d+ rows of \d+ tables\nthe embedded database is .*moved-\d+ now: [^\n]*\nstart the store/)

  for (const args of [['serve'], ['verify'], ['migrate'], ['database', 'move']]) {
    const settings = args[0] === 'database' ? server.settings : {}
    const refused = await runStorefront(t, args, { env: { ...store.environment, ...settings } })
    assert.equal(refused.status, 1, args.join(' '))
    assert.match(
      refused.stderr,
      /^storefront: the store of .* was moved to another database: set DATABASE_URL to its address, and if it is set run storefront replay; [^\n]*\n$/,
    )
  }

  const embedded = { ...store.environment }
  Object.assign(store.environment, server.settings)
  const running = await store.start()
  await eventually(async () => (await running.failing()).length === 0, { what: 'a ready store' })
  const next = await running.place()
  assert.equal(next.number, Math.max(...numbers) + 1, 'no order number is left out')
  assert.equal(await countRows(running.pool, 'database_incarnations'), 1)
  await assertWhole(store, running, 6)
  const { rows: activities } = await running.pool.query(
    `select action from activities where subject_type = 'store' and action like 'database%'`,
  )
  assert.deepEqual(activities, [{ action: 'database move' }])
  await running.stop()

  // The copied database must have the same schema as a new one.
  await server.run(`createdb --host 127.0.0.1 --port "$PORT" --username postgres fresh`, { PORT: new URL(server.address).port })
  const fresh = `${server.address}/fresh`
  const migrated = await runStorefront(t, ['migrate'], { env: { DATABASE_URL: fresh, STOREFRONT_SECRET: TEST_SECRET } })
  assert.equal(migrated.status, 0, migrated.stderr)
  const dump = async (name: string) => {
    const text = await server.run(`pg_dump --schema-only --no-owner --no-privileges "$URL"`, { URL: `${server.address}/${name}` })
    return text.replaceAll(/^\\(un)?restrict .*$/gm, '')
  }
  assert.equal(await dump('shop'), await dump('fresh'))

  // The old embedded database is used again, without the sales on the other server. The store must treat it like a
  // restored database, whose later order numbers are unknown.
  for (const name of Object.keys(server.settings)) delete store.environment[name]
  Object.assign(store.environment, embedded)
  renameSync(movedCluster(store) ?? assert.fail('no moved cluster'), join(store.dataDir, 'postgres'))
  const back = await store.start()
  const afterwards = await back.place()
  assert.ok(afterwards.number > next.number + 1_000)
  assert.match((await back.replay()).join('\n'), new RegExp(`order ${next.number} is lost`))
  await back.untilDelivered()
  assert.deepEqual((await back.verify()).findings, [])
  await back.stop()
})

test('a killed or interrupted move leaves source and target usable, and the next one completes it', SKIP, async (t) => {
  const server = await startOwnServer(t)
  const { store } = await makeStore(t)
  // There are enough rows to interrupt the move in the middle of a table.
  const embedded = await startEmbeddedPostgres(dataFolder(store.dataDir))
  const client = new pg.Client({ connectionString: embedded.url })
  await client.connect()
  await client.query(`insert into search_words (word) select 'word' || number from generate_series(1, 300000) as number`)
  await client.end()
  await embedded.stop()
  const admin = await connectTo(t, `${server.address}/postgres`)
  const untilCopying = () =>
    eventually(
      async () => {
        const { rows } = await admin.query(
          `select pid from pg_stat_activity where application_name = 'storefront-move' and query like 'copy%search_words%'`,
        )
        return rows[0]?.pid
      },
      { what: 'the copy of a table' },
    )
  const assertUnmoved = async () => {
    assert.equal(movedCluster(store), null)
    await eventually(
      async () => (await admin.query(`select from pg_stat_activity where application_name like 'storefront%'`)).rowCount === 0,
    )
    const shop = new pg.Client({ connectionString: `${server.address}/shop` })
    await shop.connect()
    for (const table of ['orders', 'users', 'search_words']) assert.equal((await shop.query(`select from ${table} limit 1`)).rowCount, 0)
    await shop.end()
  }

  const killed = launch(['database', 'move'], { env: { ...store.environment, ...server.settings } })
  onCleanup(t, () => void killed.kill('SIGKILL'))
  const pid = await untilCopying()
  assert.ok(pid > 0)
  killed.kill('SIGKILL')
  await assertUnmoved()

  const cutOff = move(t, store, server.settings)
  const backend = await untilCopying()
  await admin.query('select pg_terminate_backend($1)', [backend])
  const { status, stderr } = await cutOff
  assert.equal(status, 1)
  assert.match(stderr, /^storefront: the database cannot be used: [^\n]*\n$/)
  await assertUnmoved()

  const running = await store.start()
  await running.place()
  await assertWhole(store, running, 6)
  await running.stop()

  const completed = await move(t, store, server.settings)
  assert.equal(completed.status, 0, completed.stderr)
  // A process killed after the commit leaves the embedded database as it was.
  const moved = movedCluster(store) ?? assert.fail('no moved cluster')
  rmSync(join(moved, 'storefront-restored'))
  renameSync(moved, join(store.dataDir, 'postgres'))
  const again = await move(t, store, server.settings)
  assert.equal(again.status, 1)
  assert.match(
    again.stderr,
    /^storefront: the database in DATABASE_URL is not empty \(users\); nothing was moved\. .*: drop the slot shop_orders with pg_drop_replication_slot if there is one, drop the database shop, create it again,/,
  )
  await admin.end()
  await server.recreate()
  const third = await move(t, store, server.settings)
  assert.equal(third.status, 0, third.stderr)
  Object.assign(store.environment, server.settings)
  const afterwards = await store.start()
  await afterwards.place()
  await assertWhole(store, afterwards, 7)
  await afterwards.stop()
})

test('a store moves from PostgreSQL 15 to 18, and the old database cannot be used by accident', SKIP, async (t) => {
  const server = await startOwnServer(t)
  const { store, numbers } = await makeStore(t)
  assert.equal((await move(t, store, server.settings)).status, 0)
  Object.assign(store.environment, server.settings)
  const name = 'upgraded_shop'
  const admin = new pg.Client({ connectionString: databaseUrl('postgres') })
  await admin.connect()
  onCleanup(t, async () => {
    await admin.query(`select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = '${name}'`)
    await admin.query(`drop database ${name} with (force)`)
    await admin.end()
  })
  await admin.query(`create database ${name} template template0`)
  const newServer = { DATABASE_URL: databaseUrl(name), DATABASE_OWNER_URL: '', DATABASE_STREAM_URL: '' }
  const from = ['--from', server.settings.DATABASE_OWNER_URL ?? '']

  const old = await store.start()
  const inUse = await move(t, store, newServer, from)
  assert.equal(inUse.status, 1)
  assert.match(
    inUse.stderr,
    /^storefront: the database in --from is in use \(storefront[^\n]*: stop every process of the store first; nothing was moved\n$/,
  )
  await old.place()
  await old.untilDelivered()
  await old.stop()

  const itself = await move(t, store, {}, from)
  assert.match(itself.stderr, /DATABASE_URL is the address of the database in --from: set it to that of an empty database/)
  const { status, stdout, stderr } = await move(t, store, newServer, from)
  assert.deepEqual([status, stderr], [0, ''], stdout)
  const [, wayBack = ''] = /now lets only superusers in: .* run "([^"]*)" to go back/.exec(stdout) ?? assert.fail(stdout)
  const refused = await runStorefront(t, ['verify'], { env: store.environment })
  assert.match(refused.stderr, /too many connections for database "shop"/)
  await server.run(`psql "$ADMIN/postgres" -v ON_ERROR_STOP=1 -c '${wayBack}'`, { ADMIN: server.address })

  Object.assign(store.environment, newServer)
  const running = await store.start()
  // The server listens before the slots exist, so this waits for them.
  await eventually(async () => (await running.failing()).length === 0, { what: 'a ready store' })
  assert.equal((await running.place()).number, Math.max(...numbers) + 2)
  await assertWhole(store, running, 7)
  const { rows } = await running.pool.query(
    `select current_setting('server_version_num')::int / 10000 as major, failover from pg_replication_slots where slot_name = '${name}_orders'`,
  )
  assert.deepEqual(rows, [{ major: 18, failover: true }])
  await running.stop()
})

describe('a move is refused before it changes anything', SKIP, () => {
  test('when source, target or settings are unsuitable', async (t) => {
    const server = await startOwnServer(t)
    const store = createRestorableStore(t, { STOREFRONT_SECRET: TEST_SECRET })
    const running = await store.start()
    const refuse = async (settings: Record<string, string>, expected: RegExp, args: string[] = []) => {
      const { status, stdout, stderr } = await move(t, store, { ...server.settings, ...settings }, args)
      assert.deepEqual([status === 1 || status === 2, stdout], [true, ''], stderr)
      assert.match(stderr, expected)
      assert.match(stderr, /^storefront: [^\n]*\n$/)
      assert.equal(movedCluster(store), null)
    }
    await refuse({}, /is in use by another Storefront/)
    await running.stop()

    const admin = await connectTo(t, `${server.address}/postgres`)
    const address = (database: string, role = 'postgres') =>
      Object.assign(new URL(server.address), { username: role, pathname: `/${database}` }).href
    const oneRole = (url: string) => ({ DATABASE_URL: url, DATABASE_OWNER_URL: '', DATABASE_STREAM_URL: '' })
    await admin.query(`create database latin template template0 encoding 'LATIN1' locale 'C'`)
    await admin.query('create database others')
    await admin.query('create role nobody_special login')
    const others = new pg.Client({ connectionString: address('others') })
    await others.connect()
    await others.query('create table invoices (id integer)')
    await others.end()

    await refuse({ DATABASE_URL: '', DATABASE_OWNER_URL: '', DATABASE_STREAM_URL: '' }, /DATABASE_URL is not set/)
    await refuse({ STOREFRONT_SECRET: 'another secret of at least 32 characters' }, /STOREFRONT_SECRET is not the secret of the store in /)
    await refuse({ DATA_DIR: join(store.dataDir, 'mail') }, /there is no store in /)
    await refuse(oneRole(address('latin')), /has the encoding LATIN1/)
    await refuse(oneRole(address('others')), /is not empty: it has the table invoices; nothing was moved/)
    await refuse(oneRole(address('missing')), /database "missing" does not exist; check DATABASE_URL/)
    await refuse(
      { DATABASE_OWNER_URL: address('shop', 'nobody_special') },
      /permission denied for database "?shop"?|lacks the right to create/,
    )
    await refuse({ DATABASE_STREAM_URL: address('shop', 'shop_api') }, /the role shop_api may not replicate/)
    await refuse({}, /the database in --from is in use|the address in --from/, ['--from', 'postgres://nobody@127.0.0.1:1/none'])
  })

  test('when the target is a standby, writes no logical log, or has no slot left', async (t) => {
    const store = createRestorableStore(t, { STOREFRONT_SECRET: TEST_SECRET })
    await (await store.start()).stop()
    const primary = await startDebianPostgres(t, { fsync: 'off', wal_level: 'replica', max_replication_slots: '1' })
    const settings = { DATABASE_URL: `${primary.address}/postgres` }
    assert.match((await move(t, store, settings)).stderr, /wal_level = replica; run "alter system set wal_level = logical"/)
    await primary.run(`psql "$ADMIN/postgres" -c 'alter system set wal_level = logical' && pg_ctl restart --log "$PGDATA/../server.log"`, {
      ADMIN: primary.address,
    })
    await primary.run(`psql "$ADMIN/postgres" -c "select pg_create_physical_replication_slot('other')"`, { ADMIN: primary.address })
    assert.match(
      (await move(t, store, settings)).stderr,
      /^storefront: the server has no replication slot left: raise max_replication_slots, or drop a slot [^\n]*\n$/,
    )
    const port = await freePort()
    const standby = primary.makeFolder()
    await primary.run(
      `pg_basebackup --dbname "$ADMIN" --pgdata "$STANDBY/cluster" --checkpoint fast --no-slot --wal-method fetch --write-recovery-conf
      echo "port = $PORT" >> "$STANDBY/cluster/postgresql.auto.conf"
      pg_ctl start --pgdata "$STANDBY/cluster" --log "$STANDBY/log"`,
      { ADMIN: primary.address, STANDBY: standby, PORT: String(port) },
    )
    onCleanup(t, async () => void (await primary.run('pg_ctl stop --pgdata "$STANDBY/cluster" --mode fast', { STANDBY: standby })))
    const toStandby = await move(t, store, { DATABASE_URL: `postgres://postgres@127.0.0.1:${port}/postgres` })
    assert.match(toStandby.stderr, /^storefront: the database in DATABASE_URL is a standby: set the address of its primary\n$/)
    assert.equal(movedCluster(store), null)
  })
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { orderSlotOf, prepareDatabase } from '../src/app/prepare-database.ts'
import { findLostReason, findStandbyReason } from '../src/change-stream/replication-slot.ts'
import { recordCreatedSlot } from '../src/change-stream/slot-positions.ts'
import { oneRole } from '../src/db/addresses.ts'
import { startEmbeddedPostgres } from '../src/db/embedded/embedded-postgres.ts'
import { connectToAny, type Queryable } from '../src/db/pool.ts'
import { onCleanup } from './cleanup.ts'
import { makeDataFolder } from './data-folders.ts'
import { debianPostgresMissing, startDebianPostgres } from './debian-postgres.ts'
import { assertFinding, examine } from './doctor-harness.ts'
import { eventually } from './eventually.ts'
import { copyForStandby, startStandby } from './standby.ts'
import { openSteppedDatabaseOrSkip } from './stepped-database.ts'
import { TEST_SECRET } from './store.ts'
import { runStorefront, serve } from './store-process.ts'
import { silent } from './stream-harness.ts'

const SEGMENT_BYTES = 16 * 1024 * 1024

/** Fills a segment of the log. */
async function writeSegment(db: Queryable): Promise<void> {
  await db.query('select pg_switch_wal(), txid_current()')
}

test('a server without wal_level=logical, and its slot on the way to its loss', { skip: debianPostgresMissing }, async (t) => {
  const server = await startDebianPostgres(t, { fsync: 'off' })
  const { url, pool } = await server.createDatabase('C.UTF-8')
  const look = () => examine({ DATABASE_URL: url })
  const unsuitable = await look()
  assertFinding(
    unsuitable,
    'database server',
    'problem',
    /^the database has wal_level = replica$/,
    /alter system set wal_level = logical.* restart it$/,
  )
  assert.match((await findStandbyReason(pool, 'any')) ?? '', /has no copy/, 'also where slots cannot be copied')
  assertFinding(unsuitable, 'database', 'warning', /^PostgreSQL 15.*a superuser$/, /^use a role with few rights/)

  // The advice of each line, until nothing is left but the role's rights.
  await pool.query('alter system set wal_level = logical')
  await server.run('pg_ctl restart --mode fast --wait > restart.log')
  const empty = await look()
  assertFinding(empty, 'schema', 'problem', /migrations/, /^run storefront migrate$/)
  assertFinding(empty, 'database server', 'warning', /^fsync is off$/, /set it to on$/)
  const env = { DATABASE_URL: url, STOREFRONT_SECRET: TEST_SECRET }
  const migrated = await runStorefront(t, ['migrate'], { env })
  assert.equal(migrated.status, 0, migrated.stderr)
  const fresh = await look()
  assert.deepEqual(
    fresh.filter(({ status }) => status === 'problem'),
    [],
  )
  assertFinding(fresh, 'slot', 'warning', /not read by any process/, /^start a process with the role stream/)
  assertFinding(fresh, 'standby', 'ok', /^the server has no slot of a standby$/)
  const { rows } = await pool.query<{ slot: string }>(`select slot_name as slot from pg_replication_slots where slot_name ~ '_orders'`)
  const slot = rows[0]?.slot ?? ''

  await pool.query(`alter system set max_slot_wal_keep_size = '128MB'`)
  await pool.query('select pg_reload_conf()')
  const left = async () => {
    const { rows } = await pool.query<{ left: number | null }>(
      `select safe_wal_size::float8 as left from pg_replication_slots where slot_name ~ '_orders'`,
    )
    return rows[0]?.left ?? Number.NaN
  }
  while (!((await left()) < 2 * SEGMENT_BYTES)) await writeSegment(pool)
  const near = await look()
  const steps = /^start a process with the role stream; its log .* Then raise max_slot_wal_keep_size$/
  assertFinding(near, 'slot', 'problem', /of at most 134 MB \(max_slot_wal_keep_size\); \d+ MB of log later it is lost$/, steps)
  while ((await left()) > 0) await writeSegment(pool)
  await writeSegment(pool)
  assertFinding(await look(), 'slot', 'problem', /; it is lost at the next checkpoint$/, steps)

  // The advice: what reads the slot saves it, even now. Its position moves with the snapshots that PostgreSQL logs
  // every 15 seconds.
  await eventually(
    async () => {
      await pool.query(`select pg_logical_emit_message(true, 'filler', 'x')`)
      await pool.query('select pg_replication_slot_advance($1, pg_current_wal_lsn())', [slot])
      await recordCreatedSlot(pool, slot)
      return (await left()) > 2 * SEGMENT_BYTES
    },
    { what: 'the slot is out of danger', pauseMs: 500 },
  )
  await pool.query('checkpoint')
  assertFinding(await look(), 'slot', 'warning', /not read by any process, \d+ MB behind/)

  while (!((await left()) < 0)) await writeSegment(pool)
  await eventually(async () => {
    await writeSegment(pool)
    await pool.query('checkpoint')
    return (await pool.query(`select from pg_replication_slots where wal_status = 'lost'`)).rows.length > 0
  })
  assertFinding(await look(), 'slot', 'problem', /has lost its WAL$/, /start a process with the role stream/)
  const stream = await serve(t, { env, args: ['--role', 'stream'], ready: /./ })
  await eventually(async () => (await findLostReason(pool, slot)) === null, { what: 'a slot that was recreated' })
  await stream.end('SIGTERM')
  assertFinding(await look(), 'slot', 'warning', /not read by any process, 0 MB behind/)

  await pool.query(`select pg_create_physical_replication_slot('replica', true)`)
  assertFinding(await look(), 'standby', 'warning', /^nobody reads the slot replica$/, /^start the standby, or drop its slot/)
  await pool.query(`select pg_drop_replication_slot('replica')`)
  assertFinding(await look(), 'standby', 'ok', /^the server has no slot of a standby$/)

  await pool.query('select pg_drop_replication_slot($1)', [slot])
  await pool.query('select pg_create_physical_replication_slot($1)', [slot])
  assertFinding(await look(), 'slot', 'problem', /is a physical slot of a standby/, /^drop that slot when nothing reads it/)
})

test('a server whose clock is really wrong', async (t) => {
  const database = await openSteppedDatabaseOrSkip(t)
  if (database === null) return
  await prepareDatabase(oneRole(database.url), silent)
  const clock = async (status: 'ok' | 'warning' | 'problem', remedy?: RegExp) =>
    assertFinding(
      await examine({ DATABASE_URL: database.url }),
      'clock',
      status,
      /^this machine and the database differ by \d+\.\d s$/,
      remedy,
    )
  await clock('ok')
  for (const [seconds, status] of [
    [90, 'warning'],
    [-3_600, 'problem'],
  ] as const) {
    database.stepTo(seconds)
    // All of the server's processes read the clock's file again within this time.
    await pause(1_500)
    await clock(status, /^set both machines' clocks by NTP$/)
  }
})

test('a standby: its slot, its copy of the order slot, and its promotion', async (t) => {
  const folder = makeDataFolder(t)
  const start = async () => {
    const server = await startEmbeddedPostgres(folder, { settings: { fsync: 'off' } })
    onCleanup(t, () => server.stop())
    const db = await connectToAny(server.url, 'test')
    onCleanup(t, () => db.end())
    return { server, db }
  }
  const first = await start()
  await prepareDatabase(oneRole(first.server.url), silent)
  await first.db.query(`select pg_create_physical_replication_slot('standby', true)`)
  const slot = orderSlotOf(first.server.url)
  await first.db.end()
  await first.server.stop()
  const copy = copyForStandby(t, folder)
  const { server, db: primary } = await start()
  const look = (url = server.url) => examine({ DATABASE_URL: url })
  assertFinding(await look(), 'standby', 'warning', /^nobody reads the slot standby$/, /^start the standby, or drop its slot/)
  const standbys = async (names: string) => {
    await primary.query(`alter system set synchronized_standby_slots = '${names}'`)
    await primary.query('select pg_reload_conf()')
    await eventually(async () => (await primary.query('show synchronized_standby_slots')).rows[0].synchronized_standby_slots === names)
  }
  await standbys('standby, gone')
  const unknown = /^synchronized_standby_slots names gone, which does not exist$/
  assertFinding(
    await look(),
    'standby',
    'problem',
    unknown,
    /^set synchronized_standby_slots to the slot of a standby that exists, or empty/,
  )
  await standbys('standby')

  const unsynced = await startStandby(t, copy, server.url, { isSlotSynced: false })
  await eventually(
    async () => (await primary.query(`select from pg_replication_slots where slot_name = 'standby' and active`)).rows.length > 0,
  )
  assertFinding(await look(), 'standby', 'ok', /^connected: standby; run storefront doctor with the address of a standby/)
  const remedy = /^set DATABASE_URL to the primary; promote this standby only when its copy is ready: docs\/operate\/failover.md/
  assertFinding(
    await look(unsynced.url),
    'slot',
    'problem',
    /leads to a standby.*; the standby has no copy of the replication slot/,
    remedy,
  )
  // An earlier PostgreSQL's slot looks like this after an upgrade.
  await primary.query('select pg_drop_replication_slot($1)', [slot])
  await primary.query(`select pg_create_logical_replication_slot($1, 'pgoutput')`, [slot])
  const alone = await look()
  assertFinding(alone, 'standby', 'warning', /^the slot storefront_orders is not copied to standbys$/, /^stop the role stream, run psql/)
  const command = /-c '(.+)'/.exec(alone.find(({ check }) => check === 'standby')?.remedy ?? '')?.[1] ?? ''
  const replication = new pg.Client({ connectionString: server.url, replication: 'database' } as pg.ClientConfig)
  await replication.connect()
  await replication.query(command).finally(() => replication.end())
  assertFinding(await look(), 'standby', 'ok', /^connected: standby/)
  await unsynced.stop()

  // The advice of that section.
  const synced = await startStandby(t, copy, server.url, { isSlotSynced: true })
  await eventually(async () => {
    await primary.query(`select pg_logical_emit_message(true, 'filler', 'x')`)
    await primary.query('select pg_log_standby_snapshot()')
    await primary.query('select pg_replication_slot_advance($1, pg_current_wal_lsn())', [slot])
    await recordCreatedSlot(primary, slot)
    return (await look(synced.url)).some(({ found }) => found.includes('is ready, so it could take over'))
  })
  assertFinding(await look(synced.url), 'slot', 'problem', /its copy of the replication slot .* is ready, so it could take over$/, remedy)
  await server.stop()
  const promoted = await connectToAny(synced.url, 'test')
  onCleanup(t, () => promoted.end())
  await promoted.query('select pg_promote()')
  const after = await look(synced.url)
  assertFinding(after, 'slot', 'warning', /not read by any process/)
  assert.deepEqual(
    after.filter(({ status, check }) => status === 'problem' && check !== 'disk'),
    [],
  )
})

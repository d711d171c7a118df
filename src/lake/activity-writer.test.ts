import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { copyFile, mkdir, readFile, truncate, writeFile } from 'node:fs/promises'
import { after, type TestContext, test } from 'node:test'
import { onCleanup } from '../../test/cleanup.ts'
import { makeDataFolder } from '../../test/data-folders.ts'
import { makeLakeDirectory } from '../../test/lake-harness.ts'
import { silent } from '../../test/stream-harness.ts'
import { recordActivity } from '../activity/record-activity.ts'
import { prepareDatabase } from '../app/prepare-database.ts'
import { repairActivities } from '../audit/replay/repair-activities.ts'
import { compareActivities } from '../audit/verify/compare-activities.ts'
import { startEmbeddedPostgres } from '../db/embedded/embedded-postgres.ts'
import { createPool, type Pool, type Queryable } from '../db/pool.ts'
import { COMMAND_BOUNDS } from '../db/session-settings.ts'
import { listActivityFiles } from './activity-files.ts'
import { ActivityWriter } from './activity-writer.ts'
import { queryLake } from './lake-query.ts'
import type { LakeStore } from './lake-store.ts'
import { LocalLakeStore } from './local-store.ts'

// A server of their own: activities wait for the transactions of all databases of a server, and other tests have some.
const file = { after }
const server = await startEmbeddedPostgres(makeDataFolder(file))
onCleanup(file, () => server.stop())
await prepareDatabase(server.addresses, silent)
const poolOf = (url: string) => createPool({ url, size: 4, applicationName: 'test', onError: () => {}, bounds: COMMAND_BOUNDS })

async function createDatabase(t: TestContext): Promise<{ pool: Pool }> {
  const url = new URL(server.addresses.owner)
  const [template, name] = [url.pathname.slice(1), `test_${randomBytes(8).toString('hex')}`]
  const admin = poolOf(Object.assign(new URL(url), { pathname: '/postgres' }).href)
  await admin.query(`create database ${name} template ${template} strategy wal_log`)
  await admin.end()
  const pool = poolOf(Object.assign(url, { pathname: `/${name}` }).href)
  t.after(() => pool.end())
  return { pool }
}

const DOING = { actor: { type: 'admin', id: 'op-1' }, action: 'setStock', requestId: 'r-1' } as const
const record = (db: Queryable, n: number) =>
  recordActivity(db, DOING, {
    subjectType: 'product',
    subjectId: `p-${n}`,
    before: { stock: n },
    after: { stock: n + 1, name: `O'Neil "${n}" é` },
  })
const writerOn = (pool: Pool, store: LakeStore, fileRows = 3) =>
  new ActivityWriter({ pool, store, flushSeconds: 3_600, fileRows, logger: silent })

async function readSubjects(store: LakeStore): Promise<string[]> {
  const { rows } = await queryLake(store, 'select subject_id from activities order by id')
  return rows.map(([subject]) => String(subject))
}

const subjects = (...numbers: number[]) => numbers.map((n) => `p-${n}`)

test('copies each activity to exactly one file, and continues after a restart', async (t) => {
  const { pool } = await createDatabase(t)
  const store = new LocalLakeStore(await makeLakeDirectory(t))
  assert.deepEqual(await readSubjects(store), [], 'a lake without activities has the view')
  for (let n = 0; n < 7; n++) await record(pool, n)
  const writer = writerOn(pool, store)
  assert.equal(await writer.write(), 7)
  assert.equal(await writer.write(), 0)
  await record(pool, 7)
  assert.equal(await writerOn(pool, store).write(), 1)
  assert.deepEqual(await readSubjects(store), subjects(0, 1, 2, 3, 4, 5, 6, 7))
  assert.deepEqual(
    (await listActivityFiles(store)).map(({ name }) => name),
    [0, 3, 6, 7].map((after) => `activities/after-${String(after).padStart(16, '0')}.parquet`),
  )
  const { rows } = await queryLake(store, `select action, actor_id, "after" ->> 'name' from activities where id = 1`)
  assert.deepEqual(rows, [['setStock', 'op-1', `O'Neil "0" é`]])
  const { findings, inLake, recorded } = await compareActivities(pool, store)
  assert.deepEqual([findings, inLake, recorded], [[], 8, 8])
})

test('waits for a transaction that drew an earlier id, and leaves out one that is rolled back', async (t) => {
  const { pool } = await createDatabase(t)
  const store = new LocalLakeStore(await makeLakeDirectory(t))
  const writer = writerOn(pool, store)
  for (const end of ['commit', 'rollback']) {
    const slow = await pool.connect()
    await slow.query('begin')
    await record(slow, 1)
    await record(pool, 2)
    assert.equal(await writer.write(), 0, 'the second one is committed, and the first may still be')
    assert.equal(await writer.write(), 0)
    await record(pool, 3)
    await slow.query(end)
    slow.release()
    assert.equal(await writer.write(), end === 'commit' ? 2 : 1)
    assert.equal(await writer.write(), 1, 'what came after the first look is for the next one')
  }
  assert.deepEqual(await readSubjects(store), subjects(1, 2, 3, 2, 3))
  assert.deepEqual((await compareActivities(pool, store)).findings, [])
})

test('a transaction has its id before it draws one of activities', async (t) => {
  const { pool } = await createDatabase(t)
  const { rows } = await pool.query(
    `select tgname from pg_trigger where tgrelid = 'activities'::regclass and not tgisinternal and tgtype & 1 = 0 and tgtype & 2 = 2`,
  )
  assert.deepEqual(rows, [{ tgname: 'activities_have_transaction' }], 'before, for each statement')
})

test('two writers at once, one of them with an old position, leave each activity once', async (t) => {
  const { pool } = await createDatabase(t)
  const store = new LocalLakeStore(await makeLakeDirectory(t))
  const writers = [writerOn(pool, store), writerOn(pool, store)]
  for (let round = 0; round < 4; round++) {
    for (let n = 0; n < 5; n++) await record(pool, round * 5 + n)
    await Promise.all(writers.map((writer) => writer.write()))
  }
  // One continues alone, and then the other from where it was.
  await record(pool, 20)
  await writers[0]?.write()
  await record(pool, 21)
  await writers[1]?.write()
  assert.deepEqual(await readSubjects(store), subjects(...Array.from({ length: 22 }, (_, n) => n)))
  assert.deepEqual((await compareActivities(pool, store)).findings, [])
})

test('a write that fails before or after its file was stored is repeated without loss or repeat', async (t) => {
  const { pool } = await createDatabase(t)
  const store = new LocalLakeStore(await makeLakeDirectory(t))
  let fault: 'before' | 'after' | null = null
  const put: LakeStore['put'] = async (name, path) => {
    if (fault === 'before') throw new Error('no connection')
    const result = await store.put(name, path)
    if (fault === 'after') throw new Error('the answer was lost')
    return result
  }
  const broken = new Proxy<LakeStore>(store, {
    get: (target, name) => (name === 'put' ? put : Reflect.get(target, name).bind(target)),
  })
  const writer = writerOn(pool, broken)
  for (const [n, kind] of (['before', 'after', 'before', 'after'] as const).entries()) {
    await record(pool, n)
    fault = kind
    await assert.rejects(writer.write())
    fault = null
    if (n % 2 === 1) await writer.write()
  }
  await writer.write()
  assert.deepEqual(await readSubjects(store), subjects(0, 1, 2, 3))
  assert.deepEqual((await compareActivities(pool, store)).findings, [])
})

test('a restored database writes nothing until a new incarnation has begun, and then under ids of its own', async (t) => {
  const { pool } = await createDatabase(t)
  const store = new LocalLakeStore(await makeLakeDirectory(t))
  for (let n = 0; n < 4; n++) await record(pool, n)
  await writerOn(pool, store).write()
  // As a backup from after the second one.
  await pool.query('delete from activities where id > 2')
  await pool.query(`select setval('activities_id_seq', 2)`)
  await record(pool, 100)
  await assert.rejects(writerOn(pool, store).write(), { name: 'ActivitiesAhead' })
  await pool.query(
    `insert into database_incarnations (number, identity, reason, order_number) values (0, 'a', 'the first', 0), (2000, 'b', 'restored', 0)`,
  )
  await record(pool, 101)
  assert.equal(await writerOn(pool, store).write(), 1)
  const { rows } = await queryLake(store, 'select max(id) from activities')
  assert.ok(Number(rows[0]?.[0]) > 2_000_000_000)
  const { lost, findings } = await compareActivities(pool, store)
  assert.equal(lost, 1)
  // What was recorded between restore and incarnation has an id that the lake knows with other content: it shows.
  assert.deepEqual(
    findings.map(({ kind, examples }) => [kind, examples]),
    [['altered', ['3']]],
  )
})

test('a repair writes what damaged and deleted files had, and the running writer what the newest one had', async (t) => {
  const { pool } = await createDatabase(t)
  const store = new LocalLakeStore(await makeLakeDirectory(t))
  for (let n = 0; n < 9; n++) await record(pool, n)
  const writer = writerOn(pool, store, 2)
  await writer.write()
  const names = (await listActivityFiles(store)).map(({ name }) => name)
  assert.equal(names.length, 5)
  const [, second = '', third = '', , newest = ''] = names
  await store.delete(second)
  for (const name of [third, newest]) await truncate(store.locate(name), 500)
  await record(pool, 9)
  await assert.rejects(writer.write(), /after-0{15}8\.parquet is damaged: run storefront lake repair/)
  const setAside: string[] = []
  const repair = () => repairActivities(pool, store, (path) => setAside.push(path))
  assert.equal(await repair(), 4)
  assert.deepEqual(
    setAside,
    [third, newest].map((name) => `${store.locate(name)}.corrupt`),
  )
  assert.equal(await writer.write(), 2)
  assert.deepEqual(await readSubjects(store), subjects(...Array.from({ length: 10 }, (_, n) => n)))
  assert.deepEqual((await compareActivities(pool, store)).findings, [])
  assert.deepEqual([await repair(), setAside.length], [0, 2])

  // A bit of the newest file, which the writer does not read again, and a file after it while the repair runs.
  assert.equal(await writer.write(), 0)
  await record(pool, 10)
  const [last = assert.fail()] = (await listActivityFiles(store)).slice(-1)
  const bytes = await readFile(store.locate(last.name))
  bytes.writeUInt8(bytes.readUInt8(100) ^ 1, 100)
  await writeFile(store.locate(last.name), bytes)
  const setAsideLate = async (file: string) => {
    await writer.write()
    return store.setAside(file)
  }
  const beside = new Proxy<LakeStore>(store, {
    get: (target, name) => (name === 'setAside' ? setAsideLate : Reflect.get(target, name).bind(target)),
  })
  assert.equal(await repairActivities(pool, beside, () => {}), 2)
  assert.deepEqual(await readSubjects(store), subjects(...Array.from({ length: 11 }, (_, n) => n)))
  assert.deepEqual((await compareActivities(pool, store)).findings, [])

  // Under a lower name it would say that the lake has what it has not.
  const [first = '', next = ''] = (await listActivityFiles(store)).map(({ name }) => name)
  await copyFile(store.locate(next), store.locate('activities/after-0000000000000001.parquet'))
  await store.delete(first)
  assert.equal(await repair(), 2)
  assert.deepEqual((await compareActivities(pool, store)).findings, [])
})

test('a folder with the name of the next file fails a write, to be seen', async (t) => {
  const { pool } = await createDatabase(t)
  const store = new LocalLakeStore(await makeLakeDirectory(t))
  await record(pool, 0)
  await mkdir(store.locate('activities/after-0000000000000000.parquet'), { recursive: true })
  await assert.rejects(writerOn(pool, store).write(), /after-0{16}\.parquet has the name of the next file and is not a file: move it away/)
})

test('verify finds a missing, a doubled, an altered and an unknown activity, and a damaged file', async (t) => {
  const { pool } = await createDatabase(t)
  const store = new LocalLakeStore(await makeLakeDirectory(t))
  for (let n = 0; n < 9; n++) await record(pool, n)
  await writerOn(pool, store, 2).write()
  const kinds = async () => (await compareActivities(pool, store)).findings.map(({ kind, examples }) => [kind, examples])
  assert.deepEqual(await kinds(), [])
  await pool.query(`update activities set after = '{"stock": 99}' where id = 1`)
  await pool.query('delete from activities where id = 2')
  const [, second, third] = await listActivityFiles(store)
  await store.delete(second?.name ?? '')
  await store.withCopies([third as never], ([path = '']) => store.put('activities/after-0000000000000099.parquet', path))
  assert.deepEqual(await kinds(), [
    ['missing', ['3', '4']],
    ['doubled', ['5', '6']],
    ['altered', ['1']],
    ['unknown', ['2']],
  ])
})

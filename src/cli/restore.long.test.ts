import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { onCleanup } from '../../test/cleanup.ts'
import { eventually } from '../../test/eventually.ts'
import { withoutTag } from '../../test/lake-harness.ts'
import { createRestorableStore, type RunningStore } from '../../test/restorable-store.ts'
import { silent } from '../../test/stream-harness.ts'
import { readConfig } from '../config.ts'
import { restoreCluster } from '../db/embedded/backup.ts'
import { dataFolder } from '../db/embedded/data-folder.ts'
import { replayOrders } from './pipeline-commands.ts'
import { withDatabase } from './run-command.ts'

const countIncarnations = async ({ pool }: RunningStore) => (await pool.query('select from database_incarnations')).rowCount

// The store's customer and operator log in at each start, which opens two sessions.
const countOpenSessions = async ({ pool }: RunningStore) => (await pool.query('select from sessions where revoked_at is null')).rowCount

const isAccepted = async ({ call }: RunningStore, token: string) => (await call('GET', '/me', { token })).status === 200

/** Turns the lake into one of a previous release, which counted files by their names. */
function makeOld(lake: string): void {
  rmSync(join(lake, 'iceberg'), { recursive: true })
  for (const name of readdirSync(lake, { encoding: 'utf8', recursive: true }))
    if (name.endsWith('.parquet')) renameSync(join(lake, name), join(lake, withoutTag(name)))
}

test('the next start finishes an unfinished restore before it sells', async (t) => {
  const store = createRestorableStore(t)
  const folder = dataFolder(store.dataDir)
  const target = `${store.dataDir}-backup`
  const lakeCopy = `${store.dataDir}-lake`
  onCleanup(t, () => {
    for (const path of [target, lakeCopy]) rmSync(path, { recursive: true, force: true })
  })
  // Resets the lake to its state at the backup, so it cannot show that anything was lost.
  const putLakeBack = () => {
    rmSync(folder.lake, { recursive: true })
    cpSync(lakeCopy, folder.lake, { recursive: true })
  }
  const before = await store.start()
  await before.place()
  await before.untilDelivered()
  // A process was running this job at the time of the backup.
  await before.pool.query(
    `insert into cache_purges (purge_id, cache, tags, lease, leased_until)
    values (gen_random_uuid(), 'none', array['products'], gen_random_uuid(), now() + interval '15 s')`,
  )
  await before.backUp(target)
  cpSync(folder.lake, lakeCopy, { recursive: true })
  const lost = await before.place()
  await before.stop()

  rmSync(folder.lake, { recursive: true })
  writeFileSync(folder.lake, '')
  await assert.rejects(store.restore(target), /restore is not finished: .*run storefront migrate and storefront replay/)
  await assert.rejects(store.start(), /restore is not finished/)
  putLakeBack()
  const restored = await store.start()
  assert.equal(await countIncarnations(restored), 2)
  assert.equal(await countOpenSessions(restored), 2)
  const { rows: purges } = await restored.pool.query('select lease from cache_purges')
  assert.deepEqual(purges, [{ lease: null }], 'no purge waits for a process that is gone')
  const first = await restored.place()
  assert.ok(first.number > lost.number)
  await restored.stop()
  const again = await store.start()
  assert.equal(await countIncarnations(again), 2)
  await again.stop()

  // A process killed after the swap leaves this state.
  await restoreCluster(folder, target)
  putLakeBack()
  makeOld(folder.lake)
  const restoredAgain = await store.start()
  assert.equal(await countIncarnations(restoredAgain), 2)
  const second = await restoredAgain.place()
  assert.ok(second.number > lost.number)
  // The previous restore of the same backup left no trace in topic or lake either.
  assert.notEqual(second.number, first.number)
  await restoredAgain.stop()
})

test('refuses a backup below the cluster, and leaves no partial copy of a failed backup', async (t) => {
  const store = createRestorableStore(t)
  const { cluster } = dataFolder(store.dataDir)
  const [target, link] = [`${store.dataDir}-backup`, `${store.dataDir}-link`]
  onCleanup(t, () => {
    for (const path of [target, `${target}.partial`, link]) rmSync(path, { recursive: true, force: true })
  })
  const running = await store.start()
  symlinkSync(cluster, link)
  for (const parent of [cluster, join(cluster, 'base'), link])
    await assert.rejects(running.backUp(join(parent, 'new', 'backup')), /is in the database's own folder/)
  assert.equal(existsSync(join(cluster, 'new')), false)
  const tablespace = join(cluster, 'pg_tblspc', '1')
  writeFileSync(tablespace, '')
  await assert.rejects(running.backUp(target), /tablespaces/)
  rmSync(tablespace)
  assert.equal(existsSync(`${target}.partial`), false)
  await running.backUp(target)
  await running.stop()
})

test('of two simultaneous backups into one folder, one is complete and the other is refused', async (t) => {
  const store = createRestorableStore(t)
  const target = `${store.dataDir}-backup`
  onCleanup(t, () => {
    for (const path of [target, `${target}.partial`]) rmSync(path, { recursive: true, force: true })
  })
  const running = await store.start()
  const backups = await Promise.allSettled([running.backUp(target), running.backUp(target)])
  const [refusal, ...others] = backups.flatMap((backup) => (backup.status === 'rejected' ? [String(backup.reason)] : []))
  assert.match(refusal ?? '', /backup\.partial exists: another backup writes to it, or one was killed/)
  assert.deepEqual(others, [])
  assert.equal(existsSync(`${target}.partial`), false)
  const manifest = JSON.parse(readFileSync(join(target, 'backup.json'), 'utf8'))
  const paths = manifest.files.map(({ path }: { path: string }) => path)
  assert.equal(new Set(paths).size, paths.length)
  for (const { path, sha256 } of manifest.files)
    assert.equal(
      createHash('sha256')
        .update(readFileSync(join(target, path)))
        .digest('hex'),
      sha256,
      path,
    )

  // The owner of a killed backup's remains is unknown.
  const killed = `${target}.partial`
  mkdirSync(killed)
  writeFileSync(join(killed, 'file'), 'kept')
  rmSync(target, { recursive: true })
  await assert.rejects(running.backUp(target), /delete it if no backup runs/)
  assert.equal(readFileSync(join(killed, 'file'), 'utf8'), 'kept')
  rmSync(killed, { recursive: true })
  // Another process fills the folder meanwhile.
  const late = running.backUp(target)
  await eventually(async () => existsSync(killed), { what: 'the partial backup' })
  mkdirSync(target)
  writeFileSync(join(target, 'file'), 'kept')
  await assert.rejects(late, /is there already: give the backup a folder of its own/)
  assert.deepEqual(readdirSync(target), ['file'])
  assert.equal(existsSync(killed), false)
  await running.stop()
})

test('refuses a backup of another schema before it changes anything', async (t) => {
  const store = createRestorableStore(t)
  const folder = dataFolder(store.dataDir)
  const target = `${store.dataDir}-backup`
  onCleanup(t, () => rmSync(target, { recursive: true, force: true }))
  const running = await store.start()
  await running.backUp(target)
  const { rows: applied } = await running.pool.query<{ name: string }>('select name from migrations order by name')
  await running.stop()
  const file = join(target, 'backup.json')
  const manifest = JSON.parse(readFileSync(file, 'utf8')) as { migrations?: { name: string; sha256: string | null }[] }
  const { migrations = [] } = manifest
  assert.deepEqual(
    migrations.map(({ name }) => ({ name })),
    applied,
  )
  for (const { name, sha256 } of migrations) {
    const text = readFileSync(new URL(`../../migrations/${name}.sql`, import.meta.url))
    assert.equal(sha256, createHash('sha256').update(text).digest('hex'))
  }
  const [first, ...others] = migrations
  assert.ok(first)
  const development = /made by a development version, whose schema this version does not know/
  for (const [changed, refusal] of [
    [
      [...migrations, { name: '9999_later', sha256: null }],
      /made by a later version \(its schema has 9999_later\): restore it with that version/,
    ],
    [[{ ...first, sha256: '0' }, ...others], development],
    [[{ ...first, name: '0001_accounts' }, ...others], development],
    [[], development],
    [undefined, development],
  ] as const) {
    writeFileSync(file, JSON.stringify({ ...manifest, migrations: changed }))
    const before = readdirSync(store.dataDir).toSorted()
    const control = readFileSync(join(folder.cluster, 'global', 'pg_control'))
    await assert.rejects(store.restore(target), refusal)
    assert.deepEqual(readFileSync(join(folder.cluster, 'global', 'pg_control')), control)
    assert.deepEqual(readdirSync(store.dataDir).toSorted(), before)
  }
  // A previous version of the store lacks the newest migration, which the restore applies.
  writeFileSync(file, JSON.stringify({ ...manifest, migrations: migrations.slice(0, -1) }))
  await store.restore(target)
})

test('storefront replay --restored begins an incarnation without evidence, and ends every session', async (t) => {
  const store = createRestorableStore(t)
  const { lake } = dataFolder(store.dataDir)
  const lakeCopy = `${store.dataDir}-lake`
  onCleanup(t, () => rmSync(lakeCopy, { recursive: true, force: true }))
  const before = await store.start()
  const kept = await before.place()
  await before.untilDelivered()
  await before.stop()
  const putBack = store.copyDatabase()
  cpSync(lake, lakeCopy, { recursive: true })
  const lostTime = await store.start()
  const lost = await lostTime.place()
  assert.equal(await lostTime.cancel(kept), 2)
  assert.ok(await isAccepted(lostTime, lostTime.operator))
  await lostTime.stop()
  putBack()
  rmSync(lake, { recursive: true })
  cpSync(lakeCopy, lake, { recursive: true })

  const printed: string[] = []
  const write = (line: string) => void printed.push(line)
  const terminal = { out: write, err: write, exit: () => assert.fail('the command ends the process') }
  const settings = { config: readConfig(store.environment), logger: silent, terminal }
  const replayed = { since: undefined, orderId: undefined, subscriber: undefined, isRestored: true }
  assert.equal(await withDatabase(settings, (context) => replayOrders(context, replayed)), 0, printed.join('\n'))
  assert.match(printed[0] ?? '', /were advanced, and every session has ended/)
  const restored = await store.start()
  assert.equal(await countIncarnations(restored), 2)
  assert.equal(await countOpenSessions(restored), 2)
  assert.equal(await isAccepted(restored, lostTime.operator), false, 'a session that the database does not know')
  assert.ok((await restored.place()).number > lost.number)
  assert.ok((await restored.cancel(kept)) > 1_000)
  await restored.untilDelivered()
  assert.deepEqual((await restored.verify()).findings, [])
  await restored.stop()
})

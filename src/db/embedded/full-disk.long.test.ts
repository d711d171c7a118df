import assert from 'node:assert/strict'
import { existsSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { onCleanup } from '../../../test/cleanup.ts'
import { untilNoServer } from '../../../test/data-folders.ts'
import { eventually } from '../../../test/eventually.ts'
import { makeTestFolder } from '../../../test/test-folder.ts'
import { fillDisk, mountTmpfs, NO_TMPFS } from '../../../test/tmpfs.ts'
import { type DataFolder, dataFolder } from './data-folder.ts'
import { startEmbeddedPostgres } from './embedded-postgres.ts'
import { PostgresUnavailable } from './postgres-launcher.ts'

/** Makes a data folder on a separate disk. */
function folderOnDisk(t: TestContext, megabytes: number): DataFolder {
  const path = makeTestFolder(t, 'storefront-disk-')
  assert.equal(mountTmpfs(t, path, megabytes), null)
  onCleanup(t, () => untilNoServer(path))
  return dataFolder(path)
}

/** Asserts an error of one line with the disk's path. */
function assertFull(error: unknown, folder: DataFolder): true {
  assert.ok(error instanceof PostgresUnavailable, String(error))
  assert.match(error.message, /: the disk of [^:]* is full(?: \(\d+ MB free\))?: make room on it/)
  assert.ok(error.message.includes(`the disk of ${folder.path}`) && !error.message.includes('\n'), error.message)
  return true
}

test('a server without space for its WAL restarts until there is space, and has the committed data', { skip: NO_TMPFS }, async (t) => {
  const folder = folderOnDisk(t, 250)
  const down: string[] = []
  const up = Promise.withResolvers<void>()
  const settings = { fsync: 'off', min_wal_size: '32MB', max_wal_size: '32MB' }
  const server = await startEmbeddedPostgres(folder, {
    settings,
    isSupervised: true,
    onUnexpectedExit: (reason) => void down.push(reason),
    onRestarted: up.resolve,
  })
  onCleanup(t, () => server.stop())
  const connect = async () => {
    const client = new pg.Client({ connectionString: server.url })
    client.on('error', () => {})
    await client.connect()
    return client
  }
  const client = await connect()
  // The first page has space for this test's rows. A table that needs another page would be refused, and the server
  // would continue.
  await client.query('create table kept as select 0 as number')
  const ballast = fillDisk(folder.path)
  let committed = 0
  // PostgreSQL panics if it cannot create the next WAL segment, and cannot recover without one.
  await assert.rejects(async () => {
    for (;;) {
      await client.query('insert into kept values ($1)', [committed + 1])
      committed += 1
      await client.query(`select pg_logical_emit_message(false, 'ballast', repeat('x', 1000000), true)`)
    }
  })
  await eventually(async () => down.length >= 3, { what: 'two restarts that fail' })
  assert.match(down[0] ?? '', /^the embedded PostgreSQL ended \(exit status 1\): the disk of /)
  assert.match(down.at(-1) ?? '', /^the embedded PostgreSQL did not start: the disk of .* is full/)
  assert.equal(server.failure, down.at(-1))

  rmSync(ballast)
  await up.promise
  assert.equal(server.failure, null)
  const again = await connect()
  const { rows } = await again.query('select max(number)::integer as last from kept')
  await again.end()
  assert.ok(rows[0].last >= committed, `${rows[0].last} of ${committed}`)
})

test('a start on a full disk ends with one line that names the disk, for a new and an existing store', {
  skip: NO_TMPFS,
}, async (t) => {
  const folder = folderOnDisk(t, 120)
  const ballast = fillDisk(folder.path)
  await assert.rejects(startEmbeddedPostgres(folder), (error) => assertFull(error, folder))
  rmSync(ballast)
  const first = await startEmbeddedPostgres(folder)
  await first.stop()

  // PostgreSQL has to recover if the file that records a clean shutdown is missing.
  const again = fillDisk(folder.path)
  renameSync(join(folder.cluster, 'global', 'pg_control'), join(folder.cluster, 'global', 'pg_control.away'))
  await assert.rejects(startEmbeddedPostgres(folder), (error) => assertFull(error, folder))
  renameSync(join(folder.cluster, 'global', 'pg_control.away'), join(folder.cluster, 'global', 'pg_control'))
  rmSync(again)
  const second = await startEmbeddedPostgres(folder)
  await second.stop()
  assert.ok(existsSync(folder.cluster) && !readdirSync(folder.path).some((name) => name.endsWith('.new')))
})

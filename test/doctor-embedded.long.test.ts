import assert from 'node:assert/strict'
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { isRunning, readPidFile } from '../src/db/embedded/running-postgres.ts'
import { makeDataFolder, untilNoServer } from './data-folders.ts'
import { mountDeadDisk } from './dead-disk.ts'
import { assertFinding, examine } from './doctor-harness.ts'
import { eventually, Stopwatch } from './eventually.ts'
import { runStorefront, serve } from './store-process.ts'

const REMEDY = /^check the disk, or the server that it is mounted from, and run this again$/

/** What the command prints and its time. */
async function runDoctor(t: TestContext, env: Record<string, string>) {
  const stopwatch = new Stopwatch(t)
  const { status, stdout, stderr } = await runStorefront(t, ['doctor', '--json'], { env })
  assert.equal(stderr, '')
  return { status, ms: stopwatch.ms, findings: JSON.parse(stdout).checks as Parameters<typeof assertFinding>[0] }
}

test('an embedded store that runs, hangs, was killed and is stopped', async (t) => {
  const folder = makeDataFolder(t)
  const { path } = folder
  const look = () => examine({ DATA_DIR: path, STOREFRONT_SECRET: '' })
  assertFinding(
    await look(),
    'database',
    'warning',
    /^there is no store in/,
    /^set DATA_DIR to the folder of the store, or start one there$/,
  )

  const first = await serve(t, { env: { DATA_DIR: path } })
  const running = await look()
  assertFinding(running, 'database', 'ok', /^PostgreSQL 18.*, database storefront, role \w+$/)
  assertFinding(running, 'slot', 'ok', /^storefront_orders is read, .* behind/)
  assertFinding(running, 'secret', 'ok', /^the secret in .* is that of the store$/)
  assert.deepEqual(
    running.filter(({ status }) => status === 'problem'),
    [],
  )

  const postmaster = readPidFile(folder)?.pid ?? 0
  process.kill(postmaster, 'SIGSTOP')
  const hanging = await look().finally(() => process.kill(postmaster, 'SIGCONT'))
  assertFinding(
    hanging,
    'database',
    'problem',
    /^the embedded PostgreSQL \(process \d+\) does not answer$/,
    /postgres\.log, and restart the store$/,
  )

  // The advice: the end of the log, and a restart.
  await first.end('SIGKILL')
  await untilNoServer(path)
  const second = await serve(t, { env: { DATA_DIR: path } })
  assertFinding(await look(), 'database', 'ok', /^PostgreSQL 18/)
  const killed = readPidFile(folder)?.pid ?? 0
  process.kill(second.pid, 'SIGSTOP')
  process.kill(killed, 'SIGKILL')
  await eventually(async () => !isRunning(killed), { what: 'the end of the killed server' })
  assertFinding(
    await look(),
    'database',
    'warning',
    /was killed; its next start recovers it, so nothing/,
    /^start the store, and run this again/,
  )
  await second.end('SIGKILL')
  await untilNoServer(path)

  const third = await serve(t, { env: { DATA_DIR: path } })
  assert.equal(await third.end('SIGTERM'), 0)
  const stopped = await look()
  assertFinding(
    stopped,
    'database',
    'warning',
    /is stopped, so nothing in it was examined$/,
    /^start the store, and run this again while it runs$/,
  )
  assert.deepEqual(
    stopped.filter(({ status }) => status === 'problem'),
    [],
  )
  assert.equal(readPidFile(folder), null, 'it was not started')
})

test('a disk that does not answer is a problem within the time, and the command ends', async (t) => {
  const { path } = makeDataFolder(t)
  const reason = mountDeadDisk(t, path)
  if (reason !== null) return t.skip(reason)
  const { status, ms, findings } = await runDoctor(t, { DATA_DIR: path })
  assert.ok(ms < 20_000, `${ms} ms`)
  assert.equal(status, 1)
  assertFinding(findings, 'disk', 'problem', new RegExp(`^${path} does not answer within 10 s$`), REMEDY)
  assertFinding(findings, 'database', 'warning', /^not examined: the disk of /, REMEDY)
})

test('so is the disk of the cluster alone', async (t) => {
  const { path, cluster } = makeDataFolder(t)
  mkdirSync(path)
  writeFileSync(join(path, 'postgres-password'), 'x\n')
  const reason = mountDeadDisk(t, cluster)
  if (reason !== null) return t.skip(reason)
  const { status, ms, findings } = await runDoctor(t, { DATA_DIR: path })
  assert.ok(ms < 20_000, `${ms} ms`)
  assert.equal(status, 1)
  assertFinding(findings, 'disk', 'problem', new RegExp(`^${cluster} does not answer within 10 s$`), REMEDY)
})

test('a stopped store that lacks what its start needs is a problem, which the start names too', async (t) => {
  const { path, cluster } = makeDataFolder(t)
  const store = await serve(t, { env: { DATA_DIR: path } })
  assert.equal(await store.end('SIGTERM'), 0)
  const look = () => examine({ DATA_DIR: path, STOREFRONT_SECRET: '' })
  const password = join(path, 'postgres-password')
  for (const [lost, found, remedy] of [
    [password, /postgres-password is missing beside the store in .*$/, /^restore it from a backup; nothing was changed$/],
    [cluster, /postgres is missing beside postgres-password, secret(, lake)?$/, /^mount its disk, or run storefront restore with a backup/],
  ] as const) {
    renameSync(lost, `${path}-lost`)
    assertFinding(await look(), 'database', 'problem', found, remedy)
    const { status, stderr } = await runStorefront(t, ['serve'], { env: { DATA_DIR: path } })
    assert.notEqual(status, 0)
    assert.match(stderr, /is missing beside/)
    renameSync(`${path}-lost`, lost)
    assertFinding(await look(), 'database', 'warning', /is stopped, so nothing in it was examined$/)
  }
})

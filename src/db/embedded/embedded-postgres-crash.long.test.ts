import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, cpSync, existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { onCleanup } from '../../../test/cleanup.ts'
import { makeDataFolder, serverProcesses, untilNoServer } from '../../../test/data-folders.ts'
import { eventually } from '../../../test/eventually.ts'
import { startEmbeddedPostgres } from './embedded-postgres.ts'
import { SERVER_USER } from './mount-namespace.ts'
import { chooseLauncher, PostgresUnavailable } from './postgres-launcher.ts'

const OWNER = fileURLToPath(new URL('../../../test/postgres-owner-process.ts', import.meta.url))
const isRoot = process.getuid?.() === 0
const NOBODY = 65_534

// Creating a cluster takes a second, so the tests share this one in turn.
const folder = makeDataFolder({ after })

async function selectOne(url: string, sql = 'select 1 as one'): Promise<pg.QueryResultRow | undefined> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(sql)).rows[0]
  } finally {
    await client.end()
  }
}

/** Runs a server's owner until it has reported `rows` committed rows, then kills it. Returns the last reported row. */
async function runAndKill(t: TestContext, rows: number): Promise<number> {
  const owner = spawn(process.execPath, [OWNER, folder.path], { stdio: ['ignore', 'pipe', 'inherit'] })
  onCleanup(t, () => void owner.kill('SIGKILL'))
  const exited = once(owner, 'exit')
  let last = 0
  for await (const line of createInterface(owner.stdout)) {
    last = Number(line)
    if (last >= rows) owner.kill('SIGKILL')
  }
  await exited
  return last
}

test('a killed store leaves no server, a free folder and every committed row', async (t) => {
  const last = await runAndKill(t, 50)
  await untilNoServer(folder.path)
  const server = await startEmbeddedPostgres(folder)
  onCleanup(t, () => server.stop())
  const kept = await selectOne(server.url, 'select count(*)::int as count, max(number) as last from kept')
  assert.ok(kept?.last >= last && kept?.count === kept?.last, JSON.stringify({ ...kept, named: last }))
})

test('starts at once after a kill, even while the old server is still exiting', async (t) => {
  for (const rows of [20, 40]) {
    const last = await runAndKill(t, rows)
    const server = await startEmbeddedPostgres(folder)
    const kept = await selectOne(server.url, 'select max(number) as last from kept')
    assert.ok(kept?.last >= last)
    await server.stop()
  }
})

test('stops a server that outlived its watchdog, and reports it to the store that had lost it', async (t) => {
  const lost = Promise.withResolvers<string>()
  const first = await startEmbeddedPostgres(folder, { onUnexpectedExit: lost.resolve })
  onCleanup(t, () => first.stop())
  const processes = serverProcesses(folder.path)
  for (const { pid } of processes.filter(({ program }) => program === 'sh')) process.kill(pid, 'SIGKILL')
  assert.match(await lost.promise, /^the embedded PostgreSQL ended \(SIGKILL\); see .*postgres\.log$/)
  const [orphan] = processes.filter(({ program }) => program === 'postgres')
  assert.equal(serverProcesses(folder.path)[0]?.pid, orphan?.pid)
  await first.stop()

  const second = await startEmbeddedPostgres(folder)
  onCleanup(t, () => second.stop())
  assert.deepEqual(await selectOne(second.url), { one: 1 })
  assert.ok(!serverProcesses(folder.path).some(({ pid }) => pid === orphan?.pid))
})

test('starts even if an old server exits by itself just before it is stopped', async (t) => {
  const lost = Promise.withResolvers<string>()
  const first = await startEmbeddedPostgres(folder, { onUnexpectedExit: lost.resolve })
  onCleanup(t, () => first.stop())
  for (const { pid, program } of serverProcesses(folder.path)) if (program === 'sh') process.kill(pid, 'SIGKILL')
  await lost.promise
  await first.stop()
  const kill = process.kill.bind(process)
  t.mock.method(process, 'kill', (pid: number, signal?: string | number) => {
    if (signal !== 'SIGINT') return kill(pid, signal)
    kill(pid, 'SIGKILL')
    throw Object.assign(new Error('kill ESRCH'), { code: 'ESRCH' })
  })
  const second = await startEmbeddedPostgres(folder)
  onCleanup(t, () => second.stop())
  assert.deepEqual(await selectOne(second.url), { one: 1 })
})

test('a supervised server restarts at its address, waits while its cluster is missing, and can be stopped meanwhile', async (t) => {
  const down: string[] = []
  const ups: number[] = []
  const options = { isSupervised: true, onUnexpectedExit: (reason: string) => void down.push(reason), onRestarted: () => void ups.push(1) }
  const server = await startEmbeddedPostgres(folder, options)
  onCleanup(t, () => server.stop())
  const killServer = () => {
    for (const { pid, program } of serverProcesses(folder.path)) if (program === 'postgres') process.kill(pid, 'SIGKILL')
  }
  killServer()
  await eventually(async () => ups.length === 1, { what: 'a restart' })
  assert.match(down.join(), /^the embedded PostgreSQL ended/)
  assert.deepEqual([await selectOne(server.url), await selectOne(server.addresses.owner), server.failure], [{ one: 1 }, { one: 1 }, null])

  const away = `${folder.cluster}.away`
  renameSync(folder.cluster, away)
  onCleanup(t, () => void (existsSync(away) && renameSync(away, folder.cluster)))
  killServer()
  await eventually(async () => server.failure === `the store in ${folder.cluster} is gone`, { what: 'a restart that fails' })
  assert.ok(!existsSync(folder.cluster), 'no empty store was made in its place')
  await Promise.all([server.stop(), server.stop()])
  renameSync(away, folder.cluster)
  assert.equal(ups.length, 1)
  await untilNoServer(folder.path)
})

test('recovers after the server itself was killed', async (t) => {
  const lost = Promise.withResolvers<string>()
  const first = await startEmbeddedPostgres(folder, { onUnexpectedExit: lost.resolve })
  onCleanup(t, () => first.stop())
  const [postgres] = serverProcesses(folder.path).filter(({ program }) => program === 'postgres')
  process.kill(postgres?.pid ?? 0, 'SIGKILL')
  assert.match(await lost.promise, /^the embedded PostgreSQL ended/)
  await first.stop()
  const second = await startEmbeddedPostgres(folder)
  onCleanup(t, () => second.stop())
  assert.deepEqual(await selectOne(second.url), { one: 1 })
  const sockets = readdirSync(folder.cluster).filter((name) => name.startsWith('.s.PGSQL.'))
  const { port } = new URL(second.url)
  assert.deepEqual(sockets.toSorted(), [`.s.PGSQL.${port}`, `.s.PGSQL.${port}.lock`], 'none of the server that was killed')
})

test('names the log if the server does not start, and unlocks the folder', async () => {
  await assert.rejects(startEmbeddedPostgres(folder, { settings: { wal_level: 'nonsense' } }), (error: Error) => {
    assert.ok(error instanceof PostgresUnavailable)
    assert.match(error.message, /did not start; see .*postgres\.log$/)
    return true
  })
  const server = await startEmbeddedPostgres(folder)
  await server.stop()
})

test('refuses a cluster of another major version of PostgreSQL with both versions, and leaves it unchanged', async () => {
  const file = join(folder.cluster, 'PG_VERSION')
  const version = readFileSync(file, 'utf8')
  writeFileSync(file, '17\n')
  await assert.rejects(
    startEmbeddedPostgres(folder),
    /postgres is of PostgreSQL 17, and this version of Storefront has PostgreSQL 18: move it with the version that made it \(storefront database move\); see /,
  )
  writeFileSync(file, version)
  const server = await startEmbeddedPostgres(folder)
  await server.stop()
})

test('runs a cluster that belongs to an ordinary user as that user', { skip: !isRoot && 'needs root' }, async (t) => {
  const own = makeDataFolder(t)
  cpSync(folder.path, own.path, { recursive: true })
  const program = chooseLauncher(join(own.path, 'none')).program('postgres')
  if (spawnSync(program, ['--version'], { uid: NOBODY, gid: NOBODY }).status !== 0) {
    t.skip('an ordinary user cannot enter this checkout')
    return
  }
  chmodSync(dirname(own.path), 0o755)
  for (const name of ['', ...readdirSync(own.path, { recursive: true, encoding: 'utf8' })]) {
    chownSync(join(own.path, name), NOBODY, NOBODY)
  }
  const server = await startEmbeddedPostgres(own)
  onCleanup(t, () => server.stop())
  assert.deepEqual(await selectOne(server.url), { one: 1 })
  assert.deepEqual([...new Set(serverProcesses(own.path).map(({ uid }) => uid))], [NOBODY])
})

/** The server's answer, or its error. */
async function ask(url: string, sql: string): Promise<unknown> {
  return selectOne(url, sql).catch((error: Error) => error.message)
}

test("as root, the server runs as a user who can read none of root's files and sees only its own", {
  skip: !isRoot && 'needs root',
}, async (t) => {
  const warnings: string[] = []
  const server = await startEmbeddedPostgres(folder, { onWarning: (message) => warnings.push(message) })
  onCleanup(t, () => server.stop())
  assert.deepEqual(warnings, [])
  const outside = join(folder.path, 'roots-own')
  const inside = join(folder.cluster, 'roots-own')
  for (const file of [outside, inside]) {
    writeFileSync(file, 'a secret', { mode: 0o600 })
    onCleanup(t, () => rmSync(file))
  }
  assert.match(String(await ask(server.url, `select pg_read_file('${outside}')`)), /No such file or directory/)
  assert.match(String(await ask(server.url, `select pg_read_file('${inside}')`)), /Permission denied/)
  assert.match(String(await ask(server.url, `select pg_read_file('${join(folder.path, 'postgres-password')}')`)), /No such file/)
  assert.match(String(await ask(server.url, `select pg_read_file('/proc/1/environ')`)), /No such file/)
  assert.deepEqual(
    await ask(server.url, `select array_agg(name::text order by name collate "C") @> '{home}' as has_home from pg_ls_dir('/') as name`),
    { has_home: false },
  )
  assert.deepEqual([...new Set(serverProcesses(folder.path).map(({ uid }) => uid))], [SERVER_USER.uid])
})

test('a root-owned cluster, such as a copy, gets another owner at the next start', {
  skip: !isRoot && 'needs root',
}, async (t) => {
  const names = () => ['', ...readdirSync(folder.cluster, { recursive: true, encoding: 'utf8' })]
  for (const name of names()) chownSync(join(folder.cluster, name), 0, 0)
  const server = await startEmbeddedPostgres(folder)
  onCleanup(t, () => server.stop())
  assert.deepEqual(await selectOne(server.url), { one: 1 })
  assert.deepEqual([...new Set(names().map((name) => statSync(join(folder.cluster, name)).uid))], [SERVER_USER.uid])
})

test('root needs no folder of system programs in PATH to isolate the server in its namespace', {
  skip: !isRoot && 'needs root',
}, async (t) => {
  const path = process.env.PATH
  process.env.PATH = '/usr/bin:/bin'
  onCleanup(t, () => {
    process.env.PATH = path
  })
  const server = await startEmbeddedPostgres(folder)
  onCleanup(t, () => server.stop())
  assert.deepEqual([...new Set(serverProcesses(folder.path).map(({ uid }) => uid))], [SERVER_USER.uid])
})

test('if root may not create a mount namespace, the server runs in a user namespace, with a warning', {
  skip: !isRoot && 'needs root',
}, async (t) => {
  // In most containers root lacks this capability.
  const owner = spawn('setpriv', ['--bounding-set', '-sys_admin', process.execPath, OWNER, folder.path], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onCleanup(t, () => void owner.kill('SIGKILL'))
  const exited = once(owner, 'exit')
  const lines = createInterface(owner.stdout)
  const [line] = await Promise.race([once(lines, 'line'), exited.then(() => ['ended'])])
  const [warning] = await once(createInterface(owner.stderr), 'line')
  assert.match(String(warning), /^PostgreSQL can read every file that root can: /)
  assert.equal(line, '1')
  assert.deepEqual([...new Set(serverProcesses(folder.path).map(({ uid }) => uid))], [0])
  owner.kill('SIGKILL')
  await exited
  await untilNoServer(folder.path)
  const server = await startEmbeddedPostgres(folder)
  onCleanup(t, () => server.stop())
  assert.deepEqual([...new Set(serverProcesses(folder.path).map(({ uid }) => uid))], [SERVER_USER.uid])
})

test('works for root in a folder that only root can enter', { skip: !isRoot && 'needs root' }, async (t) => {
  chmodSync(dirname(folder.path), 0o700)
  const server = await startEmbeddedPostgres(folder)
  onCleanup(t, () => server.stop())
  assert.deepEqual(await selectOne(server.url), { one: 1 })
  assert.ok(existsSync(join(folder.cluster, 'postmaster.pid')))
})

test("an ordinary user cannot start another user's cluster", { skip: isRoot && 'root may use every cluster' }, () => {
  assert.throws(() => chooseLauncher('/etc'), { name: 'PostgresUnavailable', message: /belongs to another user \(uid 0\)/ })
})

import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, closeSync, mkdirSync, openSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import type { DatabaseAddresses } from '../addresses.ts'
import { identifier, sql } from '../sql.ts'
import { type DataFolder, draftFolder, hasCluster, readOrCreateSecret } from './data-folder.ts'
import { createRoles, embeddedRoles, OWNER } from './embedded-roles.ts'
import { freePort, isFree } from './free-port.ts'
import { findFullDisk } from './full-disk.ts'
import { chooseLauncher, giveTo, type Launcher, PostgresUnavailable } from './postgres-launcher.ts'
import { address, DATABASE, endOrphan, PASSWORD_FILE, probe, removeSockets } from './running-postgres.ts'
import type { RunningServer } from './server-supervisor.ts'

const POLL_MS = 20
const START_TRIES = 3
const READY_TIMEOUT_MS = 120_000
const LOG_MAX_BYTES = 10_000_000
// What fits into a socket's address everywhere, less the name of the socket: its end is `/.s.PGSQL.65535`.
const MAX_SOCKET_FOLDER_LENGTH = 85

/** Fit for a laptop: about 150 MB, durable, and with what logical replication needs. */
const SETTINGS: Record<string, string> = {
  listen_addresses: '127.0.0.1',
  max_connections: '100',
  shared_buffers: '128MB',
  wal_level: 'logical',
  max_wal_senders: '10',
  max_replication_slots: '10',
  fsync: 'on',
  synchronous_commit: 'on',
  max_wal_size: '1GB',
  jit: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  lc_messages: 'C',
}

// Runs the server and ends it when standard input closes, which the kernel does however the store dies.
// A line on standard input is a signal for the server: TERM waits for its clients, INT does not, QUIT crashes it.
const KEEPER = `
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
{ while read -r signal; do kill "-$signal" "$server"; done; kill -INT "$server"; } <&3 2>/dev/null &
keeper=$!
exec 3<&-
wait "$server"
status=$?
kill "$keeper" 2>/dev/null
wait "$keeper"
exit "$status"
`

/** How a server is started, and what is heard of it. */
export interface ServerOptions {
  /** Server settings that differ from the store's own, for tests. */
  settings?: Record<string, string>
  /** A TCP port to listen on; one of the kernel's choice unless said otherwise. */
  findPort?: () => Promise<number>
  /** Called when the server runs, but not as it should. */
  onWarning?: (message: string) => void
}

/** A server whose data folder this process holds. */
export interface Server extends RunningServer {
  port: number
  url: string
  addresses: DatabaseAddresses
}

/** Makes the cluster if there is none, recovers it after a crash, and returns when it answers. Throws PostgresUnavailable. */
export async function startServer(folder: DataFolder, options: ServerOptions, tries = START_TRIES, isTried = false): Promise<Server> {
  const launcher = chooseLauncher(folder.cluster, { isTried })
  if (!hasCluster(folder)) mkdirSync(draftFolder(folder), { recursive: true, mode: 0o700 })
  const password = readOrCreateSecret(folder, PASSWORD_FILE)
  await initialise(folder, launcher, password)
  await endOrphan(folder)
  if (launcher.owner !== null) giveTo(folder.cluster, launcher.owner)
  if (launcher.warning !== null) options.onWarning?.(launcher.warning)
  removeSockets(folder)
  const port = await (options.findPort ?? freePort)()
  const logFile = join(folder.path, 'postgres.log')
  const socketFolder = (await takesSocket(folder.cluster)) ? folder.cluster : ''
  const sockets = { unix_socket_directories: socketFolder, unix_socket_permissions: '0700' }
  const settings = Object.entries({ ...SETTINGS, ...sockets, ...options.settings, port: String(port) })
  const server = [launcher.program('postgres'), '-D', folder.cluster, ...settings.flatMap(([name, value]) => ['-c', `${name}=${value}`])]
  const keeper = spawnLogged(launcher.wrap(['sh', '-c', KEEPER, 'storefront-postgres', ...server], folder.cluster), launcher, logFile)
  const exited = new Promise<void>((resolve) => {
    keeper.once('exit', () => resolve())
    // What could not be started does not end.
    if (keeper.pid === undefined) resolve()
  })
  let stopping = false
  const stop = async (how: 'now' | 'wait') => {
    if (!stopping) {
      stopping = true
      keeper.stdin?.on('error', () => {})
      if (how === 'wait') keeper.stdin?.write('TERM\n')
      else keeper.stdin?.end()
    }
    await exited
  }
  const owner = { role: OWNER, password }
  try {
    await untilReady(keeper, address(port, owner, 'postgres'), folder, logFile)
    await createDatabase(address(port, owner, 'postgres'), password)
  } catch (error) {
    await stop('now')
    // Somebody else may have taken the port in the moment between finding it and listening on it, or the machine allows less than it did.
    if (tries > 1 && (!launcher.isTried || !(await isFree(port)))) return startServer(folder, options, tries - 1, true)
    throw error
  }
  const died = new Promise<string>((resolve) => {
    const tell = (code: number | null, signal: string | null) => {
      if (!stopping) resolve(withReason(`the embedded PostgreSQL ended (${signal ?? `exit status ${code}`})`, folder, logFile))
    }
    // It may have ended since it answered.
    if (keeper.exitCode !== null || keeper.signalCode !== null) tell(keeper.exitCode, keeper.signalCode)
    else keeper.once('exit', tell)
  })
  return { port, url: address(port, owner), addresses: addressesOf(port, password, socketFolder === '' ? null : socketFolder), died, stop }
}

/** For the driver, and libpq, the parameter goes before the address's own host. */
function socketAddress(url: string, folder: string): string {
  return `${url}?host=${encodeURIComponent(folder)}`
}

/** PostgreSQL does not start when it cannot make its socket, and some shared folders take none. */
async function takesSocket(folder: string): Promise<boolean> {
  // The setting is a list: commas and quotes would be its syntax.
  if (process.platform === 'win32' || Buffer.byteLength(folder) > MAX_SOCKET_FOLDER_LENGTH || /[",]/.test(folder)) return false
  const path = join(folder, '.s.probe')
  const server = createServer()
  try {
    rmSync(path, { force: true })
    await new Promise<void>((resolve, reject) => server.once('error', reject).listen(path, resolve))
    chmodSync(path, 0o700)
    return true
  } catch {
    return false
  } finally {
    await new Promise((resolve) => server.close(resolve))
  }
}

/** Makes the cluster aside and renames it, so that a crash in between leaves no half-made one. */
async function initialise(folder: DataFolder, launcher: Launcher, password: string): Promise<void> {
  if (hasCluster(folder)) return
  const draft = draftFolder(folder)
  for (const name of readdirSync(draft)) rmSync(join(draft, name), { recursive: true })
  const passwordFile = join(draft, 'password')
  writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 })
  if (launcher.owner !== null) giveTo(draft, launcher.owner)
  const logFile = join(folder.path, 'postgres.log')
  const cluster = join(draft, 'cluster')
  const args = [
    `--pgdata=${cluster}`,
    `--username=${OWNER}`,
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    '--data-checksums',
  ]
  const child = spawnLogged(launcher.wrap([launcher.program('initdb'), ...args], draft), launcher, logFile)
  const code = await new Promise((resolve, reject) => child.once('exit', resolve).once('error', reject))
  if (code !== 0) throw new PostgresUnavailable(withReason('PostgreSQL could not make its cluster', folder, logFile))
  renameSync(cluster, folder.cluster)
  rmSync(draft, { recursive: true })
}

function spawnLogged([program = '', ...args]: string[], launcher: Launcher, logFile: string): ChildProcess {
  const size = statSync(logFile, { throwIfNoEntry: false })?.size ?? 0
  const log = openSync(logFile, size > LOG_MAX_BYTES ? 'w' : 'a', 0o600)
  try {
    // Its own session, so that Ctrl-C in a terminal reaches the store only, which then stops the server in order.
    return spawn(program, args, { stdio: ['pipe', log, log], detached: true, env: serverEnvironment(), ...launcher.identity })
  } finally {
    closeSync(log)
  }
}

// Nothing of the store's own environment (secrets, PG* variables) is the server's business.
function serverEnvironment(): NodeJS.ProcessEnv {
  return { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' }
}

/** A sentence, the reason where it is a full disk, and where PostgreSQL says more. */
function withReason(what: string, folder: DataFolder, logFile: string): string {
  const reason = findFullDisk(folder)
  return reason === null ? `${what}; see ${logFile}` : `${what}: ${reason}; see ${logFile}`
}

async function untilReady(keeper: ChildProcess, url: string, folder: DataFolder, logFile: string): Promise<void> {
  let failure: Error | null = null
  keeper.once('error', (error) => {
    failure = error
  })
  keeper.once('exit', () => {
    failure = new PostgresUnavailable(withReason('the embedded PostgreSQL did not start', folder, logFile))
  })
  const deadline = Date.now() + READY_TIMEOUT_MS
  while ((await probe(url)) !== null) {
    if (failure !== null) throw failure
    if (Date.now() > deadline) throw new PostgresUnavailable(`the embedded PostgreSQL does not answer; see ${logFile}`)
    await delay(POLL_MS)
  }
}

/** Makes the database and the roles that are not there yet. `url` is that of the server's own database. */
async function createDatabase(url: string, ownerPassword: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const { rowCount } = await client.query('select from pg_database where datname = $1', [DATABASE])
    if (rowCount === 0) await client.query(sql`create database ${identifier(DATABASE)}`)
    await createRoles(client, ownerPassword)
  } finally {
    await client.end()
  }
}

export function addressesOf(port: number, ownerPassword: string, socketFolder: string | null): DatabaseAddresses {
  const { api, stream, owner } = embeddedRoles(ownerPassword)
  const locate = (url: string) => (socketFolder === null ? url : socketAddress(url, socketFolder))
  return { api: locate(address(port, api)), stream: locate(address(port, stream)), owner: locate(address(port, owner)) }
}

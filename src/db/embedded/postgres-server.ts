import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { DatabaseAddresses } from '../addresses.ts'
import { connectToAny } from '../pool.ts'
import { identifier, sql } from '../sql.ts'
import { CANNOT_CONNECT_NOW, sqlState } from '../sql-state.ts'
import { type DataFolder, hasCluster, newClusterFolder, readOrCreateSecret, syncFolder } from './data-folder.ts'
import { createRoles, embeddedRoles, OWNER } from './embedded-roles.ts'
import { freePort, isFree } from './free-port.ts'
import { findFullDisk, isDiskFull } from './full-disk.ts'
import { changeOwner, chooseLauncher, type Launcher, PostgresUnavailable, withUserName } from './postgres-launcher.ts'
import { address, DATABASE, PASSWORD_FILE, probe, removeStaleSockets, stopOrphan } from './running-postgres.ts'
import { resumeRecovery } from './unfinished-restore.ts'

const POLL_MS = 20
const START_ATTEMPTS = 3
const READY_TIMEOUT_MS = 120_000
const LOG_MAX_BYTES = 10_000_000
// The longest folder that fits into a socket's address on every system, without `/.s.PGSQL.65535`.
const MAX_SOCKET_FOLDER_LENGTH = 85

/** Settings for a laptop: about 150 MB of memory, durable, with logical replication. */
const SETTINGS: Record<string, string> = {
  listen_addresses: '127.0.0.1',
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

// Stops the server or initdb when standard input closes, which happens on any exit of the store. A line names a signal:
// TERM waits for clients, INT does not, and QUIT crashes the server.
const WATCHDOG = `
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
{ while read -r signal; do kill "-$signal" "$server"; done; kill -INT "$server"; } <&3 2>/dev/null &
watchdog=$!
exec 3<&-
wait "$server"
status=$?
kill "$watchdog" 2>/dev/null
wait "$watchdog"
exit "$status"
`

const MAX_CONNECTIONS = 100

export interface ServerOptions {
  extraConnections?: number
  settings?: Record<string, string>
  findPort?: () => Promise<number>
  onWarning?: (message: string) => void
}

export interface Server {
  port: number
  url: string
  addresses: DatabaseAddresses
  unexpectedExit: Promise<string>
  stop(how: 'now' | 'wait'): Promise<void>
}

/** Creates or recovers the cluster, and returns once the server answers. Throws PostgresUnavailable. */
export async function startServer(
  folder: DataFolder,
  options: ServerOptions,
  attempts = START_ATTEMPTS,
  isVerified = false,
): Promise<Server> {
  const launcher = chooseLauncher(folder.cluster, { isVerified })
  if (!hasCluster(folder)) mkdirSync(newClusterFolder(folder), { recursive: true, mode: 0o700 })
  const password = readOrCreateSecret(folder, PASSWORD_FILE)
  await createCluster(folder, launcher, password)
  await stopOrphan(folder)
  resumeRecovery(folder)
  if (launcher.owner !== null) changeOwner(folder.cluster, launcher.owner)
  if (launcher.warning !== null) options.onWarning?.(launcher.warning)
  removeStaleSockets(folder)
  const port = await (options.findPort ?? freePort)()
  const logFile = join(folder.path, 'postgres.log')
  const socketFolder = (await supportsSockets(folder.cluster)) ? folder.cluster : ''
  const sockets = { unix_socket_directories: socketFolder, unix_socket_permissions: '0700' }
  const connections = { max_connections: String(MAX_CONNECTIONS + (options.extraConnections ?? 0)) }
  const settings = Object.entries({ ...SETTINGS, ...connections, ...sockets, ...options.settings, port: String(port) })
  const server = [launcher.program('postgres'), '-D', folder.cluster, ...settings.flatMap(([name, value]) => ['-c', `${name}=${value}`])]
  const child = spawnLogged(launcher.wrap(['sh', '-c', WATCHDOG, 'storefront-postgres', ...server], folder.cluster), launcher, logFile)
  const exited = new Promise<string>((resolve) => {
    child.once('exit', (code, signal) => resolve(signal ?? `exit status ${code}`))
    if (child.pid === undefined) resolve('not started')
  })
  let stopping = false
  const stop = async (how: 'now' | 'wait') => {
    if (!stopping) {
      stopping = true
      child.stdin?.on('error', () => {})
      if (how === 'wait') child.stdin?.write('TERM\n')
      else child.stdin?.end()
    }
    await exited
  }
  const owner = { role: OWNER, password }
  try {
    await waitUntilReady(child, address(port, owner, 'postgres'), folder, launcher, logFile)
    await createDatabase(address(port, owner, 'postgres'), password)
  } catch (error) {
    await stop('now')
    // Another process may have taken the port meanwhile, or the machine may allow less than before.
    if (attempts > 1 && (!launcher.isVerified || !(await isFree(port)))) return startServer(folder, options, attempts - 1, true)
    throw error
  }
  const unexpectedExit = exited.then((how) =>
    stopping ? new Promise<never>(() => {}) : withReason(`the embedded PostgreSQL ended (${how})`, folder, logFile),
  )
  return {
    port,
    url: address(port, owner),
    addresses: addressesOf(port, password, socketFolder === '' ? null : socketFolder),
    unexpectedExit,
    stop,
  }
}

/** Some shared folders support no sockets, and then PostgreSQL would not start. */
async function supportsSockets(folder: string): Promise<boolean> {
  // The setting is a list, in which commas and quotes have a meaning.
  if (process.platform === 'win32' || Buffer.byteLength(folder) > MAX_SOCKET_FOLDER_LENGTH || /[",]/.test(folder)) return false
  const path = join(folder, '.s.probe')
  try {
    rmSync(path, { force: true })
    await using server = createServer().listen(path)
    await once(server, 'listening')
    chmodSync(path, 0o700)
    return true
  } catch (error) {
    if (isDiskFull(error)) throw error
    return false
  }
}

/** Creates the cluster in another folder and renames it, so a crash leaves no incomplete cluster. */
async function createCluster(folder: DataFolder, launcher: Launcher, password: string): Promise<void> {
  const draft = newClusterFolder(folder)
  if (hasCluster(folder)) return removeTree(draft)
  for (const name of readdirSync(draft)) removeTree(join(draft, name))
  const passwordFile = join(draft, 'password')
  writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 })
  // A killed start may have given the folder to the server's user.
  if (launcher.owner !== null) for (const path of [passwordFile, draft]) chownSync(path, launcher.owner.uid, launcher.owner.gid)
  const logFile = join(folder.path, 'postgres.log')
  // The name must be new, because the initdb of a killed start removes its files when it ends.
  const cluster = join(draft, randomUUID())
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
  const initdb = ['sh', '-c', WATCHDOG, 'storefront-initdb', launcher.program('initdb'), ...args]
  const child = spawnLogged(launcher.wrap(withUserName(initdb), draft), launcher, logFile)
  const code = await new Promise((resolve, reject) => child.once('exit', resolve).once('error', reject))
  if (code !== 0) throw new PostgresUnavailable(withReason('PostgreSQL could not make its cluster', folder, logFile))
  renameSync(cluster, folder.cluster)
  syncFolder(folder.path)
  removeTree(draft)
}

/** A process of a killed start may still write there until it notices. */
function removeTree(path: string): void {
  rmSync(path, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
}

function spawnLogged([program = '', ...args]: string[], launcher: Launcher, logFile: string): ChildProcess {
  const size = statSync(logFile, { throwIfNoEntry: false })?.size ?? 0
  const log = openSync(logFile, size > LOG_MAX_BYTES ? 'w' : 'a', 0o600)
  try {
    // The server has its own session, so Ctrl-C in a terminal reaches only the store, which then stops the server.
    return spawn(program, args, { stdio: ['pipe', log, log], detached: true, env: SERVER_ENVIRONMENT, ...launcher.identity })
  } finally {
    closeSync(log)
  }
}

// The server gets neither the store's secrets nor PG* variables, which would change the server.
const SERVER_ENVIRONMENT: NodeJS.ProcessEnv = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' }

function withReason(what: string, folder: DataFolder, logFile: string): string {
  const reason = findFullDisk(folder)
  return reason === null ? `${what}; see ${logFile}` : `${what}: ${reason}; see ${logFile}`
}

function findOtherVersion(folder: DataFolder, launcher: Launcher): string | null {
  if (!hasCluster(folder)) return null
  const { cluster } = folder
  const made = readFileSync(join(cluster, 'PG_VERSION'), 'utf8').trim()
  const { stdout } = spawnSync(launcher.program('postgres'), ['--version'], { encoding: 'utf8' })
  const [, own = made] = / (\d+)[^ ]*$/.exec(stdout.trim()) ?? []
  if (made === own) return null
  return `the database in ${cluster} is of PostgreSQL ${made}, and this version of Storefront has PostgreSQL ${own}: move it with the version that made it (storefront database move)`
}

async function waitUntilReady(child: ChildProcess, url: string, folder: DataFolder, launcher: Launcher, logFile: string): Promise<void> {
  let failure: Error | null = null
  child.once('error', (error) => {
    failure = error
  })
  child.once('exit', () => {
    failure = new PostgresUnavailable(
      withReason(findOtherVersion(folder, launcher) ?? 'the embedded PostgreSQL did not start', folder, logFile),
    )
  })
  let answeredAt = performance.now()
  while (true) {
    const refusal = await probe(url)
    if (refusal === null) return
    if (failure !== null) throw failure
    // After a crash a server refuses connections for as long as it recovers. If it was stopped, it would begin again.
    if (sqlState(refusal) === CANNOT_CONNECT_NOW) answeredAt = performance.now()
    if (performance.now() - answeredAt > READY_TIMEOUT_MS)
      throw new PostgresUnavailable(`the embedded PostgreSQL does not answer; see ${logFile}`)
    await delay(POLL_MS)
  }
}

async function createDatabase(url: string, ownerPassword: string): Promise<void> {
  await using client = await connectToAny(url, 'storefront-start')
  const { rowCount } = await client.query('select from pg_database where datname = $1', [DATABASE])
  if (rowCount === 0) await client.query(sql`create database ${identifier(DATABASE)}`)
  await createRoles(client, ownerPassword)
}

export function addressesOf(port: number, ownerPassword: string, socketFolder: string | null): DatabaseAddresses {
  const { api, stream, owner } = embeddedRoles(ownerPassword)
  // The driver and libpq prefer this parameter to the address's host.
  const locate = (url: string) => (socketFolder === null ? url : `${url}?host=${encodeURIComponent(socketFolder)}`)
  const at = (role: typeof api) => locate(address(port, role))
  return { api: at(api), stream: at(stream), owner: at(owner), isEmbedded: true }
}

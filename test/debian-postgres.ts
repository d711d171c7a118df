import { execFile, execFileSync } from 'node:child_process'
import { appendFileSync, chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { createPool, type Pool } from '../src/db/pool.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { freePort } from './free-port.ts'

const VERSIONS = '/usr/lib/postgresql'
const NOBODY = 65_534
const programs = findPrograms()

/**
 * Why tests with Debian's PostgreSQL are skipped on this machine; false where they run. Where CI is true they run or
 * fail.
 */
export const debianPostgresMissing: string | false =
  programs !== null || process.env.CI === 'true' ? false : `no PostgreSQL in ${VERSIONS} (Debian: apt-get install postgresql)`

function findPrograms(): string | null {
  const versions = existsSync(VERSIONS) ? readdirSync(VERSIONS) : []
  const folders = versions.map((version) => join(VERSIONS, version, 'bin')).filter((folder) => existsSync(join(folder, 'initdb')))
  return folders.sort()[0] ?? null
}

export interface DebianPostgres {
  /** Its address for the superuser, without a database. */
  address: string
  /** Its data directory. */
  cluster: string
  /** Creates a folder that belongs to the server's user. */
  makeFolder(): string
  /**
   * Runs shell commands as the server's user, with the server's programs on the PATH, until one fails. Returns their
   * output.
   */
  run(commands: string, variables?: Record<string, string>): Promise<string>
  /** Creates an empty database. The address is the superuser's. */
  createDatabase(locale: 'C' | 'C.UTF-8'): Promise<{ url: string; pool: Pool }>
}

/**
 * Starts the oldest PostgreSQL that Debian has installed, with default settings except these, and the locales of the
 * system. `environment`: more variables of the server's.
 */
export async function startDebianPostgres(
  t: Cleanup,
  settings: Record<string, string> = { fsync: 'off' },
  environment: Record<string, string> = {},
): Promise<DebianPostgres> {
  if (programs === null) throw new Error(`no PostgreSQL in ${VERSIONS}`)
  const folder = mkdtempSync(join(tmpdir(), 'storefront-debian-postgres-'))
  // PostgreSQL does not run as root.
  const identity = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {}
  const own = (path: string) => {
    if (identity.uid !== undefined) chownSync(path, identity.uid, identity.gid)
    return path
  }
  own(folder)
  const cluster = join(folder, 'cluster')
  const initdb = [`--pgdata=${cluster}`, '--username=postgres', '--auth=trust', '--encoding=UTF8', '--locale=C.UTF-8', '--no-sync']
  execFileSync(join(programs, 'initdb'), initdb, { ...identity, cwd: folder, stdio: 'pipe' })
  const port = await freePort()
  const all = { listen_addresses: '127.0.0.1', port: String(port), unix_socket_directories: '', ...settings }
  const lines = Object.entries(all).map(([name, value]) => `${name} = '${value}'\n`)
  appendFileSync(join(cluster, 'postgresql.conf'), lines.join(''))
  const control = (args: string[], env = process.env) =>
    execFileSync(join(programs, 'pg_ctl'), ['--pgdata', cluster, ...args], { ...identity, cwd: folder, stdio: 'pipe', env })
  onCleanup(t, () => {
    // This stop does not wait for clients.
    if (existsSync(join(cluster, 'postmaster.pid'))) control(['stop', '--mode', 'fast'])
    rmSync(folder, { recursive: true, force: true })
  })
  control(['start', '--log', join(folder, 'server.log')], { ...process.env, ...environment })
  const address = `postgres://postgres@127.0.0.1:${port}`
  const connect = (database: string): { url: string; pool: Pool } => {
    const url = `${address}/${database}`
    const pool = createPool({ url, size: 4, applicationName: 'test', onError: () => {} })
    onCleanup(t, () => pool.end())
    return { url, pool }
  }
  const admin = connect('postgres').pool
  return {
    address,
    cluster,
    makeFolder: () => own(mkdtempSync(join(folder, 'folder-'))),
    async run(commands, variables = {}) {
      const env = { PATH: `${programs}${delimiter}${process.env.PATH}`, PGDATA: cluster, ...variables }
      return (await promisify(execFile)('sh', ['-euc', commands], { ...identity, cwd: folder, env })).stdout
    },
    async createDatabase(locale) {
      const name = locale === 'C' ? 'plain' : 'utf8'
      await admin.query(`create database ${name} template template0 encoding 'UTF8' locale '${locale}'`)
      return connect(name)
    },
  }
}

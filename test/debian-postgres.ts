import { execFileSync, spawn } from 'node:child_process'
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createPool, type Pool } from '../src/db/pool.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'

const VERSIONS = '/usr/lib/postgresql'
const NOBODY = 65_534
const programs = findPrograms()

/** Why tests with Debian's PostgreSQL are skipped here; false where they run. Where CI says that it is CI, they run or fail. */
export const debianPostgresMissing: string | false =
  programs !== null || process.env.CI === 'true' ? false : `no PostgreSQL in ${VERSIONS} (Debian: apt-get install postgresql)`

function findPrograms(): string | null {
  const versions = existsSync(VERSIONS) ? readdirSync(VERSIONS) : []
  const folders = versions.map((version) => join(VERSIONS, version, 'bin')).filter((folder) => existsSync(join(folder, 'initdb')))
  return folders.sort()[0] ?? null
}

export interface DebianPostgres {
  /** A new database, empty, and its address for the superuser. */
  createDatabase(locale: 'C' | 'C.UTF-8'): Promise<{ url: string; pool: Pool }>
}

/**
 * The oldest PostgreSQL that is installed here, other than the embedded one, with its default settings but for these. It goes by the locales of the
 * system.
 */
export async function startDebianPostgres(t: Cleanup, settings: Record<string, string> = { fsync: 'off' }): Promise<DebianPostgres> {
  if (programs === null) throw new Error(`no PostgreSQL in ${VERSIONS}`)
  const folder = mkdtempSync(join(tmpdir(), 'storefront-debian-postgres-'))
  // PostgreSQL does not run as root.
  const identity = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {}
  if (identity.uid !== undefined) chownSync(folder, identity.uid, identity.gid)
  const cluster = join(folder, 'cluster')
  const initdb = [`--pgdata=${cluster}`, '--username=postgres', '--auth=trust', '--encoding=UTF8', '--locale=C.UTF-8', '--no-sync']
  execFileSync(join(programs, 'initdb'), initdb, { ...identity, cwd: folder, stdio: 'pipe' })
  const port = await freePort()
  const own = { listen_addresses: '127.0.0.1', port: String(port), unix_socket_directories: '', ...settings }
  const options = Object.entries(own).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const server = spawn(join(programs, 'postgres'), ['-D', cluster, ...options], { ...identity, cwd: folder, stdio: 'ignore' })
  const exited = new Promise<void>((resolve) => server.once('exit', () => resolve()).once('error', () => resolve()))
  onCleanup(t, async () => {
    // Its fast shutdown: clients are not waited for.
    server.kill('SIGINT')
    await exited
    rmSync(folder, { recursive: true, force: true })
  })
  const connect = (database: string): { url: string; pool: Pool } => {
    const url = `postgres://postgres@127.0.0.1:${port}/${database}`
    const pool = createPool({ url, size: 4, applicationName: 'test', onError: () => {} })
    onCleanup(t, () => pool.end())
    return { url, pool }
  }
  const admin = connect('postgres').pool
  await eventually(
    async () => {
      if (server.exitCode !== null) throw new Error(`PostgreSQL ended with ${server.exitCode}`)
      return admin.query('select').then(
        () => true,
        () => false,
      )
    },
    { what: "Debian's PostgreSQL answers" },
  )
  return {
    async createDatabase(locale) {
      const name = locale === 'C' ? 'plain' : 'utf8'
      await admin.query(`create database ${name} template template0 encoding 'UTF8' locale '${locale}'`)
      return connect(name)
    },
  }
}

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { type DatabaseAddresses, oneRole, roleOf } from '../src/db/addresses.ts'
import { dataFolder } from '../src/db/embedded/data-folder.ts'
import { startEmbeddedPostgres } from '../src/db/embedded/embedded-postgres.ts'
import { migrate } from '../src/db/migrate.ts'
import { grantRights } from '../src/db/rights.ts'
import { databaseUrl, TEMPLATE } from './database.ts'
import { startDebianPostgres } from './debian-postgres.ts'
import { fastFolder } from './fast-folder.ts'

/**
 * The server of a run: the embedded PostgreSQL for tests, the same with PostgreSQL's default settings, or Debian's
 * with Debian's.
 */
export type TestPostgres = 'tests' | 'defaults' | 'debian'

// Suites that start their own server test durability; here it would only cost time. Each of thousands of connections
// proves a password.
const TEST_SETTINGS = {
  ...{ fsync: 'off', max_wal_size: '512MB', scram_iterations: '1' },
  ...{ max_connections: '400', max_replication_slots: '60', max_wal_senders: '60' },
}
/** PostgreSQL's defaults that the embedded server overrides, except the time zone and what the store requires. */
export const POSTGRES_DEFAULTS = { jit: 'on', fsync: 'on' }

const undo: (() => Promise<void> | void)[] = []

/**
 * Starts one PostgreSQL for the whole run, with the migrated template database from which each test's database is
 * cloned.
 */
export async function globalSetup(): Promise<void> {
  await setUp('tests')
}

export async function setUp(postgres: TestPostgres): Promise<void> {
  // Each file runs in its own process, which then need not strip and compile all modules again.
  process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL('../node_modules/.cache/storefront-test', import.meta.url))
  const { url, addresses } = await (postgres === 'debian' ? startDebian() : startEmbedded(postgres))
  process.env.TEST_DATABASE_ADDRESSES = JSON.stringify(addresses)
  const admin = new pg.Client({ connectionString: url })
  await admin.connect()
  // Sets the same password again, with the iterations of `TEST_SETTINGS`.
  if (postgres === 'tests') await admin.query(`alter role current_user password ${pg.escapeLiteral(new URL(url).password)}`)
  await admin.query(`create database ${TEMPLATE}`)
  await admin.end()
  await migrate(databaseUrl(TEMPLATE))
  const owner = new pg.Client({ connectionString: databaseUrl(TEMPLATE) })
  await owner.connect()
  await grantRights(owner, roleOf(addresses.api))
  await owner.end()
}

async function startEmbedded(postgres: 'tests' | 'defaults'): Promise<{ url: string; addresses: DatabaseAddresses }> {
  const directory = mkdtempSync(join(postgres === 'tests' ? fastFolder() : tmpdir(), 'storefront-test-'))
  undo.push(() => rmSync(directory, { recursive: true, force: true }))
  const settings = postgres === 'tests' ? TEST_SETTINGS : POSTGRES_DEFAULTS
  const server = await startEmbeddedPostgres(dataFolder(directory), { settings })
  undo.push(() => server.stop())
  return server
}

async function startDebian(): Promise<{ url: string; addresses: DatabaseAddresses }> {
  const { address } = await startDebianPostgres({ after: (work) => void undo.push(work) }, { wal_level: 'logical' })
  const url = `${address}/postgres`
  return { url, addresses: oneRole(url) }
}

export async function globalTeardown(): Promise<void> {
  for (const work of undo.splice(0).toReversed()) await work()
}

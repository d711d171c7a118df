import { randomBytes } from 'node:crypto'
import pg from 'pg'
import type { DatabaseAddresses, DatabaseRole } from '../src/db/addresses.ts'
import { createPool, type Pool } from '../src/db/pool.ts'
import { COMMAND_BOUNDS } from '../src/db/session-settings.ts'
import { OBJECT_IN_USE, sqlState } from '../src/db/sql-state.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { eventually } from './eventually.ts'

export const TEMPLATE = 'storefront_template'

/** Address of a database on the run's server, for its superuser by default. */
export function databaseUrl(database: string, role: DatabaseRole = 'owner'): string {
  const server = process.env.TEST_DATABASE_ADDRESSES
  if (server === undefined) throw new Error('no test server: run the tests with npm test')
  const { [role]: address } = JSON.parse(server) as DatabaseAddresses
  return Object.assign(new URL(address), { pathname: `/${database}`, search: '' }).href
}

/** Addresses of a database on the run's server, for a store whose roles have few rights. */
function databaseAddresses(database: string): DatabaseAddresses {
  return { api: databaseUrl(database, 'api'), stream: databaseUrl(database, 'stream'), owner: databaseUrl(database) }
}

export interface TestDatabase {
  name: string
  /** For the superuser, as is `pool`. */
  url: string
  /** For the roles that a store connects by. */
  addresses: DatabaseAddresses
  pool: Pool
}

/**
 * Clones a database from the migrated template, without its pages in the log, and drops it, with its replication
 * slots, when the test ends.
 */
export async function createTestDatabase(t: Cleanup): Promise<TestDatabase> {
  const name = `test_${randomBytes(8).toString('hex')}`
  await asAdmin((admin) => whileInUse(() => admin.query(`create database ${name} template ${TEMPLATE} strategy file_copy`)))
  const url = databaseUrl(name)
  // A test may hold a lock for any time, also on a machine that stops for a while.
  const pool = createPool({ url, size: 10, applicationName: 'test', onError: () => {}, bounds: COMMAND_BOUNDS })
  // The store waits for less before it answers 503: a test only waits.
  pool.options.connectionTimeoutMillis = 60_000
  onCleanup(t, async () => {
    await pool.end()
    await asAdmin(async (admin) => {
      await admin.query(`select pg_terminate_backend(active_pid) from pg_replication_slots where database = $1 and active`, [name])
      const dropSlots = 'select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = $1'
      await whileInUse(() => admin.query(dropSlots, [name]))
      await whileInUse(() => admin.query(`drop database ${name} with (force)`))
    })
  })
  return { name, url, addresses: databaseAddresses(name), pool }
}

/** Creates a database without a schema and drops it when the test ends. */
export async function createEmptyDatabase(t: Cleanup): Promise<{ url: string; pool: Pool }> {
  const name = `test_${randomBytes(8).toString('hex')}`
  await asAdmin((admin) => admin.query(`create database ${name}`))
  onCleanup(t, () => asAdmin(async (admin) => void (await admin.query(`drop database ${name} with (force)`))))
  const url = databaseUrl(name)
  const pool = createPool({ url, size: 2, applicationName: 'test', onError: () => {}, bounds: COMMAND_BOUNDS })
  onCleanup(t, () => pool.end())
  return { url, pool }
}

// A slot stays active for a moment after its reader has ended, and PostgreSQL waits five seconds for clients to leave
// a database.
async function whileInUse(work: () => Promise<unknown>): Promise<void> {
  await eventually(() =>
    work().then(
      () => true,
      (error) => {
        if (sqlState(error) !== OBJECT_IN_USE) throw error
        return false
      },
    ),
  )
}

/** A connection to a database, which is closed when the test ends. */
export async function connectTo(t: Cleanup, url: string, more: pg.ClientConfig = {}): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, ...more })
  await client.connect()
  onCleanup(t, () => client.end())
  return client
}

async function asAdmin<T>(work: (admin: pg.Client) => Promise<T>): Promise<T> {
  const admin = new pg.Client({ connectionString: databaseUrl('postgres') })
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.end()
  }
}

/** Refuses or accepts new connections to the database. Open connections stay. */
export function setConnectable(db: TestDatabase, connectable: boolean): Promise<unknown> {
  return asAdmin((admin) => admin.query(`alter database ${db.name} with allow_connections ${connectable}`))
}

/** Terminates every connection to the database and waits until they have ended. */
export function terminateBackends(db: TestDatabase): Promise<unknown> {
  return asAdmin((admin) => admin.query('select pg_terminate_backend(pid, 60000) from pg_stat_activity where datname = $1', [db.name]))
}

/**
 * The pids of sessions in `holder`'s database that wait for its lock: creating a replication slot waits for all
 * transactions.
 */
export async function findWaiting(pool: Pool, holder: pg.ClientBase): Promise<number[]> {
  const { rows } = await pool.query<{ pid: number }>(
    'select pid from pg_stat_activity where datname = current_database() and $1 = any(pg_blocking_pids(pid))',
    [(holder as unknown as { processID: number }).processID],
  )
  return rows.map(({ pid }) => pid)
}

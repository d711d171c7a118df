import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import { OperatorError } from '../errors.ts'
import type { DatabaseAddresses, DatabaseRole } from './addresses.ts'
import { explainConnection, explainRefusal, quote } from './connection-refusal.ts'
import { isDatabaseOutage } from './failures.ts'
import { connectClient, connectToAny, type Queryable, socketOf } from './pool.ts'
import { CONFIGURATION_LIMIT_EXCEEDED, INSUFFICIENT_PRIVILEGE, OBJECT_IN_USE, PROTOCOL_VIOLATION, sqlState } from './sql-state.ts'

const MIN_VERSION = 150_000

/** Throws OperatorError unless the server is new enough and writes the WAL that the change stream needs. */
export async function assertServer(db: Queryable): Promise<void> {
  const { rows } = await db.query<{ version: string; number: number; wal_level: string }>(
    `select current_setting('server_version') as version, current_setting('server_version_num')::int as number,
      current_setting('wal_level') as wal_level`,
  )
  const { version = '', number = 0, wal_level: walLevel = '' } = rows[0] ?? {}
  if (number < MIN_VERSION) throw new OperatorError(`the database is PostgreSQL ${version}; the store needs 15 or later`)
  if (walLevel !== 'logical') {
    throw new OperatorError(
      `the database has wal_level = ${walLevel}; run "alter system set wal_level = logical" as its administrator, and restart it`,
    )
  }
}

const SETTINGS = { api: 'DATABASE_URL', stream: 'DATABASE_STREAM_URL', owner: 'DATABASE_OWNER_URL' }

/**
 * Throws OperatorError, which names the setting, if a server refuses the store. With `isNeeded`, also throws if a
 * server is unavailable.
 */
export async function assertReachable(
  addresses: DatabaseAddresses,
  roles: readonly DatabaseRole[],
  { isNeeded = false } = {},
): Promise<void> {
  for (const url of new Set(roles.map((role) => addresses[role]))) {
    const role = addresses.api === url ? 'api' : roles.find((each) => addresses[each] === url)
    const setting = SETTINGS[role ?? 'api']
    try {
      await using client = await connectClient(url, 'storefront-check')
      await assertSession(client, setting, addresses.isEmbedded ? null : () => connectToAny(url, 'storefront-check'))
    } catch (error) {
      if (error instanceof OperatorError) throw error
      const message = (isNeeded ? explainConnection : explainRefusal)(error, setting)
      if (message !== null) throw new OperatorError(message, { cause: error })
      if (isNeeded || !isDatabaseOutage(error)) throw error
    }
  }
}

const PATIENCE_MS = 60_000
const PAUSE_MS = 1_000

/** Repeats `work` for up to a minute while the server is full, starting or unavailable. Throws a refusal at once. */
export async function onceAvailable(
  options: { logger: Logger; signal?: AbortSignal | undefined },
  work: () => Promise<void>,
): Promise<void> {
  const { logger, signal } = options
  const beganAt = performance.now()
  for (let tries = 1; ; tries++) {
    try {
      return await work()
    } catch (error) {
      if (!isDatabaseOutage(error) || explainRefusal(error, SETTINGS.api) !== null) throw error
      if (signal?.aborted || performance.now() - beganAt > PATIENCE_MS) throw error
      if (tries === 1) logger.warn(`${explainConnection(error, SETTINGS.api)}; retried each second, for a minute at most`)
    }
    await delay(PAUSE_MS, undefined, { signal }).catch(() => {})
  }
}

/** The number of pooler connections to occupy before a session counts as having its own connection. */
const ROUNDS = 5
const ATTEMPTS = 3

/**
 * Throws OperatorError for a transaction pooler, or if triggers would not run. `open` opens another session; null if
 * there can be no pooler.
 */
export async function assertSession(
  session: pg.Client,
  setting: string,
  open: (() => Promise<pg.Client & AsyncDisposable>) | null,
): Promise<void> {
  const { rows } = await session.query<{ role: string; database: string; replication_role: string; pid: number; port: number | null }>(
    `select session_user as role, current_database() as database, current_setting('session_replication_role') as replication_role,
      pg_backend_pid() as pid, inet_client_port() as port`,
  )
  const [{ role = '', database = '', replication_role: replicationRole = 'origin', pid, port = null } = {}] = rows
  if (replicationRole !== 'origin')
    throw new OperatorError(
      `session_replication_role is ${replicationRole} for the role ${role}, so no trigger of the store runs: run "alter role ${quote(role)} in database ${quote(database)} set session_replication_role = origin" as the database's administrator`,
    )
  // The server sees this very socket, so there is no pooler between.
  if (open === null || (port !== null && port === socketOf(session).localPort)) return
  // In every round, other clients of a busy pooler may take and return the connection at the wrong moment.
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++)
    if (await isLent(session, pid, open))
      throw new OperatorError(
        `a pooler lends the store a connection of the server for each transaction, but the store needs sessions of its own: set pool_mode = session in the pooler, or set ${setting} to the address of PostgreSQL itself`,
      )
}

/** Whether a pooler lends the connection of `session` to other sessions, or lends it a connection other than `pid`. */
async function isLent(session: pg.Client, pid: number | undefined, open: () => Promise<pg.Client & AsyncDisposable>): Promise<boolean> {
  await using held = new AsyncDisposableStack()
  for (let round = 1; round <= ROUNDS; round++) {
    const other = held.use(await open())
    // The open transaction keeps the connection that a pooler would next lend to `session`.
    const isRefused = await other.query('begin').then(() => false, refusesTransactions)
    if (isRefused || (await readPid(other)) === pid || (await readPid(session)) !== pid) return true
  }
  return false
}

/** Whether this is a refusal by PgBouncer in its mode `statement`. */
function refusesTransactions(error: unknown): boolean {
  if (sqlState(error) === PROTOCOL_VIOLATION) return true
  throw error
}

async function readPid(db: Queryable): Promise<number | undefined> {
  const { rows } = await db.query<{ pid: number }>('select pg_backend_pid() as pid')
  return rows[0]?.pid
}

interface OwnerRights {
  role: string
  database: string
  schema: string | null
  has_api_role: boolean
  other_owner: string | null
  may_create_in_schema: boolean
  lacks_create_in_database: boolean
}

/** Throws OperatorError unless this role may change the schema and the role that gets rights exists. */
export async function assertOwner(db: Queryable, apiRole: string): Promise<void> {
  const { rows } = await db.query<OwnerRights>(
    `select
      current_user as role,
      current_database() as database,
      current_schema() as schema,
      $1 = '' or exists (select from pg_roles where rolname = $1) as has_api_role,
      (
        select pg_get_userbyid(relowner)
        from pg_class
        where oid = to_regclass('migrations') and not pg_has_role(current_user, relowner, 'usage')
      ) as other_owner,
      coalesce(has_schema_privilege(current_schema(), 'create'), false) as may_create_in_schema,
      not has_database_privilege(current_database(), 'create')
        and not exists (select from pg_extension where extname = 'pg_trgm') as lacks_create_in_database`,
    [apiRole],
  )
  const [rights] = rows
  if (rights === undefined) return
  const { role, database, schema, other_owner: owner } = rights
  if (owner !== null) {
    throw new OperatorError(
      `the tables of this database belong to the role ${owner}, not to ${role}: set DATABASE_OWNER_URL to the address of ${owner}`,
    )
  }
  if (!rights.has_api_role) {
    throw new OperatorError(
      `the role ${apiRole} in DATABASE_URL does not exist: run "create role ${quote(apiRole)} login password '…'" as the database's administrator`,
    )
  }
  const lacked = rights.lacks_create_in_database
    ? `database ${quote(database)}`
    : rights.may_create_in_schema
      ? null
      : `schema ${quote(schema ?? 'public')}`
  if (lacked === null) return
  throw new OperatorError(
    `the role ${role} lacks the right to create in the ${lacked}: set DATABASE_OWNER_URL to the address of its owner, or run "grant create on ${lacked} to ${quote(role)}" as its administrator`,
  )
}

export function explainMissingSlot(role: string, slotName: string, cause: unknown): unknown {
  const messages: Record<string, string> = {
    [CONFIGURATION_LIMIT_EXCEEDED]:
      'the server has no replication slot left: raise max_replication_slots, or drop a slot that nobody reads (pg_replication_slots)',
    [OBJECT_IN_USE]: `the replication slot ${slotName} was not created by this store, and is in use: stop what reads it, then run storefront migrate again`,
    [INSUFFICIENT_PRIVILEGE]: `the role ${role} may not replicate: set DATABASE_STREAM_URL to the address of a role that may, or run "alter role ${quote(role)} replication" as the database's administrator`,
  }
  const message = messages[sqlState(cause) ?? '']
  return message === undefined ? cause : new OperatorError(message, { cause })
}

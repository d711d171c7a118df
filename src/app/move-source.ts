import { setTimeout as delay } from 'node:timers/promises'
import type { Config } from '../config.ts'
import { explainConnection, quote } from '../db/connection-refusal.ts'
import { dataFolder, hasCluster } from '../db/embedded/data-folder.ts'
import { assertNotMoved, startEmbeddedPostgres } from '../db/embedded/embedded-postgres.ts'
import { isRestoreUnfinished } from '../db/embedded/unfinished-restore.ts'
import { connectClient, connectToAny, type Queryable } from '../db/pool.ts'
import { INSUFFICIENT_PRIVILEGE, sqlState, TOO_MANY_CONNECTIONS } from '../db/sql-state.ts'
import { OperatorError } from '../errors.ts'

/** No process of the store may use it. */
export interface MoveSource {
  readonly db: Queryable
  readonly name: string
  /** Refuses new connections as far as the server allows it. Throws OperatorError while another session exists. */
  closeToOthers(): Promise<void>
  /** Throws OperatorError while another session exists. */
  assertAlone(): Promise<void>
  /** Call it when the target has everything. No store is then served from here by accident. */
  close(how: 'moved' | 'unchanged'): Promise<string>
}

export const MOVER = 'storefront-move'

/**
 * Opens the embedded database, locked until it is closed. Throws DataFolderInUse while a process uses it, or
 * OperatorError.
 */
export async function openEmbeddedSource({ dataDir }: Pick<Config, 'dataDir'>): Promise<MoveSource> {
  const folder = dataFolder(dataDir)
  if (!hasCluster(folder)) {
    assertNotMoved(folder)
    throw new OperatorError(`there is no store in ${dataDir}: set DATA_DIR to the folder of the store that is to be moved`)
  }
  if (isRestoreUnfinished(folder))
    throw new OperatorError(
      `the restore of the store in ${dataDir} is not finished: start the store without DATABASE_URL and stop it, then move it`,
    )
  const server = await startEmbeddedPostgres(folder)
  const db = await connectClient(server.addresses.owner, MOVER).catch(async (error) => {
    await server.stop()
    throw error
  })
  return {
    db,
    name: `the store in ${dataDir}`,
    async closeToOthers() {},
    async assertAlone() {},
    async close(how) {
      await db.end()
      if (how === 'unchanged') {
        await server.stop()
        return ''
      }
      return `the embedded database is ${await server.setAsMoved()} now: delete it when you no longer need it`
    },
  }
}

/** `url` is the address of the tables' owner. Throws OperatorError while another session uses the store. */
export async function openExternalSource(url: string): Promise<MoveSource> {
  const db = await connectToAny(url, MOVER).catch((error: unknown) => {
    const message = sqlState(error) === TOO_MANY_CONNECTIONS ? explainLimit(error) : explainConnection(error, 'the address in --from')
    throw message === null ? error : new OperatorError(message, { cause: error })
  })
  const name = 'the database in --from'
  const assertAlone = () => assertUnused(db, name)
  let limit: ConnectionLimit | null = null
  try {
    await assertAlone()
  } catch (error) {
    await db.end()
    throw error
  }
  return {
    db,
    name,
    async closeToOthers() {
      limit = await refuseConnections(db)
      await assertAlone()
    },
    assertAlone,
    async close(how) {
      try {
        if (limit === null) return ''
        if (how === 'moved') return describeLimit(limit)
        await restoreLimit(db, limit)
        return ''
      } finally {
        await db.end()
      }
    },
  }
}

/** PostgreSQL lists a session for a moment after its client has disconnected. */
const SESSION_END_MS = 2_000
const POLL_MS = 100

/** Throws OperatorError while another client is connected to this database, under any name. */
export async function assertUnused(db: Queryable, name: string): Promise<void> {
  let found = await listSessions(db)
  for (const until = Date.now() + SESSION_END_MS; found.length > 0 && Date.now() < until; found = await listSessions(db))
    await delay(POLL_MS)
  if (found.length === 0) return
  throw new OperatorError(`${name} is in use (${found.join(', ')}): stop every process of the store first; nothing was moved`)
}

async function listSessions(db: Queryable): Promise<string[]> {
  // Otherwise a transaction sees the sessions of its first query.
  await db.query('select pg_stat_clear_snapshot()')
  // The type of another role's session is null. Server processes such as autovacuum have no role.
  const { rows } = await db.query<{ session: string }>(
    `select distinct coalesce(nullif(application_name, ''), usename) as session
    from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and usesysid is not null
      and coalesce(backend_type, 'client backend') in ('client backend', 'walsender')
    order by session`,
  )
  return rows.map(({ session }) => session)
}

interface ConnectionLimit {
  database: string
  wayBack: string
  refusal: string | null
}

/** Two stores would sell the same stock. The limit applies neither to superusers nor to existing sessions. */
async function refuseConnections(db: Queryable): Promise<ConnectionLimit> {
  const { rows } = await db.query<{ database: string; statement: string }>(
    // A limit of 0 means that a move was interrupted.
    `select
      datname as database,
      format('alter database %I connection limit %s', datname, case datconnlimit when 0 then -1 else datconnlimit end) as statement
    from pg_database
    where datname = current_database()`,
  )
  const [{ database = '', statement: wayBack = '' } = {}] = rows
  try {
    await db.query(`do $$ begin execute format('alter database %I connection limit 0', current_database()); end $$`)
    return { database, wayBack, refusal: null }
  } catch (error) {
    if (sqlState(error) !== INSUFFICIENT_PRIVILEGE) throw error
    return { database, wayBack, refusal: (error as Error).message }
  }
}

async function restoreLimit(db: Queryable, { database, wayBack, refusal }: ConnectionLimit): Promise<void> {
  if (refusal !== null) return
  try {
    await db.query(wayBack)
  } catch (error) {
    throw new OperatorError(
      `nothing was moved, but the database ${database} lets nobody in: ${(error as Error).message}; run "${wayBack}" in another database of its server`,
      { cause: error },
    )
  }
}

function describeLimit({ database, wayBack, refusal }: ConnectionLimit): string {
  return refusal === null
    ? `the database ${database} now lets only superusers in: drop it with its slot when you no longer need it, or run "${wayBack}" to go back to it`
    : `start no store on the database ${database} any more, and drop it with its slot when you no longer need it (${refusal})`
}

function explainLimit(error: unknown): string {
  const { message, database = '' } = error as { message: string; database?: string }
  return `the database in --from lets nobody in: ${message}; if a move was interrupted, run "alter database ${quote(database)} connection limit -1" in another database of its server`
}

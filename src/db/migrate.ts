import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { OperatorError } from '../errors.ts'
import { LockRetries } from './lock-retries.ts'
import { connectClient, type Queryable } from './pool.ts'
import { MIGRATION_BOUNDS, setUpSession } from './session-settings.ts'
import { sql } from './sql.ts'
import { INSUFFICIENT_PRIVILEGE, sqlState, UNDEFINED_TABLE } from './sql-state.ts'

const DIRECTORY = fileURLToPath(new URL('../../migrations', import.meta.url))

/** The database's schema is older than this program. */
export class MigrationsPending extends OperatorError {
  override readonly name = 'MigrationsPending'
}

/** The schema was made by a development version, before the migrations of the first release. */
export class DevelopmentSchema extends OperatorError {
  override readonly name = 'DevelopmentSchema'
}

/**
 * Applies the migrations that the database lacks and returns their names. Several processes may call it at once: one works, the others
 * wait. A migration that gets no lock is undone and retried; those before it stay. Throws DevelopmentSchema.
 */
export async function migrate(url: string, retries = new LockRetries({ url })): Promise<string[]> {
  // A connection of the runner's own would end the process when it breaks, and outlive the call.
  await using client = await connectClient(url, 'storefront-migrate')
  if ((await countPending(client)).pending === 0) return []
  const { runner, PG_MIGRATE_LOCK_ID } = await import('node-pg-migrate')
  // Held in the pauses too, until the connection ends: two processes in turn would leave none for orders.
  await retries.run(async (watch) => {
    await watch(client)
    await client.query(sql`select pg_advisory_lock(${PG_MIGRATE_LOCK_ID})`)
  })
  await setUpSession(client, MIGRATION_BOUNDS)
  const before = await listApplied(client)
  await retries.run(async (watch) => {
    await watch(client)
    try {
      await runner({
        dbClient: client,
        dir: DIRECTORY,
        ignorePattern: '.*\\.md',
        migrationsTable: 'migrations',
        direction: 'up',
        noLock: true,
        log: () => {},
      })
    } catch (error) {
      // The first error is the reason, also when the connection has broken.
      await client.query('rollback').catch(() => {})
      throw error
    }
  })
  return [...(await listApplied(client)).difference(before)].toSorted()
}

/** Throws MigrationsPending unless every migration has been applied and `db` may read which, or DevelopmentSchema. */
export async function assertMigrated(db: Queryable): Promise<void> {
  const { pending, total } = await countPending(db)
  if (pending > 0) throw new MigrationsPending(`the database lacks ${pending} of ${total} migrations; run storefront migrate`)
}

/** Whether a later release has migrated the database. */
export async function isOfLaterRelease(db: Queryable): Promise<boolean> {
  return !(await listApplied(db)).isSubsetOf(await listKnown())
}

/** A migration that a database has. `sha256`: of its file, in hex; null when the program that wrote this has no such file. */
export interface AppliedMigration {
  name: string
  sha256: string | null
}

/** The migrations of the database, in order. */
export async function listMigrations(db: Queryable): Promise<AppliedMigration[]> {
  const applied = await listApplied(db)
  const known = await listKnown()
  return Promise.all([...applied].toSorted().map(async (name) => ({ name, sha256: known.has(name) ? await hashOf(name) : null })))
}

/**
 * Throws DevelopmentSchema or OperatorError unless this program can continue with a schema of these migrations. A file that was released
 * never changes, so a different one under the same name is of a development version.
 */
export async function assertKnownSchema(applied: readonly AppliedMigration[], what: string): Promise<void> {
  const known = await listKnown()
  const names = new Set(applied.map(({ name }) => name))
  const unknown = [...names.difference(known)]
  const changed: string[] = []
  for (const { name, sha256 } of applied) if (sha256 !== null && known.has(name) && sha256 !== (await hashOf(name))) changed.push(name)
  const isLater = known.isSubsetOf(names) && unknown.length > 0
  if (names.size === 0 || changed.length > 0 || (unknown.length > 0 && !isLater)) {
    throw new DevelopmentSchema(
      `${what} was made by a development version, whose schema this version does not know: restore it with that version`,
    )
  }
  if (isLater)
    throw new OperatorError(`${what} was made by a later version (its schema has ${unknown.join(', ')}): restore it with that version`)
}

async function hashOf(name: string): Promise<string> {
  return createHash('sha256')
    .update(await readFile(join(DIRECTORY, `${name}.sql`)))
    .digest('hex')
}

/** The names of this program's migrations. */
async function listKnown(): Promise<Set<string>> {
  const files = await readdir(DIRECTORY)
  return new Set(files.filter((file) => file.endsWith('.sql')).map((file) => file.replace(/\.sql$/, '')))
}

async function countPending(db: Queryable): Promise<{ pending: number; total: number }> {
  const wanted = await listKnown()
  const applied = await listApplied(db)
  const missing = [...wanted.difference(applied)].toSorted()
  const pending = missing.length
  // A later release has every migration of this one, and each follows those before it. A database that lacks some and has others or later ones
  // is of no release.
  if (pending > 0 && [...applied].some((name) => !wanted.has(name) || name > String(missing[0]))) {
    throw new DevelopmentSchema(
      'this store was made by a development version and cannot be upgraded: export its data with that version, then remove the data folder or the database and start again, or restore a backup',
    )
  }
  return { pending, total: wanted.size }
}

async function listApplied(db: Queryable): Promise<Set<string>> {
  try {
    const { rows } = await db.query<{ name: string }>('select name from migrations')
    return new Set(rows.map(({ name }) => name))
  } catch (error) {
    // A role that may not read the table has not been given its rights, which comes with the newest migration.
    const state = sqlState(error)
    if (state === UNDEFINED_TABLE) return new Set()
    // What ends the connection itself is the right to connect.
    if (state === INSUFFICIENT_PRIVILEGE && (error as { severity?: string }).severity !== 'FATAL') {
      throw new MigrationsPending("the API's role lacks its rights in the database; run storefront migrate", { cause: error })
    }
    throw error
  }
}

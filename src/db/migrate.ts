import { readdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { runner } from 'node-pg-migrate'
import { OperatorError } from '../errors.ts'
import { connectClient, type Queryable } from './pool.ts'
import { MIGRATION_BOUNDS } from './session-settings.ts'
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
 * wait. Throws DevelopmentSchema.
 */
export async function migrate(url: string): Promise<string[]> {
  // A connection of the runner's own would end the process when it breaks, and outlive the call.
  await using client = await connectClient(url, 'storefront-migrate', undefined, MIGRATION_BOUNDS)
  await countPending(client)
  const applied = await runner({
    dbClient: client,
    dir: DIRECTORY,
    ignorePattern: '.*\\.md',
    migrationsTable: 'migrations',
    direction: 'up',
    advisoryLockMode: 'wait',
    log: () => {},
  })
  return applied.map((migration) => migration.name)
}

/** Throws MigrationsPending unless every migration has been applied and `db` may read which, or DevelopmentSchema. */
export async function assertMigrated(db: Queryable): Promise<void> {
  const { pending, total } = await countPending(db)
  if (pending > 0) throw new MigrationsPending(`the database lacks ${pending} of ${total} migrations; run storefront migrate`)
}

async function countPending(db: Queryable): Promise<{ pending: number; total: number }> {
  const files = await readdir(DIRECTORY)
  const wanted = new Set(files.filter((file) => file.endsWith('.sql')).map((file) => file.replace(/\.sql$/, '')))
  const applied = await listApplied(db)
  const pending = wanted.difference(applied).size
  // A later release has every migration of this one. A database that lacks some and has others is of no release.
  if (pending > 0 && !applied.isSubsetOf(wanted)) {
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

import { readdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { runner } from 'node-pg-migrate'
import { OperatorError } from '../errors.ts'
import { connectClient, type Queryable } from './pool.ts'
import { MIGRATION_BOUNDS } from './session-settings.ts'

const DIRECTORY = fileURLToPath(new URL('../../migrations', import.meta.url))

/** The database's schema is older than this program. */
export class MigrationsPending extends OperatorError {
  override readonly name = 'MigrationsPending'
}

/** Brings the schema up to date. Several processes may call it at once: one works, the others wait. Returns what was applied. */
export async function migrate(url: string): Promise<string[]> {
  // A connection of the runner's own would end the process when it breaks, and outlive the call.
  const client = await connectClient(url, 'storefront-migrate', undefined, MIGRATION_BOUNDS)
  client.on('error', () => {})
  try {
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
  } finally {
    await client.end()
  }
}

/** Throws MigrationsPending unless every migration has been applied and `db` may read which. */
export async function assertMigrated(db: Queryable): Promise<void> {
  const files = await readdir(DIRECTORY)
  const wanted = files.filter((file) => file.endsWith('.sql')).map((file) => file.replace(/\.sql$/, ''))
  const applied = await appliedMigrations(db)
  const pending = wanted.filter((name) => !applied.has(name)).length
  if (pending > 0) throw new MigrationsPending(`the database lacks ${pending} of ${wanted.length} migrations; run storefront migrate`)
}

async function appliedMigrations(db: Queryable): Promise<Set<string>> {
  try {
    const { rows } = await db.query<{ name: string }>('select name from migrations')
    return new Set(rows.map(({ name }) => name))
  } catch (error) {
    // A role that may not read the table has not been given its rights, which comes with the newest migration.
    const [UNDEFINED_TABLE, INSUFFICIENT_PRIVILEGE] = ['42P01', '42501']
    const { code, severity } = error as { code?: string; severity?: string }
    if (code === UNDEFINED_TABLE) return new Set()
    // What ends the connection itself is the right to connect.
    if (code === INSUFFICIENT_PRIVILEGE && severity !== 'FATAL') {
      throw new MigrationsPending("the API's role lacks its rights in the database; run storefront migrate", { cause: error })
    }
    throw error
  }
}

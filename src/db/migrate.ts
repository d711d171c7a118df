import { readdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { runner } from 'node-pg-migrate'
import type { Queryable } from './pool.ts'

const DIRECTORY = fileURLToPath(new URL('../../migrations', import.meta.url))

/** The database's schema is older than this program. */
export class MigrationsPending extends Error {
  override readonly name = 'MigrationsPending'
}

/** Brings the schema up to date. Several processes may call it at once: one works, the others wait. Returns what was applied. */
export async function migrate(url: string): Promise<string[]> {
  const applied = await runner({
    databaseUrl: url,
    dir: DIRECTORY,
    ignorePattern: '.*\\.md',
    migrationsTable: 'migrations',
    direction: 'up',
    advisoryLockMode: 'wait',
    log: () => {},
  })
  return applied.map((migration) => migration.name)
}

/** Throws MigrationsPending unless every migration has been applied. */
export async function assertMigrated(db: Queryable): Promise<void> {
  const files = await readdir(DIRECTORY)
  const wanted = files.filter((file) => file.endsWith('.sql')).map((file) => file.replace(/\.sql$/, ''))
  const { rows } = await db.query<{ pending: string[] | null }>(
    `select case
      when to_regclass('migrations') is null then $1::text[]
      else array(select unnest($1::text[]) except select name from migrations)
    end as pending`,
    [wanted],
  )
  const pending = rows[0]?.pending?.length ?? 0
  if (pending > 0) throw new MigrationsPending(`the database lacks ${pending} migrations; run storefront migrate`)
}

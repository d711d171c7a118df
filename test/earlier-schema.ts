import { readdirSync, readFileSync } from 'node:fs'
import type { Cleanup } from './cleanup.ts'
import { createEmptyDatabase } from './database.ts'

const DIRECTORY = new URL('../migrations/', import.meta.url)

/** The migrations that come after release 0.1.0 have these numbers or higher ones. */
export const AFTER_FIRST_RELEASE = '0032'

/** The files in `migrations/`, in order. */
export const MIGRATION_FILES = readdirSync(DIRECTORY)
  .filter((name) => name.endsWith('.sql'))
  .toSorted()

export function readMigration(file: string): string {
  return readFileSync(new URL(file, DIRECTORY), 'utf8')
}

/** An empty store of release 0.1.0, which `migrate` upgrades. */
export async function createEarlierDatabase(t: Cleanup): ReturnType<typeof createEmptyDatabase> {
  const database = await createEmptyDatabase(t)
  await database.pool.query('create table migrations (id serial primary key, name varchar(255) not null, run_on timestamp not null)')
  for (const file of MIGRATION_FILES.filter((name) => name < AFTER_FIRST_RELEASE)) {
    await database.pool.query(readMigration(file))
    await database.pool.query('insert into migrations (name, run_on) values ($1, now())', [file.replace('.sql', '')])
  }
  return database
}

import { fileURLToPath } from 'node:url'
import { runner } from 'node-pg-migrate'

const DIRECTORY = fileURLToPath(new URL('../../migrations', import.meta.url))

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

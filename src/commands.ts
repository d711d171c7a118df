import type { Logger } from 'pino'
import type { Config } from './config.ts'
import type { DatabaseAddresses } from './db/addresses.ts'
import type { Pool } from './db/pool.ts'
import type { JobQueue } from './pipeline/job-queue.ts'

/** What a command prints to, and what it is stopped by. */
export interface Terminal {
  out: (line: string) => void
  err: (line: string) => void
  logger: Logger
}

/** Each command returns the exit status of the process. */
export type Command = Promise<number>

/** Brings the database's schema, replication slot, job queue and rights up to date. */
export async function migrateCommand(config: Config, { out, logger }: Terminal): Command {
  const [{ openSharedDatabase }, { prepareDatabase }] = await Promise.all([
    import('./db/open-database.ts'),
    import('./app/prepare-database.ts'),
  ])
  const database = await openSharedDatabase(config)
  try {
    await prepareDatabase(database.addresses, logger)
    out('the database is up to date')
    return 0
  } finally {
    await database.close()
  }
}

/**
 * Runs `work` on the store's database: that of a running store, or started for as long as it takes. Changes nothing about the schema.
 * Throws StoreMissing, or MigrationsPending when the schema is not that of this program.
 */
export async function withDatabase(
  config: Config,
  { logger }: Terminal,
  work: (pool: Pool, addresses: DatabaseAddresses) => Command,
): Command {
  // Loaded here: a command that only prints something need not wait for all of this.
  const [{ openExistingDatabase }, { createPool }, { assertMigrated }] = await Promise.all([
    import('./db/open-database.ts'),
    import('./db/pool.ts'),
    import('./db/migrate.ts'),
  ])
  const database = await openExistingDatabase(config)
  const pool = createPool({
    url: database.addresses.api,
    size: 4,
    applicationName: 'storefront-command',
    onError: (error) => logger.warn({ reason: error.message }, 'a database connection broke'),
  })
  try {
    await assertMigrated(pool)
    return await work(pool, database.addresses)
  } finally {
    await pool.end()
    await database.close()
  }
}

/** Runs `work` with a job queue that only sends. */
export async function withJobs<T>(url: string, { logger }: Terminal, work: (jobs: JobQueue) => Promise<T>): Promise<T> {
  const { createJobQueue } = await import('./pipeline/job-queue.ts')
  const jobs = createJobQueue({ url, logger, supervise: false })
  try {
    await jobs.start()
    return await work(jobs)
  } finally {
    await jobs.stop()
  }
}

import { mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import pino from 'pino'
import { JOB_QUEUES } from '../src/app/prepare-database.ts'
import { roleOf } from '../src/db/addresses.ts'
import { dataFolder } from '../src/db/embedded/data-folder.ts'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../src/db/embedded/embedded-postgres.ts'
import { migrate } from '../src/db/migrate.ts'
import { grantRights } from '../src/db/rights.ts'
import { installJobQueues } from '../src/jobs/job-queue.ts'
import { databaseUrl, TEMPLATE } from './database.ts'

const SHARED_MEMORY = '/dev/shm'
const ENOUGH_BYTES = 4 * 1024 ** 3

let server: EmbeddedPostgres | undefined
let directory: string | undefined

/** One PostgreSQL for the whole run, and in it the migrated database that every test file's own is cloned from. */
export async function globalSetup(): Promise<void> {
  // Each file runs in a process of its own, which then need not strip and compile all modules again.
  process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL('../node_modules/.cache/storefront-test', import.meta.url))
  directory = mkdtempSync(join(fastFolder(), 'storefront-test-'))
  server = await startEmbeddedPostgres(dataFolder(directory), {
    // Durability is what the suites that start their own server test; here it would only cost time.
    settings: { fsync: 'off', max_wal_size: '512MB', max_connections: '400', max_replication_slots: '60', max_wal_senders: '60' },
  })
  process.env.TEST_DATABASE_ADDRESSES = JSON.stringify(server.addresses)
  const admin = new pg.Client({ connectionString: server.url })
  await admin.connect()
  await admin.query(`create database ${TEMPLATE}`)
  await admin.end()
  await migrate(databaseUrl(TEMPLATE))
  await installJobQueues({ url: databaseUrl(TEMPLATE), logger: pino({ level: 'silent' }), queues: JOB_QUEUES })
  const owner = new pg.Client({ connectionString: databaseUrl(TEMPLATE) })
  await owner.connect()
  await grantRights(owner, roleOf(server.addresses.api))
  await owner.end()
}

/** Memory where there is plenty: hundreds of databases are made here, each of hundreds of files. */
function fastFolder(): string {
  try {
    const { bavail, bsize } = statfsSync(SHARED_MEMORY)
    if (bavail * bsize >= ENOUGH_BYTES) return SHARED_MEMORY
  } catch {
    // Not Linux.
  }
  return tmpdir()
}

export async function globalTeardown(): Promise<void> {
  await server?.stop()
  if (directory !== undefined) rmSync(directory, { recursive: true, force: true })
}

import { randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { setFlagsFromString } from 'node:v8'
import pino, { type Logger } from 'pino'
import { createApiForDocument, prepareDatabase } from './app.ts'
import { createAdmin } from './auth/create-admin.ts'
import { Passwords } from './auth/password.ts'
import { generateSigningKeys, rotateSigningKeys } from './auth/signing-keys.ts'
import { exportCatalogue } from './catalogue/export-catalogue.ts'
import { importCatalogue } from './catalogue/import-catalogue.ts'
import { type ImportFormat, readImportLines } from './catalogue/import-lines.ts'
import { type Config, readConfig } from './config.ts'
import { dataFolder, keepSecret } from './db/data-folder.ts'
import { openSharedDatabase } from './db/open-database.ts'
import { createPool, type Pool } from './db/pool.ts'
import { orderEventDocument, orderEventFiles } from './orders/event-document.ts'
import { createJobQueue, type JobQueue } from './pipeline/job-queue.ts'

/** What a command prints to, and what it is stopped by. */
export interface Terminal {
  out: (line: string) => void
  err: (line: string) => void
  logger: Logger
}

/** Each command returns the exit status of the process. */
export type Command = Promise<number>

/** Brings the database's schema up to date. */
export function migrateCommand(config: Config, terminal: Terminal): Command {
  return withDatabase(config, terminal, async () => {
    terminal.out('the database is up to date')
    return 0
  })
}

/** Imports products from a file, `-` for standard input. Status 1 when a line was refused; the others are imported all the same. */
export function importCommand(config: Config, terminal: Terminal, file: string, format: ImportFormat | undefined): Command {
  // Lines come and go faster than V8 likes to clean up: without this a long import takes a hundred megabytes more, and no less time.
  setFlagsFromString('--optimize-for-size')
  setFlagsFromString('--semi-space-growth-factor=1')
  return withDatabase(config, terminal, async (pool) => {
    const source = file === '-' ? process.stdin : createReadStream(file)
    const lines = readImportLines(source, { format, fileName: file === '-' ? undefined : file, currency: config.currency })
    const onError = (line: number, reason: string) => terminal.err(`line ${line}: ${reason}`)
    const onProgress = importProgress(terminal)
    const { created, updated, unchanged, failed } = await importCatalogue(pool, lines, onError, { onProgress })
    terminal.out(`${created} created, ${updated} updated, ${unchanged} unchanged, ${failed} refused`)
    return failed === 0 ? 0 : 1
  })
}

const PROGRESS_MS = 2_000

/** Says now and then how far a long import has come. */
function importProgress({ err }: Terminal): (lines: number) => void {
  const startedAt = performance.now()
  let saidAt = startedAt
  return (lines) => {
    const now = performance.now()
    if (now - saidAt < PROGRESS_MS) return
    saidAt = now
    const perSecond = Math.round((lines / (now - startedAt)) * 1_000)
    err(`${lines.toLocaleString('en')} lines, ${perSecond.toLocaleString('en')} a second`)
  }
}

/** Writes the catalogue to standard output, in a form that the import reads back. */
export function exportCommand(config: Config, terminal: Terminal, format: ImportFormat): Command {
  return withDatabase(config, terminal, async (pool) => {
    try {
      await pipeline(exportCatalogue(pool, format), process.stdout, { end: false })
      return 0
    } catch (error) {
      // Whoever reads has seen enough, such as `head`.
      if ((error as NodeJS.ErrnoException).code === 'EPIPE') return 0
      throw error
    }
  })
}

/** Makes an operator's account. An empty password means: make one up and print it, once. */
export function adminCreateCommand(config: Config, terminal: Terminal, email: string, password: string): Command {
  return withDatabase(config, terminal, async (pool) => {
    const chosen = password === '' ? randomBytes(18).toString('base64url') : password
    const passwords = new Passwords({ threads: 1, maxWaiting: 0 })
    const admin = await createAdmin(pool, passwords, { email, password: chosen })
    terminal.out(`made the admin ${admin.email}`)
    if (password === '') terminal.out(`password: ${chosen}`)
    return 0
  })
}

/** Adds a key that signs access tokens from now on. A store that runs takes it up within a few seconds. */
export function keysRotateCommand(config: Config, terminal: Terminal): Command {
  return withDatabase(config, terminal, async (pool) => {
    const id = await rotateSigningKeys(pool, config.secret ?? keepSecret(dataFolder(config.dataDir), 'secret'))
    terminal.out(`new access tokens are signed with the key ${id}`)
    return 0
  })
}

/** Prints the OpenAPI document of the default settings. Needs no database. */
export async function openApiCommand(terminal: Terminal): Command {
  const config = readConfig({})
  const pool = createPool({ url: 'postgres://unused', size: 1, applicationName: 'storefront', onError: () => {} })
  const server = await createApiForDocument(config, pool, await generateSigningKeys(), pino({ level: 'silent' }))
  await server.ready()
  terminal.out(JSON.stringify(server.swagger(), null, 2))
  await server.close()
  await pool.end()
  return 0
}

/** Prints the AsyncAPI document of the order events, or writes it, with a JSON Schema for each event, into a folder. */
export async function asyncApiCommand(terminal: Terminal, folder: string | null): Command {
  if (folder === null) {
    terminal.out(JSON.stringify(orderEventDocument(), null, 2))
    return 0
  }
  for (const [name, document] of Object.entries(orderEventFiles())) {
    const file = join(folder, name)
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, `${JSON.stringify(document, null, 2)}\n`)
    terminal.out(file)
  }
  return 0
}

/** Runs `work` on the store's database, brought up to date: that of a running store, or started for as long as it takes. */
export async function withDatabase(config: Config, { logger }: Terminal, work: (pool: Pool, url: string) => Command): Command {
  const database = await openSharedDatabase(config)
  const pool = createPool({
    url: database.url,
    size: 4,
    applicationName: 'storefront-command',
    onError: (error) => logger.warn({ reason: error.message }, 'a database connection broke'),
  })
  try {
    await prepareDatabase(database.url, pool, logger)
    return await work(pool, database.url)
  } finally {
    await pool.end()
    await database.close()
  }
}

/** Runs `work` with a job queue that only sends. */
export async function withJobs<T>(url: string, { logger }: Terminal, work: (jobs: JobQueue) => Promise<T>): Promise<T> {
  const jobs = createJobQueue({ url, logger, supervise: false })
  try {
    await jobs.start()
    return await work(jobs)
  } finally {
    await jobs.stop()
  }
}

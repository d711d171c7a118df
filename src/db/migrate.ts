import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type pg from 'pg'
import { OperatorError } from '../errors.ts'
import { LockRetries } from './lock-retries.ts'
import { connectClient, type Queryable } from './pool.ts'
import { MIGRATION_BOUNDS, setUpSession } from './session-settings.ts'
import { identifier, sql } from './sql.ts'
import { createFunctions, listFunctions } from './sql-functions.ts'
import { INSUFFICIENT_PRIVILEGE, INVALID_PARAMETER_VALUE, SUCCESSFUL_COMPLETION, sqlState, UNDEFINED_TABLE } from './sql-state.ts'

/** The lock id that previous releases used with node-pg-migrate, so no two versions migrate at once. */
const LOCK_ID = 7_241_865_325_823_964
const CREATED_INDEX = /^create (?:unique )?index concurrently if not exists (\w+)/m
const CONCURRENT = /^(?:create (?:unique )?|drop )index concurrently\b/m
const BATCH = /^do\b/m
/** Less than `deadlock_timeout`, so an order never gives way to a batch. */
const BATCH_LOCK_MS = 300

const DIRECTORY = fileURLToPath(new URL('../../migrations', import.meta.url))

export class MigrationsPending extends OperatorError {
  override readonly name = 'MigrationsPending'
}

/** A development version made the schema, before the first release's migrations. */
export class DevelopmentSchema extends OperatorError {
  override readonly name = 'DevelopmentSchema'
}

/** Several processes may call it. A migration that gets no lock is undone and retried, and earlier ones stay. */
export async function migrate(url: string, retries = new LockRetries({ url })): Promise<string[]> {
  await using client = await connectClient(url, 'storefront-migrate')
  if ((await countPending(client)).pending === 0) return []
  // The timeouts are set before the wait. The wait has a snapshot, and another process's concurrent index build waits
  // for each attempt's snapshot.
  await setUpSession(client, MIGRATION_BOUNDS)
  // The lock is held in the pauses too, until the connection ends. Two processes in turn would leave no pause for
  // orders.
  await retries.run(async (watch) => {
    await watch(client)
    await client.query(sql`select pg_advisory_lock(${LOCK_ID})`)
  })
  await endWithClient(client)
  client.on('notice', ({ code, message }) => code === SUCCESSFUL_COMPLETION && retries.report(message ?? ''))
  await client.query(
    sql`create table if not exists migrations (id serial primary key, name varchar(255) not null, run_on timestamp not null)`,
  )
  const pending = [...(await listKnown()).difference(await listApplied(client))].toSorted()
  // New tables may call new functions. Existing functions keep their previous definition until the last migration has
  // run.
  const earlier = await listFunctions(client)
  await inTransaction(client, () => createFunctions(client, (name) => !earlier.has(name)))
  for (const name of pending) {
    const text = await readFile(fileOf(name), 'utf8')
    await retries.run(async (watch) => {
      await watch(client)
      const isStatements = isWithoutTransaction(text)
      if (isStatements) await applyStatements(client, text, retries)
      await inTransaction(client, async () => {
        if (!isStatements) await client.query(text)
        if (name === pending.at(-1)) await createFunctions(client, (each) => earlier.has(each))
        await client.query(sql`insert into migrations (name, run_on) values (${name}, now())`)
      })
    })
  }
  return pending
}

/** Ends the session's work soon after this process was killed. A server on Windows cannot. */
async function endWithClient(client: pg.Client): Promise<void> {
  await client.query(`set client_connection_check_interval = '1s'`).catch((error: unknown) => {
    if (sqlState(error) !== INVALID_PARAMETER_VALUE) throw error
  })
}

async function inTransaction(client: pg.Client, work: () => Promise<unknown>): Promise<void> {
  try {
    await client.query('begin')
    await work()
    await client.query('commit')
  } catch (error) {
    // The first error is the reason, even if the connection has broken.
    await client.query('rollback').catch(() => {})
    throw error
  }
}

/** Applies statements that commit one by one. After a kill, or without a lock, all of them run again. */
async function applyStatements(client: pg.Client, text: string, retries: LockRetries): Promise<void> {
  try {
    for (const statement of statementsOf(text)) {
      await setLockTimeout(client, lockTimeoutOf(statement, retries))
      const [, index] = CREATED_INDEX.exec(statement) ?? []
      if (index !== undefined) await dropUnfinished(client, index)
      await client.query(statement)
    }
  } finally {
    await setLockTimeout(client, MIGRATION_BOUNDS.lock).catch(() => {})
  }
}

function lockTimeoutOf(statement: string, retries: LockRetries): number {
  // No statement waits behind these, which wait for example for the end of a dump.
  if (CONCURRENT.test(statement)) return retries.leftMs
  return BATCH.test(statement) ? BATCH_LOCK_MS : MIGRATION_BOUNDS.lock
}

/** A killed or failed concurrent build leaves an index that is never used and always maintained. */
async function dropUnfinished(client: pg.Client, index: string): Promise<void> {
  const { rowCount } = await client.query(sql`select from pg_index where indexrelid = to_regclass(${index}) and not indisvalid`)
  if (rowCount === 1) await client.query(sql`drop index concurrently ${identifier(index)}`)
}

async function setLockTimeout(client: pg.Client, ms: number): Promise<void> {
  await client.query(sql`select set_config('lock_timeout', ${String(Math.max(1, Math.round(ms)))}, false)`)
}

/** Whether the file's statements run one by one, without a transaction: see migrations/README.md. */
export function isWithoutTransaction(text: string): boolean {
  return text.startsWith('-- no transaction\n')
}

export function statementsOf(text: string): string[] {
  return text.split(/\n\s*\n/).filter((paragraph) => /^(?!--)\S/m.test(paragraph))
}

/** Throws MigrationsPending if a migration is missing or unreadable for `db`, or DevelopmentSchema. */
export async function assertMigrated(db: Queryable): Promise<void> {
  const { pending, total } = await countPending(db)
  if (pending > 0) throw new MigrationsPending(`the database lacks ${pending} of ${total} migrations; run storefront migrate`)
}

export async function isOfLaterRelease(db: Queryable): Promise<boolean> {
  return !(await listApplied(db)).isSubsetOf(await listKnown())
}

export interface AppliedMigration {
  name: string
  sha256: string | null
}

export async function listMigrations(db: Queryable): Promise<AppliedMigration[]> {
  const applied = await listApplied(db)
  const known = await listKnown()
  return Promise.all([...applied].toSorted().map(async (name) => ({ name, sha256: known.has(name) ? await hashOf(name) : null })))
}

/** A released file never changes, so a different one of the same name is of a development version. */
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
    .update(await readFile(fileOf(name)))
    .digest('hex')
}

function fileOf(name: string): string {
  return join(DIRECTORY, `${name}.sql`)
}

async function listKnown(): Promise<Set<string>> {
  const files = await readdir(DIRECTORY)
  return new Set(files.filter((file) => file.endsWith('.sql')).map((file) => file.replace(/\.sql$/, '')))
}

async function countPending(db: Queryable): Promise<{ pending: number; total: number }> {
  const wanted = await listKnown()
  const applied = await listApplied(db)
  const missing = [...wanted.difference(applied)].toSorted()
  const pending = missing.length
  // A later release has every migration of this one, and its own follow them. Any other database belongs to no release.
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
    // A role that may not read the table lacks rights, which come with the newest migration.
    const state = sqlState(error)
    if (state === UNDEFINED_TABLE) return new Set()
    // An error that ends the connection is about the right to connect.
    if (state === INSUFFICIENT_PRIVILEGE && (error as { severity?: string }).severity !== 'FATAL') {
      throw new MigrationsPending("the API's role lacks its rights in the database; run storefront migrate", { cause: error })
    }
    throw error
  }
}

import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
import { createEmptyDatabase, createTestDatabase } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { assertMigrated, DevelopmentSchema, MigrationsPending, migrate } from './migrate.ts'
import { readFunctions } from './sql-functions.ts'

const FILES = readdirSync(new URL('../../migrations', import.meta.url)).filter((name) => name.endsWith('.sql'))
const NAMES = FILES.map((name) => name.replace(/\.sql$/, '')).toSorted()

test('reports how many migrations an empty database lacks, and nothing once they are applied', async (t) => {
  const { url, pool } = await createEmptyDatabase(t)
  await assert.rejects(assertMigrated(pool), (error: Error) => {
    assert.ok(error instanceof MigrationsPending)
    assert.equal(error.message, `the database lacks ${NAMES.length} of ${NAMES.length} migrations; run storefront migrate`)
    return true
  })
  assert.deepEqual(await migrate(url), NAMES)
  await assertMigrated(pool)
  assert.deepEqual(await migrate(url), [])
})

test('of several concurrent migrations one works and the others wait for it', async (t) => {
  const { url, pool } = await createEmptyDatabase(t)
  const applied = await Promise.all([migrate(url), migrate(url), migrate(url)])
  assert.deepEqual(applied.flat().toSorted(), NAMES)
  assert.equal(applied.filter((names) => names.length > 0).length, 1)
  await assertMigrated(pool)
})

test('notices a database that lacks the newest migration', async (t) => {
  const db = await createTestDatabase(t)
  await db.pool.query('delete from migrations where name = $1', [NAMES.at(-1)])
  await assert.rejects(assertMigrated(db.pool), /lacks 1 of \d+ migrations; run storefront migrate/)
})

test('refuses a database that a development version has made, and leaves it unchanged', async (t) => {
  const db = await createTestDatabase(t)
  await db.pool.query(`update migrations set name = '0001_accounts' where name = $1`, [NAMES[0]])
  const isRefusal = (error: Error) => {
    assert.ok(error instanceof DevelopmentSchema)
    assert.match(error.message, /^this store was made by a development version and cannot be upgraded: .*$/)
    return true
  }
  await assert.rejects(migrate(db.url), isRefusal)
  await assert.rejects(assertMigrated(db.pool), isRefusal)
  const { rows } = await db.pool.query<{ name: string }>('select name from migrations order by name')
  assert.deepEqual(
    rows.map(({ name }) => name),
    ['0001_accounts', ...NAMES.slice(1)],
  )
})

test('refuses a database whose migrations a development version applied in another order, and leaves it unchanged', async (t) => {
  const db = await createTestDatabase(t)
  await db.pool.query('delete from migrations where name = $1', [NAMES.at(-2)])
  await assert.rejects(migrate(db.url), DevelopmentSchema)
  await assert.rejects(assertMigrated(db.pool), DevelopmentSchema)
  const { rows } = await db.pool.query<{ name: string }>('select name from migrations order by name')
  assert.deepEqual(
    rows.map(({ name }) => name),
    NAMES.toSpliced(-2, 1),
  )
})

test('accepts a database that a later version has migrated', async (t) => {
  const db = await createTestDatabase(t)
  await db.pool.query(`insert into migrations (name, run_on) values ('9999_later', now())`)
  await assertMigrated(db.pool)
  assert.deepEqual(await migrate(db.url), [])
})

test('a database has the functions of src/<room>/sql, and no others', async (t) => {
  const { pool } = await createTestDatabase(t)
  const { rows } = await pool.query<{ name: string }>(`select proname::text as name from pg_proc
    where pronamespace = current_schema()::regnamespace
      and not exists (select from pg_depend where objid = pg_proc.oid and deptype = 'e')`)
  assert.deepEqual(rows.map(({ name }) => name).toSorted(), (await readFunctions()).map(({ name }) => name).toSorted())
})

test('rolls back a whole migration that fails, and continues from there', async (t) => {
  const { url, pool } = await createEmptyDatabase(t)
  // Blocks the second table of its file.
  await pool.query('create table topic_subscribers (taken boolean)')
  await assert.rejects(migrate(url))
  const { rows } = await pool.query(`select to_regclass('topic_messages') as messages`)
  assert.deepEqual(rows, [{ messages: null }])
  await pool.query('drop table topic_subscribers')
  await migrate(url)
  await assertMigrated(pool)
})

test('rejects when its connection breaks, and the next run continues', async (t) => {
  const { url, pool } = await createEmptyDatabase(t)
  const holder = await pool.connect()
  // Blocks the migration at its first table.
  await holder.query('begin')
  await holder.query('create table users (taken boolean)')
  const migration = migrate(url)
  migration.catch(() => {})
  await eventually(async () => {
    const { rowCount } = await pool.query(
      `select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    )
    return rowCount === 1
  })
  await assert.rejects(migration)
  await holder.query('rollback')
  holder.release()
  await migrate(url)
  await assertMigrated(pool)
})

test('functions that catch errors are parallel unsafe: before PostgreSQL 17 a parallel query fails at an exception block', async (t) => {
  const { pool } = await createTestDatabase(t)
  const { rows } = await pool.query(
    `select proname, proparallel from pg_proc
    where pronamespace = 'public'::regnamespace and prosrc ~* 'exception\\s+when'`,
  )
  assert.ok(rows.length > 0)
  for (const { proname, proparallel } of rows) assert.equal(proparallel, 'u', proname)
})

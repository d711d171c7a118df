import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { readMigrations } from '../../checks/migrations.ts'
import { onCleanup } from '../../test/cleanup.ts'
import { createEmptyDatabase, createTestDatabase } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { assertMigrated, DevelopmentSchema, MigrationsPending, migrate } from './migrate.ts'
import { createFunctions, readFunctions } from './sql-functions.ts'
import { inTransaction } from './transaction.ts'

const FILES = readdirSync(new URL('../../migrations', import.meta.url)).filter((name) => name.endsWith('.sql'))
const NAMES = FILES.map((name) => name.replace(/\.sql$/, '')).toSorted()

test('reports the number of migrations that an empty database lacks, and none once they are applied', async (t) => {
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

test('detects a database that lacks the newest migration', async (t) => {
  const db = await createTestDatabase(t)
  await db.pool.query('delete from migrations where name = $1', [NAMES.at(-1)])
  await assert.rejects(assertMigrated(db.pool), /lacks 1 of \d+ migrations; run storefront migrate/)
})

test('refuses a database made by a development version, and leaves it unchanged', async (t) => {
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

test("refuses a database with a development version's order of migrations, and leaves it unchanged", async (t) => {
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

test('a database has exactly the functions of src/<room>/sql', async (t) => {
  const { pool } = await createTestDatabase(t)
  const { rows } = await pool.query<{ name: string }>(`select proname::text as name from pg_proc
    where pronamespace = current_schema()::regnamespace
      and not exists (select from pg_depend where objid = pg_proc.oid and deptype = 'e')`)
  assert.deepEqual(rows.map(({ name }) => name).toSorted(), (await readFunctions()).map(({ name }) => name).toSorted())
})

test('rolls back a failed migration completely, and continues from there', async (t) => {
  const { url, pool } = await createEmptyDatabase(t)
  // This table blocks the second table of its migration's file.
  await pool.query('create table topic_subscribers (taken boolean)')
  await assert.rejects(migrate(url))
  const { rows } = await pool.query(`select to_regclass('topic_messages') as messages`)
  assert.deepEqual(rows, [{ messages: null }])
  await pool.query('drop table topic_subscribers')
  await migrate(url)
  await assertMigrated(pool)
})

test('jobs that waited in the queue of jobs wait in the tables of deliveries', async (t) => {
  const { url, pool } = await createEmptyDatabase(t)
  await inTransaction(pool, (client) => createFunctions(client, () => true))
  const earlier = readMigrations(join(import.meta.dirname, '../..')).filter(({ name }) => name < '0015')
  for (const { text } of earlier) await pool.query(text)
  await pool.query('create table migrations (id serial primary key, name varchar(255) not null, run_on timestamp not null)')
  await pool.query(`insert into migrations (name, run_on) select name, now() from unnest($1::text[]) as name`, [
    earlier.map(({ name }) => name.replace(/\.sql$/, '')),
  ])
  await pool.query(`create schema pgboss;
    create type pgboss.job_state as enum ('created', 'retry', 'active', 'completed', 'cancelled', 'failed');
    create table pgboss.job (id uuid not null default gen_random_uuid(), name text not null, data jsonb, state pgboss.job_state not null);
    insert into pgboss.job (name, data, state)
    select 'account-mail', jsonb_build_object('encrypted', state, 'expires_at', '2031-02-03T04:05:06.789Z'), state
    from unnest(enum_range(null::pgboss.job_state)) as state;
    insert into pgboss.job (name, data, state) values ('cdn-purge', '{"tags": ["products"], "cache": "varnish"}', 'retry');
    set session_replication_role = replica;
    insert into email_deliveries (event_id, order_id, user_id, event_type, status, send_after)
    select n, gen_random_uuid(), gen_random_uuid(), 'order.placed', case when n = 1 then 'sent' else 'queued' end, now() + make_interval(mins => n - 10)
    from generate_series(1, 2500) as n;
    reset session_replication_role;
    delete from catalogue_changes`)
  await migrate(url)
  const { rows: mails } = await pool.query(`select encrypted, expires_at, receiver, attempts from account_mails order by encrypted`)
  const mail = { expires_at: new Date('2031-02-03T04:05:06.789Z'), receiver: '-', attempts: 0 }
  assert.deepEqual(
    mails,
    ['active', 'created', 'retry'].map((encrypted) => ({ encrypted, ...mail })),
  )
  const { rows: changes } = await pool.query('select product_ids from catalogue_changes')
  assert.deepEqual(changes, [{ product_ids: null }])
  const { rows: orderMails } = await pool.query(
    `select count(*)::integer as mails, bool_and(send_after > now()) as is_later from email_deliveries where due_at = send_after`,
  )
  assert.deepEqual(orderMails, [{ mails: 2_490, is_later: true }])
  const { rows: due } = await pool.query(
    `select count(*)::integer as due from email_deliveries where status = 'queued' and due_at <= now()`,
  )
  assert.deepEqual(due, [{ due: 9 }])
})

test('rejects if its connection breaks, and the next run continues', async (t) => {
  const { url, pool } = await createEmptyDatabase(t)
  const holder = await pool.connect()
  // This lock blocks the migration at its first table.
  await holder.query('begin')
  await holder.query('create table users (taken boolean)')
  onCleanup(t, () => holder.release(true))
  // A connection opened during the migration finds functions whose tables do not exist yet.
  const cutter = await pool.connect()
  onCleanup(t, () => cutter.release(true))
  const migration = migrate(url)
  let isRejected = false
  migration.catch(() => {
    isRejected = true
  })
  await eventually(
    async () => {
      await cutter.query(
        `select pg_terminate_backend(pid, 5000) from pg_stat_activity
        where datname = current_database() and application_name = 'storefront-migrate' and wait_event_type = 'Lock'`,
      )
      return isRejected
    },
    { what: 'a migration whose connection is broken' },
  )
  await assert.rejects(migration)
  await holder.query('rollback')
  await migrate(url)
  await assertMigrated(cutter)
})

test('functions that catch errors are parallel unsafe, because a parallel query fails at them before PostgreSQL 17', async (t) => {
  const { pool } = await createTestDatabase(t)
  const { rows } = await pool.query(
    `select proname, proparallel from pg_proc
    where pronamespace = 'public'::regnamespace and prosrc ~* 'exception\\s+when'`,
  )
  assert.ok(rows.length > 0)
  for (const { proname, proparallel } of rows) assert.equal(proparallel, 'u', proname)
})

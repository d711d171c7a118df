import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import pg from 'pg'
import { onCleanup } from '../../test/cleanup.ts'
import { connectTo, createEmptyDatabase, createTestDatabase } from '../../test/database.ts'
import { startStore } from '../../test/store.ts'
import { roleOf } from './addresses.ts'
import { API_RIGHTS, grantRights } from './rights.ts'
import { createFunctions } from './sql-functions.ts'
import { inTransaction } from './transaction.ts'

const REFUSED = '42501'

test("lists the rights on exactly the store's tables and sequences", async (t) => {
  const { pool } = await createTestDatabase(t)
  const { rows } = await pool.query<{ name: string; kind: string }>(
    `select relname as name, relkind as kind
    from pg_class
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v', 'm', 'S')
      -- The sequences of identity columns need no right of their own.
      and not exists (select from pg_depend where objid = pg_class.oid and deptype = 'i' and classid = 'pg_class'::regclass)`,
  )
  // The owner alone counts migrations.
  const names = rows.map(({ name }) => name).filter((name) => name !== 'migrations_id_seq')
  assert.deepEqual(names.toSorted(), Object.keys(API_RIGHTS).toSorted(), 'src/db/rights.ts says what the API may do with each table')
})

test('the API and the stream connect as roles that are not superusers and own nothing', async (t) => {
  const { addresses, pool } = await createTestDatabase(t)
  for (const [url, isReplicating] of [
    [addresses.api, false],
    [addresses.stream, true],
  ] as const) {
    const client = await connectTo(t, url)
    const { rows } = await client.query(
      `select rolsuper, rolreplication, rolcreatedb, rolcreaterole, rolbypassrls from pg_roles where rolname = current_user`,
    )
    const all = { rolsuper: false, rolreplication: isReplicating, rolcreatedb: false, rolcreaterole: false, rolbypassrls: false }
    assert.deepEqual(rows, [all])
    // Other tests have temporary tables in their databases.
    const owned = await pool.query(
      `select from pg_shdepend
      where refobjid = $1::regrole and deptype = 'o' and dbid = (select oid from pg_database where datname = current_database())`,
      [roleOf(url)],
    )
    assert.equal(owned.rowCount, 0)
  }
})

test("refuses the API's role everything that it does not need", async (t) => {
  const { addresses } = await createTestDatabase(t)
  const api = await connectTo(t, addresses.api)
  for (const statement of [
    'create table mine (number integer)',
    'create schema mine',
    'create extension if not exists dblink',
    'create function public.mine() returns integer language sql as $$ select 1 $$',
    'alter table orders add column mine integer',
    'alter table orders disable trigger all',
    'drop table orders',
    'drop trigger products_note_insert on products',
    'create index on orders (note)',
    'truncate orders',
    'delete from orders',
    `update activities set action = 'nothing'`,
    'delete from activities',
    'truncate activities',
    'alter table activities disable trigger all',
    `select setval('activities_id_seq', 1)`,
    'delete from topic_messages',
    'update topic_messages set position = position',
    'update migrations set name = name',
    'select rolpassword from pg_authid',
    `select pg_read_file('postgresql.conf')`,
    `select pg_ls_dir('.')`,
    `copy orders to '/tmp/orders'`,
    `copy orders from program 'true'`,
    `select pg_create_logical_replication_slot('mine', 'pgoutput')`,
    `select pg_create_physical_replication_slot('mine')`,
    'select pg_reload_conf()',
    'alter system set fsync = off',
    'set session_replication_role = replica',
    'create role mine',
    'set role storefront',
    'create publication mine for all tables',
    'drop table account_mails',
  ]) {
    await assert.rejects(api.query(statement), { code: REFUSED }, statement)
  }
  await assert.rejects(connectForReplication(addresses.api), { code: REFUSED })
})

test("the stream's role may replicate but not use the tables", async (t) => {
  const { addresses } = await createTestDatabase(t)
  const stream = await connectTo(t, addresses.stream)
  for (const statement of [
    'select from orders',
    'select from users',
    'select from signing_keys',
    'select from account_mails',
    'create table mine ()',
  ]) {
    await assert.rejects(stream.query(statement), { code: REFUSED }, statement)
  }
  await connectForReplication(addresses.stream)
})

async function connectForReplication(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, replication: 'database' } as pg.ClientConfig)
  try {
    await client.connect()
    await client.query('IDENTIFY_SYSTEM')
  } finally {
    await client.end().catch(() => {})
  }
}

test('grants the rights once, even to several concurrent callers, and revokes all others', async (t) => {
  const { addresses, pool } = await createTestDatabase(t)
  const role = roleOf(addresses.api)
  assert.equal(await grantRights(pool, role), false)
  await pool.query(`create table a_new_one (); grant all on a_new_one, migrations to ${role}; revoke insert on orders from ${role}`)
  const owners = await Promise.all(Array.from({ length: 4 }, () => connectTo(t, addresses.owner)))
  const changes = await Promise.all(owners.map((owner) => grantRights(owner, role)))
  assert.deepEqual(changes.toSorted(), [false, false, false, true])
  const { rows } = await pool.query(
    `select has_table_privilege($1, 'orders', 'insert') as insert, has_table_privilege($1, 'migrations', 'delete') as delete,
      has_table_privilege($1, 'a_new_one', 'select') as select`,
    [role],
  )
  assert.deepEqual(rows, [{ insert: true, delete: false, select: false }])
  assert.equal(await grantRights(pool, role), false)
})

test("only the API's role and the owner may execute a function with the owner's rights, even if they are one role", async (t) => {
  const { addresses, pool } = await createTestDatabase(t)
  const { rows: functions } = await pool.query<{ kind: string; signature: string }>(
    `select oid::regprocedure::text as signature, prorettype::regtype::text as kind from pg_proc where prosecdef and pronamespace = 'public'::regnamespace`,
  )
  assert.ok(functions.length >= 5)
  const role = `monitor_${randomUUID().replaceAll('-', '')}`
  await pool.query(`create role ${role}`)
  onCleanup(t, () => pool.query(`drop role ${role}`).then(() => {}))
  const mayExecute = async (who: string) => {
    const { rows } = await pool.query(
      `select oid::regprocedure::text as signature from pg_proc
      where prosecdef and pronamespace = 'public'::regnamespace and prorettype <> 'trigger'::regtype and has_function_privilege($1, oid, 'execute')`,
      [who],
    )
    return rows.length
  }
  const callable = functions.filter(({ kind }) => kind !== 'trigger').length
  for (const [who, count] of [
    [role, 0],
    [roleOf(addresses.stream), 0],
    [roleOf(addresses.api), callable],
  ] as const)
    assert.equal(await mayExecute(who), count, who)
  // The same holds in a store whose only role is the owner.
  await pool.query('grant execute on all functions in schema public to public')
  assert.equal(await mayExecute(role), callable)
  assert.equal(await grantRights(pool, (await pool.query('select current_user as name')).rows[0].name), true)
  assert.equal(await mayExecute(role), 0)
})

test("at no moment of a migration may everybody execute a function with the owner's rights", async (t) => {
  const { pool } = await createEmptyDatabase(t)
  await inTransaction(pool, (tx) => createFunctions(tx, () => true))
  const { rows } = await pool.query(
    `select oid::regprocedure::text as signature, exists (select from aclexplode(coalesce(proacl, acldefault('f', proowner))) where grantee = 0) as is_open
    from pg_proc where prosecdef and pronamespace = 'public'::regnamespace`,
  )
  assert.ok(rows.length >= 5)
  assert.deepEqual(
    rows.filter(({ is_open }) => is_open),
    [],
  )
})

test('the pool of a running store does not connect as a superuser', async (t) => {
  const store = await startStore(t)
  const { rows } = await store.pool.query<{ role: string; rolsuper: boolean }>(
    `select distinct usename as role, rolsuper
    from pg_stat_activity
    join pg_roles on rolname = usename
    where datname = current_database() and application_name like 'storefront%'`,
  )
  assert.deepEqual(rows, [{ role: roleOf(store.addresses.api), rolsuper: false }])
})

test("inside a function with the owner's rights, a table in the caller's temporary schema hides none of the store's", async (t) => {
  const { pool, addresses } = await createTestDatabase(t)
  const { rows } = await pool.query<{ name: string }>(
    `select proname as name
    from pg_proc
    where prosecdef and pronamespace = to_regnamespace(current_schema())
      and not exists (select from unnest(proconfig) as setting where setting like 'search_path=%, pg_temp')`,
  )
  assert.deepEqual(rows, [])
  const api = await connectTo(t, addresses.api)
  await api.query(
    `create function pg_temp.see() returns boolean language plpgsql as $$ begin raise exception 'runs as %', current_user; end $$`,
  )
  await api.query('create temp view products as select * from public.products where pg_temp.see()')
  await api.query('create temp view inventory as select * from public.inventory where pg_temp.see()')
  await api.query(`select restate_products(array[gen_random_uuid()]), record_stock_events(array[gen_random_uuid()])`)
})

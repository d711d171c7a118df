import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import type pg from 'pg'
import { readMigrations } from '../checks/migrations.ts'
import { isWithoutTransaction, statementsOf } from '../src/db/migrate.ts'
import { createFunctions } from '../src/db/sql-functions.ts'
import { inTransaction } from '../src/db/transaction.ts'
import { createEmptyDatabase } from './database.ts'

const MIGRATIONS = readMigrations(join(import.meta.dirname, '..'))

const ROWS = 300
/** Such as `exists (select from orders)`. */
const FEW_ROWS = 20
const INSTEAD = 'a file whose first line is "-- no transaction" does that beside customers, see migrations/README.md'

/** Rows in tables that grow with the shop, as the first schema stores them. */
const FILL = `
  set session_replication_role = replica;
  insert into users (id, email) select gen_random_uuid(), n || '@example.com' from generate_series(1, ${ROWS}) as n;
  insert into products (id, sku, name, category, price_amount, price_currency, in_stock, attributes, search)
  select gen_random_uuid(), 'S-' || n, 'Lamp ' || n, 'Category ' || n % 7, n, 'EUR', true, '{"material": "wood"}', '' from generate_series(1, ${ROWS}) as n;
  insert into inventory (product_id, available) select id, 5 from products;
  insert into sessions (id, user_id, expires_at) select gen_random_uuid(), id, now() from users;
  insert into orders (id, number, user_id, status, items, total_amount, currency, status_history, created_at, updated_at)
  select gen_random_uuid(), row_number() over (), id, 'pending', '[]', 1, 'EUR', '[{"status": "pending"}]', now(), now() from users;
  insert into email_deliveries (event_id, order_id, user_id, event_type, status) select id || '.1', id, user_id, 'order.placed', 'sent' from orders;
  insert into order_event_deliveries (order_id, version, sequence, published_at) select id, 1, number, now() from orders;
  insert into topic_messages (id, position, event) select id || '.1', number, '{}' from orders;
  insert into idempotency_keys (user_id, key, fingerprint, order_id, response) select user_id, 'a key', '', id, '' from orders;
  insert into activities (actor_type, action, subject_type) select 'system', 'order.changed', 'order' from orders;
  reset session_replication_role;
  analyze;
`

interface State {
  /** Storage of each table; another one is a table that was written again. */
  tables: Map<string, string>
  /** What was built or validated by reading a whole table, as `what table`. */
  readOnce: Set<string>
  analyses: Map<string, number>
}

async function readState(db: pg.Pool | pg.PoolClient): Promise<State> {
  const ofStore = `relnamespace = current_schema()::regnamespace and relkind = 'r'`
  const { rows: tables } = await db.query(
    `select relname, relfilenode::text, pg_stat_get_analyze_count(oid)::integer as analyses from pg_class where ${ofStore}`,
  )
  const { rows: readOnce } = await db.query(`
    select 'builds the index ' || indexrelid::regclass || ' on ' as what, relname from pg_index join pg_class on pg_class.oid = indrelid where ${ofStore}
    union all
    select 'validates the constraint ' || conname || ' of ', relname from pg_constraint join pg_class on pg_class.oid = conrelid
    where ${ofStore} and convalidated and contype in ('c', 'f')`)
  return {
    tables: new Map(tables.map(({ relname, relfilenode }) => [relname, relfilenode])),
    analyses: new Map(tables.map(({ relname, analyses }) => [relname, analyses])),
    readOnce: new Set(readOnce.map(({ what, relname }) => `${what}${relname}`)),
  }
}

/** Rows that the session has read or written since it last reported its statistics, also in earlier transactions. */
async function countRows(client: pg.PoolClient): Promise<{ relname: string; rows: number }[]> {
  const { rows } = await client.query(
    `select relname, (seq_tup_read + coalesce(idx_tup_fetch, 0) + n_tup_ins + n_tup_upd + n_tup_del)::integer as rows from pg_stat_xact_user_tables`,
  )
  return rows
}

/**
 * What a migration in a transaction does to existing tables for a time that grows with them, while customers wait for
 * its locks.
 */
async function findLongWork(pool: pg.Pool, text: string): Promise<string[]> {
  const client = await pool.connect()
  try {
    const before = await readState(pool)
    await client.query('begin')
    const earlier = await countRows(client)
    await client.query(text)
    const touched = (await countRows(client)).map(({ relname, rows }) => ({
      relname,
      rows: rows - (earlier.find((table) => table.relname === relname)?.rows ?? 0),
    }))
    const after = await readState(client)
    await client.query('commit')
    const { analyses } = await readState(pool)
    const isExisting = (table: string) => before.tables.has(table)
    return [
      ...[...after.readOnce.difference(before.readOnce)].filter((what) => isExisting(what.replace(/.* (?:on|of) /, ''))),
      // A table that is dropped is neither written again nor analyzed.
      ...[...after.tables]
        .filter(([table, file]) => isExisting(table) && before.tables.get(table) !== file)
        .map(([table]) => `writes the table ${table} again`),
      ...[...analyses]
        .filter(([table, count]) => isExisting(table) && before.analyses.get(table) !== count)
        .map(([table]) => `analyzes ${table}`),
      ...touched
        .filter(({ relname, rows }) => rows > FEW_ROWS && isExisting(relname))
        .map(({ relname, rows }) => `reads or writes ${rows} rows of ${relname}`),
    ]
  } finally {
    client.release(true)
  }
}

/** What a statement outside a transaction must begin with, so that it can run again and locks nobody out. */
const ALLOWED = [
  /^create (unique )?index concurrently if not exists /,
  /^drop index concurrently if exists /,
  /^analyze( \w+( \([\w, ]+\))?)?;$/,
  /^alter table \w+ validate constraint \w+;$/,
]

/** Statements of a file without a transaction that are of no such kind. */
function findForbidden(text: string): string[] {
  return statementsOf(text)
    .map((statement) => statement.replaceAll(/^--.*\n/gm, '').trim())
    .filter((statement) =>
      statement.startsWith('do $$')
        ? !/\bcommit;/.test(statement) || /\b(alter|create|drop|lock|truncate)\b/.test(statement)
        : !ALLOWED.some((kind) => kind.test(statement)) || /;\s*\S/.test(statement),
    )
}

test('no migration in a transaction builds, validates, analyzes or changes what grows with the shop', async (t) => {
  const { pool } = await createEmptyDatabase(t)
  await inTransaction(pool, (client) => createFunctions(client, () => true))
  for (const { text } of MIGRATIONS.filter(({ isLater }) => !isLater)) await pool.query(text)
  await pool.query(FILL)
  const found: string[] = []
  for (const { name, text } of MIGRATIONS.filter(({ isLater }) => isLater)) {
    if (!isWithoutTransaction(text)) found.push(...(await findLongWork(pool, text)).map((what) => `${name} ${what}: ${INSTEAD}`))
    else for (const statement of statementsOf(text)) await pool.query(statement)
  }
  assert.deepEqual(found, [])
})

test('migrations outside transactions have only statements that can run again and lock nobody out', () => {
  const found = MIGRATIONS.filter(({ text }) => isWithoutTransaction(text)).flatMap(({ name, text }) =>
    findForbidden(text).map((statement) => `${name}: "${statement.slice(0, 60)}…" is of none of the kinds in migrations/README.md`),
  )
  assert.deepEqual(found, [])
})

test('sees each kind of work for which customers would wait', async (t) => {
  const { pool } = await createEmptyDatabase(t)
  await pool.query(`create table things (id integer, code text, size integer not null default 1);
    insert into things select n, n from generate_series(1, ${ROWS}) as n; create table empty_things (id integer)`)
  const cases: readonly (readonly [string, RegExp])[] = [
    ['create index things_id_idx on things (id)', /^builds the index things_id_idx on things$/],
    ['create index empty_things_id_idx on empty_things (id)', /^builds the index empty_things_id_idx on empty_things$/],
    ['alter table things add constraint things_id_positive check (id > 0)', /^validates the constraint things_id_positive of things$/],
    ['alter table things alter column id set not null', /^reads or writes \d+ rows of things$/],
    ['alter table things alter column code type varchar(20)', /^writes the table things again$/],
    ['analyze things', /^analyzes things$/],
    [`update things set code = 'a' where id < ${FEW_ROWS * 2}`, /^reads or writes \d+ rows of things$/],
    ['create table copies as select * from things', /^reads or writes \d+ rows of things$/],
  ]
  for (const [statement, expected] of cases) {
    const found = await findLongWork(pool, statement)
    assert.ok(
      found.some((what) => expected.test(what)),
      `${statement}: ${found.join(', ')}`,
    )
  }
  for (const fine of [
    'alter table things add column note text, add column flag boolean not null default false',
    'alter table things add constraint things_note_short check (length(note) < 9) not valid',
    'create table parts (id integer primary key, size integer); create index parts_size_idx on parts (size)',
    'do $$ begin perform from things limit 1; end $$',
  ])
    assert.deepEqual(await findLongWork(pool, fine), [], fine)
  const forbidden = [
    'create index things_code_idx on things (code);',
    'update things set id = 1;',
    'do $$ begin update things set id = 1; end $$;',
    'do $$ begin lock table things; commit; end $$;',
    'analyze things; update things set id = 1;',
  ]
  for (const statement of forbidden) assert.equal(findForbidden(`-- no transaction\n\n${statement}\n`).length, 1, statement)
})

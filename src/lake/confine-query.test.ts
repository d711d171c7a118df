import assert from 'node:assert/strict'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { makeLakeDirectory, writeFiles } from '../../test/lake-harness.ts'
import { type MakeLake, makeLocalLake, makeS3Lake } from '../../test/lake-stores.ts'
import { sql as value } from '../db/sql.ts'
import { toDuckDB } from './lake-database.ts'
import { LakeQueryError, queryLake } from './lake-query.ts'
import { LocalLakeStore } from './local-store.ts'

const quoteText = (text: string) => toDuckDB(value`${text}`)

const REFUSED = /; lake query reads the lake and nothing else unless --allow-files is given$/

/** A lake of two files, and beside it a folder with a file that is none of its business. */
async function makeLake(t: TestContext, make: MakeLake) {
  const lake = await make(t)
  await writeFiles(t, lake.store, [2, 2])
  const outside = dirname(makeLakeDirectory(t))
  const secret = join(outside, 'secret.csv')
  writeFileSync(secret, 'word\nxyzzy\n')
  const query = (sql: string, options = {}) => queryLake(lake.store, sql, options)
  return { ...lake, outside, secret, query }
}

// The files of a bucket are read from a folder, by the same walls: three statements show that they are there.
for (const [place, make, most] of [
  ['a folder', makeLocalLake, 100],
  ['a bucket', makeS3Lake, 3],
] as const) {
  test(`a query over a lake in ${place} reads the lake's files and no other`, async (t) => {
    const { query, secret, outside } = await makeLake(t, make)
    assert.deepEqual((await query('select count(*), count(distinct order_id) from order_events')).rows, [['4', '4']])
    const path = quoteText(secret)
    for (const sql of [
      `select * from read_csv(${path})`,
      `select * from read_csv_auto(${path})`,
      `select * from read_text(${path})`,
      `select * from read_blob(${path})`,
      `select * from read_json(${path})`,
      `select * from read_parquet(${path})`,
      `select * from parquet_metadata(${path})`,
      `select * from sniff_csv(${path})`,
      `select * from glob(${quoteText(`${outside}/*`)})`,
      "select * from read_csv('/etc/passwd')",
      "select * from read_text('/proc/self/environ')",
      "select * from read_csv('http://127.0.0.1:1/x.csv')",
      `create table stolen as select * from read_text(${path}); select * from stolen`,
      `with stolen as (select * from read_text(${path})) select * from stolen`,
      `select * from query('select * from read_text(${path.replaceAll("'", "''")})')`,
    ].slice(0, most)) {
      await assert.rejects(query(sql), LakeQueryError, sql)
    }
    await assert.rejects(query(`select * from read_text(${path})`), REFUSED)
  })

  test(`a query over a lake in ${place} writes no file, not even a file that it reads`, async (t) => {
    const { query, outside, pathOf, store } = await makeLake(t, make)
    const names = (await store.list('orders/')).map(({ name }) => name)
    const bytesOf = () => names.map((name) => readFileSync(pathOf(name)).toString('base64'))
    const before = bytesOf()
    const targets = [...names.map((name) => pathOf(name)), join(outside, 'out'), '/dev/stdout']
    for (const target of targets.map(quoteText)) {
      for (const sql of [
        `copy (select 1 as n) to ${target} (format parquet)`,
        `copy (select 1 as n) to ${target} (format parquet, use_tmp_file false)`,
        `explain analyze copy (select 1 as n) to ${target} (format csv, use_tmp_file false)`,
        `prepare p as copy (select 1 as n) to ${target} (format csv, use_tmp_file false); execute p`,
        `export database ${target}`,
        `attach ${target} as other; create table other.t as select 1`,
      ].slice(0, most)) {
        await assert.rejects(query(sql), LakeQueryError, sql)
      }
    }
    await assert.rejects(query(`copy (select 1) to ${targets.map(quoteText)[0]}`), REFUSED)
    assert.deepEqual(readdirSync(outside), ['secret.csv'])
    assert.deepEqual(bytesOf(), before)
    assert.deepEqual((await query('select count(*) from order_events')).rows, [['4']])
  })
}

test('refuses a query that ends with a statement without rows, and answers one that ends with rows', async (t) => {
  const { query } = await makeLake(t, makeLocalLake)
  for (const sql of ['drop view order_events', 'drop view orders', 'begin transaction', 'create view mine as select 1']) {
    await assert.rejects(query(sql), new LakeQueryError('The last statement returns no rows: end the query with a select'), sql)
  }
  assert.deepEqual((await query('create view mine as select 1 as one; select * from mine')).rows, [[1]])
  await query('drop view order_events', { allowFiles: true })
  assert.deepEqual((await query('select count(*) from order_events')).rows, [['4']])
})

test('a query loads no extension, attaches no database, changes no setting and reads no environment variable', async (t) => {
  const { query } = await makeLake(t, makeLocalLake)
  for (const sql of [
    'install httpfs',
    'load httpfs',
    "load '/tmp/some.duckdb_extension'",
    "attach ':memory:' as other",
    "attach '/tmp/some.db' as other",
    'set enable_external_access = true',
    'set lock_configuration = false',
    'reset lock_configuration',
    "set allowed_directories = ['/']",
    "set temp_directory = '/tmp'",
    "set memory_limit = '64GB'",
    'set autoload_known_extensions = true',
    "pragma memory_limit = '64GB'",
    "set profiling_output = '/tmp/some.json'",
    "call enable_logging(storage = 'file', storage_path = '/tmp/some')",
    'create persistent secret s (type s3)',
  ]) {
    await assert.rejects(query(`${sql}; select 1`), LakeQueryError, sql)
  }
  await assert.rejects(query('set memory_limit = 1'), REFUSED)
  await assert.rejects(query('load httpfs'), REFUSED)
  await assert.rejects(query("select getenv('HOME')"), LakeQueryError)
})

test('a query calls nothing that configures DuckDB, not even in text that DuckDB runs as SQL', async (t) => {
  const { query, outside } = await makeLake(t, makeLocalLake)
  const path = quoteText(join(outside, 'log'))
  for (const [sql, name] of [
    [`from enable_logging(storage = 'file', storage_path = ${path})`, 'enable_logging'],
    ["select * from enable_logging(storage = 'stdout')", 'enable_logging'],
    ["select 1; from system.main.Enable_Logging (storage = 'stdout')", 'enable_logging'],
    ['from "enable_logging"()', 'enable_logging'],
    ['from enable_logging/* a /* b */ */()', 'enable_logging'],
    ['from enable_logging -- a\n ()', 'enable_logging'],
    ['from enable_logging\u00a0()', 'enable_logging'],
    ['create macro m() as table from enable_logging(); from m()', 'enable_logging'],
    ['create table t as from disable_logging()', 'disable_logging'],
    [`from enable_profiling(save_location = ${path})`, 'enable_profiling'],
    ['from disable_profiling()', 'disable_profiling'],
    ['from enable_peg_parser()', 'enable_peg_parser'],
    ['from checkpoint()', 'checkpoint'],
    ['from force_checkpoint()', 'force_checkpoint'],
    ["from query('from ena' || 'ble_logging()')", 'query'],
    ["from json_execute_serialized_sql(json_serialize_sql('from ena' || 'ble_logging()'))", 'json_execute_serialized_sql'],
    ["pragma json_execute_serialized_sql('{}')", 'json_execute_serialized_sql'],
  ] as const) {
    const message = `${name} is refused; lake query reads the lake and nothing else unless --allow-files is given`
    await assert.rejects(query(sql), new LakeQueryError(message), sql)
  }
  assert.deepEqual(readdirSync(outside), ['secret.csv'])
  assert.deepEqual((await query("select 'enable_x' as checkpoint, 1 as query, 2 as disable_it")).rows, [['enable_x', 1, 2]])
  assert.deepEqual((await query('from checkpoint()', { allowFiles: true })).rows, [])
})

test('a confined query can still create tables, change them and pivot', async (t) => {
  const { query } = await makeLake(t, makeLocalLake)
  const sql = `
    create table known as select order_id, status, total_amount from orders;
    create macro doubled(n) as n * 2;
    set variable least = 1;
    insert into known select order_id, 'shipped', 1 from orders limit 1;
    update known set total_amount = doubled(total_amount) where total_amount = getvariable('least');
    delete from known where status = 'nothing';
    select count(*) filter (where total_amount = 2) as shipped from known`
  assert.deepEqual((await query(sql)).rows, [['1']])
  assert.deepEqual((await query('pivot (select status from orders) on status using count(*)')).rows, [['4']])
  assert.equal((await query('summarize orders')).columns[0], 'column_name')
})

test('a query with permission to use files reads and writes them', async (t) => {
  const { query, secret, outside } = await makeLake(t, makeLocalLake)
  assert.deepEqual((await query(`select word from read_csv(${quoteText(secret)})`, { allowFiles: true })).rows, [['xyzzy']])
  const target = join(outside, 'out.csv')
  await query(`copy (select count(*) as n from orders) to ${quoteText(target)}`, { allowFiles: true })
  assert.equal(readFileSync(target, 'utf8'), 'n\n4\n')
})

test('a query over a lake without files opens no file', async (t) => {
  const store = new LocalLakeStore(makeLakeDirectory(t))
  assert.deepEqual((await queryLake(store, 'select count(*) from orders')).rows, [['0']])
  await assert.rejects(queryLake(store, "select * from read_csv('/etc/passwd')"), REFUSED)
})

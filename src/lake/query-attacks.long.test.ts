import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { makeQueriedLake, SECRET } from '../../test/bounded-query-harness.ts'
import { makeLocalLake, makeS3Lake } from '../../test/lake-stores.ts'
import { QueryRefused } from './bounded-query.ts'

/** What an outsider tries. FILE is a file that is none of the lake's business. */
const ATTACKS: Readonly<Record<string, readonly string[]>> = {
  'files as tables': [
    `select * from 'FILE'`,
    `select * from "FILE"`,
    `select * from E'FILE'`,
    `from main.'FILE'`,
    'select * from "/etc/passwd"',
    "select * from 'file:///etc/passwd'",
    `with "FILE" as (select 1) select * from "FILE"`,
    `with a as (with "FILE" as (select 1) from "FILE") select * from a, "FILE"`,
    `select * from orders, 'FILE'`,
    `select * from 'FILE' as orders`,
    `select (select max(word) from 'FILE')`,
    `select * from orders order by (select max(word) from 'FILE')`,
    `select * from orders limit (select count(*) from 'FILE')`,
    `select * from orders where order_id in (from 'FILE')`,
    `describe 'FILE'`,
    `summarize 'FILE'`,
    `select * from (describe select * from 'FILE')`,
    `select * from (pivot orders on status in (from 'FILE') using count(*))`,
    `pivot 'FILE' on word in ('a') using count(*)`,
    `unpivot 'FILE' on word`,
    `select list_transform([1], x -> (select max(word) from 'FILE'))`,
    `with recursive r as (select 1 as n union all select n + 1 from r, 'FILE' where n < 3) from r`,
  ],
  'functions that read files': [
    ...['read_csv', 'read_csv_auto', 'read_text', 'read_blob', 'read_json', 'read_json_auto', 'read_ndjson', 'read_json_objects'],
    ...['read_parquet', 'parquet_scan', 'parquet_metadata', 'parquet_schema', 'parquet_kv_metadata', 'parquet_bloom_probe'],
    ...[
      'sniff_csv',
      'glob',
      'read_duckdb',
      'system.main.read_text',
      '"READ_TEXT"',
      'ReAd_TeXt/**/',
      'sqlite_scan',
      'delta_scan',
      'iceberg_scan',
    ],
  ].map((name) => `select * from ${name}('FILE')`),
  'spellings of them': [
    `select * from read_text(['FILE', 'FILE'])`,
    `select * from/* a */read_text/* b */('FILE')`,
    `select * from read_text --\n('FILE')`,
    `select * from U&"read\\005ftext"('FILE')`,
    `select * from "read_text" ('FILE')`,
    `select * from\u00a0read_text\u00a0('FILE')`,
    `select * from lateral (select * from read_text('FILE'))`,
    `select 'FILE'.read_text()`,
    `select read_text('FILE')`,
    `from orders select (from read_text('FILE') select content)`,
    "select * from 'http://127.0.0.1:1/x.csv'",
    "select * from 's3://bucket/x.parquet'",
    "select * from read_parquet('https://127.0.0.1:1/x.parquet')",
  ],
  'SQL in texts': [
    `select * from query('select * from read_text(''FILE'')')`,
    `select * from query_table('FILE')`,
    "select * from query_table(['orders'])",
    `from json_execute_serialized_sql(json_serialize_sql('select * from read_text(''FILE'')'))`,
    `select json_serialize_plan('select * from read_text(''FILE'')')`,
    "select * from sql_auto_complete('select * from ')",
  ],
  'settings, secrets, logs and the environment': [
    ...[
      'duckdb_settings()',
      'duckdb_settings',
      'duckdb_secrets()',
      'duckdb_secrets',
      'which_secret(1, 2)',
      'duckdb_databases()',
      'duckdb_logs',
    ],
    ...['duckdb_variables()', 'duckdb_temporary_files()', 'duckdb_extensions()', 'duckdb_views()', 'pragma_database_list', 'sqlite_master'],
    ...[
      'information_schema.tables',
      'pg_catalog.pg_settings',
      'system.information_schema.tables',
      'enable_logging()',
      'enable_profiling()',
    ],
    ...['checkpoint()', 'force_checkpoint()', 'pragma_platform()', 'test_all_types()', 'repeat_row(1)', 'duckdb_external_file_cache()'],
  ]
    .map((name) => `select * from ${name}`)
    .concat(
      'with duckdb_settings as (select 1) select * from duckdb_settings',
      'with a as (with sqlite_master as (select 1) from sqlite_master) select * from a, sqlite_master',
      "select current_setting('temp_directory')",
      "select getvariable('x')",
      "select getenv('HOME')",
      "select getenv('STOREFRONT_SECRET')",
      "select write_log('x')",
      'select sleep_ms(1)',
      'select pg_sleep(1)',
      "select __internal_decompress_string('x')",
      'show tables',
      'show all tables',
      'show databases',
    ),
  'other statements': [
    ...[
      "copy orders to 'FILE'",
      "copy (select 1) to 'FILE' (format csv, use_tmp_file false)",
      "attach 'FILE' as other",
      "attach ':memory:'",
    ],
    ...[
      'install httpfs',
      'load httpfs',
      "load 'FILE'",
      'set threads = 8',
      "set memory_limit = '64GB'",
      'reset threads',
      'set variable x = 1',
    ],
    ...['pragma database_list', "pragma memory_limit = '64GB'", 'call duckdb_settings()', 'create table t as select 1', 'drop view orders'],
    ...[
      'create macro m() as 1',
      'create secret s (type s3)',
      'insert into orders from orders',
      'delete from orders',
      'update orders set status = 1',
    ],
    ...[
      "export database 'FILE'",
      "import database 'FILE'",
      'prepare p as select 1',
      'execute p',
      'explain select 1',
      'vacuum',
      'checkpoint',
    ],
    ...["explain analyze copy (select 1) to 'FILE'", 'begin', 'use memory', 'detach memory', "comment on view orders is 'x'", 'analyze'],
    ...[
      'with gone as (delete from orders returning *) from gone',
      'select 1; select 2',
      "select 1; copy orders to 'FILE'",
      'select $1',
      'select ?',
      '',
    ],
    ...[
      "copy orders to 'FILE'; select 1",
      '-- select 1',
      'pivot orders on status using count(*)',
      'merge into orders using orders on true when matched then delete',
    ],
  ],
}

for (const [place, make] of [
  ['a folder', makeLocalLake],
  ['a bucket', makeS3Lake],
] as const) {
  test(`every attack on a lake in ${place} is refused, and neither changes nor shows anything`, async (t) => {
    const { secret, query } = await makeQueriedLake(t, make)
    for (const [what, attacks] of Object.entries(ATTACKS)) {
      for (const attack of attacks) {
        const sql = attack.replaceAll('FILE', secret)
        await assert.rejects(query(sql), (error) => {
          assert.ok(error instanceof QueryRefused, `${what}: ${sql}: ${error}`)
          assert.doesNotMatch(error.message, /xyzzy|\n/, sql)
          return true
        })
      }
    }
    assert.equal(readFileSync(secret, 'utf8'), `word\n${SECRET}\n`)
    assert.deepEqual((await query('select count(*) from order_events')).rows, [['4']])
  })
}

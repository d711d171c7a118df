import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { makeQueriedLake } from '../../test/bounded-query-harness.ts'
import { makeLocalLake } from '../../test/lake-stores.ts'
import { assertLakeSelect } from './assert-lake-select.ts'
import { QueryRefused } from './bounded-query.ts'
import { makeSpillPath, withDuckDB } from './lake-database.ts'
import { LAKE_TABLES } from './lake-tables.ts'

test('answers the queries that an analyst writes', async (t) => {
  const { query } = await makeQueriedLake(t)
  for (const [sql, rows] of [
    ['select count(*) from orders', [['4']]],
    ['from orders select distinct status;', [['pending']]],
    ['with a as (select status from orders), "b c" as (from a) select count(*) from "b c"', [['4']]],
    ['with recursive r as (select 1 as n union all select n + 1 from r where n < 3) from r', [[1], [2], [3]]],
    ["select pending_n from (pivot orders on status in ('pending') using count(*) as n group by currency)", [['4']]],
    ["pivot (select status from orders) on status in ('pending', 'shipped') using count(*)", [['4', '0']]],
    ['select count(*) from orders, unnest(items) as line (item)', [['4']]],
    ['select * from range(3)', [['0'], ['1'], ['2']]],
    ['select key, value from json_each(\'{ "a": 1 }\')', [['a', '1']]],
    ["select /* a */ 'read_text(''/etc/passwd'')' as query -- b", [["read_text('/etc/passwd')"]]],
    [
      'values (1, null), (2, true)',
      [
        [1, null],
        [2, true],
      ],
    ],
    ['select o.order_id = e.order_id from orders o join order_events e using (order_id) limit 1', [[true]]],
    ['select row_number() over (order by order_id) from orders qualify row_number() over (order by order_id) = 1', [['1']]],
  ] as const) {
    const answer = await query(sql).catch((error: Error) => assert.fail(`${sql}: ${error.message}`))
    assert.deepEqual(answer.rows, rows, sql)
  }
})

test('the list of tables equals what a query describes, with and without files', async (t) => {
  for (const counts of [[], [2, 2]]) {
    const { query } = await makeQueriedLake(t, makeLocalLake, counts)
    for (const { name, columns } of LAKE_TABLES) {
      const { rows } = await query(`select column_name, column_type from (describe select * from ${name})`)
      const plain = (type: string) => type.replaceAll('"', '').replaceAll('TIMESTAMPTZ', 'TIMESTAMP WITH TIME ZONE')
      assert.deepEqual(
        rows.map(([column, type]) => [column, plain(type)]),
        columns.map(({ name, type }) => [name, plain(type)]),
      )
    }
  }
})

test('rows or bytes beyond the limits are omitted, and the answer reports that', async (t) => {
  const { query } = await makeQueriedLake(t)
  const all = await query('select range from range(5)', { maxRows: 5 })
  assert.deepEqual([all.rows.length, all.isTruncated], [5, false])
  const rows = await query('select range from range(1000000000000::bigint)', { maxRows: 5 })
  assert.deepEqual([rows.rows.length, rows.isTruncated], [5, true])
  const bytes = await query("select repeat('ä', 100) from range(1000)", { maxBytes: 1_000 })
  assert.deepEqual([bytes.rows.length, bytes.isTruncated], [4, true])
  await assert.rejects(query("select repeat('x', 2000)", { maxBytes: 1_000 }), /^Error: A row is larger than 1000 bytes$/)
})

test('a query that needs more memory or disk space than allowed is refused', async (t) => {
  const { query } = await makeQueriedLake(t)
  await assert.rejects(query("select string_agg(repeat('x', 1000000), '') from range(1000)"), /^Error: Out of Memory Error: [^*]*$/)
  const sorted = "select count(*) from (select repeat('y', 500) || r as s from range(1000000) as t(r) order by s limit 900000)"
  await assert.rejects(query(sorted, { memory: '64MB' }), (error: Error) => {
    assert.match(error.message, /Out of Memory Error: .*max_temp_directory_size|Out of Memory Error/)
    assert.doesNotMatch(error.message, /storefront-outside/)
    return true
  })
})

test('a damaged file is named as in the lake, without a path of this machine', async (t) => {
  const { query, store, pathOf } = await makeQueriedLake(t)
  const [file] = await store.list('orders/')
  writeFileSync(pathOf(file?.name ?? ''), 'not Parquet at all')
  await assert.rejects(query('select count(*) from orders'), (error: Error) => {
    assert.ok(error instanceof QueryRefused)
    assert.ok(error.message.includes(file?.name ?? '-') && error.message.includes('storefront verify'), error.message)
    assert.doesNotMatch(error.message, /storefront lake's|\/tmp/)
    return true
  })
  assert.deepEqual((await query('select count(*) from products')).rows, [['0']], 'views of other files answer')
})

test('each DuckDB macro whose definition a query may not contain is refused, so none shows the paths of files', async (t) => {
  const { query } = await makeQueriedLake(t)
  const refused = await withDuckDB(makeSpillPath(), async (connection) => {
    const reader = await connection.runAndReadAll(
      "select function_name, len(parameters), macro_definition from duckdb_functions() where function_type = 'macro'",
    )
    const names = new Set<string>()
    for (const [name, parameters, definition] of reader.getRows()) {
      const isAllowed = (sql: string) =>
        assertLakeSelect(connection, sql).then(
          () => true,
          () => false,
        )
      // A definition names its functions in full, which a query may not.
      if (await isAllowed(`select ${String(definition).replaceAll('"system".main.', '')}`)) continue
      const call = `${name}(${Array(Number(parameters)).fill('1').join(', ')})`
      for (const spelling of [call, `"${call.replace('(', '"(').toUpperCase()}`, `main.${call}`, `pg_catalog.${call}`]) {
        assert.equal(await isAllowed(`select ${spelling}`), false, spelling)
      }
      names.add(String(name))
    }
    return names
  })
  assert.ok(refused.has('pg_get_viewdef') && refused.has('get_block_size'), [...refused].join(', '))
  const views = 'select i, pg_get_viewdef(i) as v from range(200000) as t(i) where v is not null'
  await assert.rejects(query(views), new QueryRefused('pg_get_viewdef is refused'))
  await assert.rejects(query('select system.main.lower(status) from orders'), new QueryRefused('lower is refused with a schema before it'))
  await assert.rejects(query("select pg_catalog.pg_typeof('a')"), QueryRefused)
  assert.deepEqual((await query("select main.lower('A'), [1, 2][1], {'a': 1}.a, extract(year from date '2026-03-01')")).rows, [
    ['a', 1, 1, '2026'],
  ])
})

test('numbers that JSON lacks are returned as text, alone and in lists', async (t) => {
  const { query } = await makeQueriedLake(t)
  const { rows } = await query("select 'nan'::double, 'infinity'::double, '-infinity'::float, ['nan'::double, 1.5], null::double, 1e308")
  assert.deepEqual(rows, [['NaN', 'Infinity', '-Infinity', '["NaN",1.5]', null, 1e308]])
})

test('a struct never loses a field: with unnamed fields it is refused, and as JSON it is returned', async (t) => {
  const { query } = await makeQueriedLake(t)
  for (const struct of ["{'a': 1, '__proto__': 2}", 'row(1, 2)', "[{'b': {'__proto__': 1}}]", 'map {1: (1, 2)}']) {
    await assert.rejects(
      query(`select 1, ${struct} as pair`),
      new QueryRefused('The struct in the column pair has unnamed fields: name them, or cast it to json'),
    )
  }
  const { rows } = await query("select {'a': 1, '__proto__': 2}::json, row(1, 2)::json, {'a': 1, 'constructor': 2}")
  assert.deepEqual(rows, [['{"a":1,"__proto__":2}', '{"":1,"":2}', '{"a":1,"constructor":2}']])
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '../../db/sql.ts'
import { makeSpillPath, toDuckDB, withDuckDB } from '../lake-database.ts'
import { selectRows } from '../query-duckdb.ts'
import { ChangedRows } from './changed-rows.ts'
import { DERIVED_TABLES } from './lake-table.ts'

const ROWS = 500_000
/** DuckDB reads rows in groups of this size. */
const GROUP = 122_880

test("each file's rows are read without reading those of other files, and each row is in one file", async () => {
  const products = DERIVED_TABLES.find(({ name }) => name === 'products') ?? assert.fail()
  await withDuckDB(makeSpillPath(), async (connection) => {
    await connection.run(`
      create temp table changed as
      select md5((range // 2)::varchar) as product_id, range % 2 as version, null::integer as touched_file, 0 as touched_month
      from range(${ROWS})`)
    await connection.run('create temp table touched as select null::varchar as touched_id')
    const files = await new ChangedRows(connection, products).collect({ file: null, month: null }, null)
    assert.equal(files.length, 50)
    let [rows, end] = [0, '']
    for (const select of files) {
      const [[count, least, greatest] = []] = await selectRows(
        connection,
        sql`select count(*), min(product_id), max(product_id) from (${select})`,
      )
      assert.ok(String(least) > end, 'a product is in one file')
      rows += Number(count)
      end = String(greatest)
      const plan = (await connection.runAndReadAll(`explain (analyze, format json) ${toDuckDB(select)}`)).getRows().flat().join()
      const read = [...plan.matchAll(/"operator_rows_scanned": (\d+)/g)].reduce((sum, [, number]) => sum + Number(number), 0)
      assert.ok(read > 0 && read <= 2 * GROUP, `${read} rows were read`)
    }
    assert.equal(rows, ROWS)
  })
})

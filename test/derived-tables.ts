import assert from 'node:assert/strict'
import { commaList, identifier, type Sql, sql } from '../src/db/sql.ts'
import { readBase } from '../src/lake/iceberg/commit-snapshot.ts'
import { DERIVED_TABLES } from '../src/lake/iceberg/lake-table.ts'
import type { DataFile } from '../src/lake/iceberg/manifest.ts'
import { currentSnapshot } from '../src/lake/iceberg/table-metadata.ts'
import { TableStore } from '../src/lake/iceberg/table-store.ts'
import { UP_TO } from '../src/lake/iceberg/write-derived-tables.ts'
import { makeSpillPath, parquetRows, withDuckDB } from '../src/lake/lake-database.ts'
import type { LakeStore } from '../src/lake/lake-store.ts'
import { createViews } from '../src/lake/lake-views.ts'
import { findLakeEnd, readLakeFiles } from '../src/lake/list-files.ts'
import { selectRows } from '../src/lake/query-duckdb.ts'

/** The files of the newest snapshot of a table. */
export async function tableFiles(store: LakeStore, table: string): Promise<DataFile[]> {
  const { manifests } = await readBase(new TableStore(store, table))
  return manifests.flatMap(({ entries }) => entries.map(({ data_file }) => data_file))
}

/** Every table of the newest state goes up to the end of the lake, and has the rows that its views have. */
export async function assertFresh(store: LakeStore): Promise<void> {
  await withDuckDB(makeSpillPath(), async (connection) => {
    for (const { name, dataset, select, columns } of DERIVED_TABLES) {
      const table = new TableStore(store, name)
      const { metadata } = await readBase(table)
      const end = await findLakeEnd(store, dataset)
      if (end === 0) continue
      assert.ok(metadata, name)
      assert.equal(currentSnapshot(metadata).summary[UP_TO], String(end), name)
      const files = (await tableFiles(store, name)).map((file) => ({
        name: table.nameAt(file.file_path) ?? '',
        sizeBytes: file.file_size_in_bytes,
      }))
      await readLakeFiles(store, dataset, async (_, events) => {
        await createViews(connection, dataset, events)
        await store.withCopies(files, async (paths) => {
          const list = commaList(Object.keys(columns).map(identifier))
          const wanted = sql`select ${list} from (${select})`
          const found = paths.length === 0 ? sql`${wanted} limit 0` : sql`select ${list} from ${parquetRows(paths)}`
          const [missing, further] = [sql`(${wanted}) except all (${found})`, sql`(${found}) except all (${wanted})`]
          const first = async (rows: Sql) => (await selectRows(connection, sql`select * from (${rows}) limit 1`)).map(String)
          assert.deepEqual([await first(missing), await first(further)], [[], []], `missing, and further rows of ${name}`)
        })
      })
    }
  })
}

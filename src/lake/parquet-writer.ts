import { stat } from 'node:fs/promises'
import type { DuckDBConnection } from '@duckdb/node-api'
import { commaList, identifier, noSql, type Sql, sql } from '../db/sql.ts'
import { describeFile } from './iceberg/describe-file.ts'
import { fieldIdOption } from './iceberg/field-ids.ts'
import type { LakeTableDefinition } from './iceberg/lake-table.ts'
import type { DataFile } from './iceberg/manifest.ts'
import { jsonRows, writeJsonLines } from './json-lines.ts'
import { checksumMetadata, stampChecksum } from './lake-checksum.ts'
import { toDuckDB, withDuckDB } from './lake-database.ts'
import { LAKE_SCHEMA_VERSION } from './lake-row.ts'
import { selectRows } from './query-duckdb.ts'

export interface NewFile {
  /** The path with `.ndjson` and with `.spill` is for temporary files. */
  path: string
  location: string
}

/** Each line is a row as JSON. Throws when the number of rows differs. */
export async function writeParquet(file: NewFile, lines: readonly string[], table: LakeTableDefinition): Promise<DataFile> {
  // Reading a file is about six times as fast as binding the same JSON as a parameter.
  const spool = await writeJsonLines(`${file.path}.ndjson`, lines)
  return withDuckDB(`${file.path}.spill`, async (connection) => {
    const columns = commaList(Object.keys(table.columns).map(identifier))
    const data = await writeDataFile(connection, file, sql`select ${columns} from ${jsonRows(spool, table.columns)}`, table)
    if (data.record_count !== lines.length) throw new Error(`a lake file got ${data.record_count} rows of ${lines.length}`)
    return data
  })
}

/** Syncs the file and writes its checksum. Returns the entry for the manifest. */
export async function writeDataFile(
  connection: DuckDBConnection,
  { path, location }: NewFile,
  select: Sql,
  table: LakeTableDefinition,
): Promise<DataFile> {
  const columns = await selectRows(connection, sql`describe ${select}`)
  const fieldIds = fieldIdOption(columns.map(([column, type]) => ({ name: String(column), type: String(type) })))
  await connection.run(
    toDuckDB(sql`
      copy (${select})
      to ${path} (
        format parquet,
        compression zstd,
        use_tmp_file false,
        ${fieldIds === null ? noSql : sql`field_ids ${fieldIds},`}
        kv_metadata { schema_version: ${String(LAKE_SCHEMA_VERSION)}, ${checksumMetadata()} }
      )`),
  )
  await stampChecksum(path)
  return describeFile(connection, table, path, { location, sizeBytes: (await stat(path)).size })
}

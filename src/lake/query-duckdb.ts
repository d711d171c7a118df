import type { DuckDBConnection, DuckDBInstance, DuckDBValue } from '@duckdb/node-api'
import type { Sql } from '../db/sql.ts'
import { createDuckDB, makeSpillPath, toDuckDB, withConnection, withDuckDB } from './lake-database.ts'

// All queries share it, because creating one takes longer than most queries. See docs/decisions/lake-queries.md.
let shared: Promise<DuckDBInstance> | null = null
// Errors after which every query of the same instance fails.
const IS_BROKEN = /^(FATAL|INTERNAL) Error/

/** Retries in a separate DuckDB that can spill to disk: a damaged file may break the shared one for every query. */
export async function queryDuckDB(statement: Sql): Promise<DuckDBValue[][]> {
  const select = (connection: DuckDBConnection) => selectRows(connection, statement)
  // A file can be written again under the same name, so file contents are not cached.
  shared ??= createDuckDB({ temp_directory: '', enable_external_file_cache: 'false' })
  const used = shared
  let instance: DuckDBInstance | null = null
  try {
    instance = await used
    return await withConnection(instance, select)
  } catch (error) {
    if (shared === used && (instance === null || IS_BROKEN.test((error as Error).message))) {
      shared = null
      instance?.closeSync()
    }
    return withDuckDB(makeSpillPath(), select)
  }
}

export async function selectRows(connection: DuckDBConnection, statement: Sql): Promise<DuckDBValue[][]> {
  return (await connection.runAndReadAll(toDuckDB(statement))).getRows()
}

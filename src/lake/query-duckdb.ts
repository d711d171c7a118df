import type { DuckDBConnection, DuckDBValue } from '@duckdb/node-api'
import type { Sql } from '../db/sql.ts'
import { makeSpillPath, toDuckDB, withDuckDB } from './lake-database.ts'

/** The rows of one query, in a separate DuckDB, because a damaged file may break it. */
export function queryDuckDB(statement: Sql): Promise<DuckDBValue[][]> {
  return withDuckDB(makeSpillPath(), (connection) => selectRows(connection, statement))
}

export async function selectRows(connection: DuckDBConnection, statement: Sql): Promise<DuckDBValue[][]> {
  return (await connection.runAndReadAll(toDuckDB(statement))).getRows()
}

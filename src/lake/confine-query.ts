import { type DuckDBConnection, type DuckDBPreparedStatement, StatementType } from '@duckdb/node-api'
import { commaList, sql } from '../db/sql.ts'
import { readablePath, toDuckDB } from './lake-database.ts'

/** Added to each refusal. */
export const HINT = 'lake query reads the lake and nothing else unless --allow-files is given'

/**
 * Statements that change only tables in memory. COPY and EXPLAIN ANALYZE may write to every file that a query may read,
 * and PREPARE hides the statement that EXECUTE runs.
 */
const ALLOWED_STATEMENTS: ReadonlySet<StatementType> = new Set([
  StatementType.SELECT,
  StatementType.INSERT,
  StatementType.UPDATE,
  StatementType.DELETE,
  StatementType.MERGE_INTO,
  StatementType.CREATE,
  StatementType.CREATE_FUNC,
  StatementType.ALTER,
  StatementType.DROP,
  StatementType.TRANSACTION,
  // SET VARIABLE too; settings are locked.
  StatementType.SET,
  StatementType.VARIABLE_SET,
])

/**
 * Calls that configure DuckDB in spite of its lock, write files or end the process, and calls that run a text, which
 * may contain the former in pieces. A comment counts as the parenthesis that may follow it.
 */
const REFUSED_CALL =
  /(?<![\p{L}\p{N}_$])((?:enable|disable)_\w+|(?:force_)?checkpoint|query|json_execute_serialized_sql)"?[\s\p{Z}\p{Cf}]*(?:\(|--|\/\*)/iu

/**
 * Confines the connection's database: it opens only these files and those of its spill directory, loads no extension
 * and changes no setting. https://duckdb.org/docs/stable/operations_manual/securing_duckdb/overview
 */
export async function confineToFiles(connection: DuckDBConnection, paths: readonly string[]): Promise<void> {
  // DuckDB checks the path as written in `read_parquet`, and again when it opens the file.
  const allowed = [...new Set(paths.flatMap((path) => [path, readablePath(path)]))]
  await connection.run(toDuckDB(sql`set allowed_paths = [${commaList(allowed)}]`))
  await connection.run('set enable_external_access = false')
  await connection.run('set lock_configuration = true')
}

/** Throws when the SQL contains a refused call. Runs before DuckDB parses the text. */
export function assertNoRefusedCall(text: string): void {
  const [, name] = REFUSED_CALL.exec(text) ?? []
  if (name !== undefined) throw new Error(`${name.toLowerCase()} is refused`)
}

/** Throws unless a confined query may run the statement. */
export function assertConfined({ statementType }: DuckDBPreparedStatement): void {
  if (ALLOWED_STATEMENTS.has(statementType)) return
  throw new Error(`${StatementType[statementType] ?? 'This statement'} is refused`)
}

/** Whether a statement was refused because the query is confined. */
export function isConfinementRefusal(message: string): boolean {
  return /^Permission Error: |the configuration has been locked|^\w+ is refused$/.test(message)
}

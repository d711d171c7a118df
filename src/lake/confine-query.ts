import { type DuckDBConnection, type DuckDBPreparedStatement, StatementType } from '@duckdb/node-api'
import { commaList, sql } from '../db/sql.ts'
import { readablePath, toDuckDB } from './lake-database.ts'

/** What is added to a refusal that comes from here. */
export const HINT = 'lake query reads the lake and nothing else unless --allow-files is given'

/**
 * Statements that touch tables in memory only. DuckDB lets COPY and EXPLAIN ANALYZE write to every file that a query may read, and
 * PREPARE hides what EXECUTE runs.
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
 * Calls that configure DuckDB although its settings are locked, write files or end the process, and calls that run a text, which may
 * contain them in pieces. A comment counts as the parenthesis that may follow it.
 */
const REFUSED_CALL =
  /(?<![\p{L}\p{N}_$])((?:enable|disable)_\w+|(?:force_)?checkpoint|query|json_execute_serialized_sql)"?[\s\p{Z}\p{Cf}]*(?:\(|--|\/\*)/iu

/**
 * From here on the connection's database opens no file but these and those of its own spill directory, loads no extension and changes
 * no setting. https://duckdb.org/docs/stable/operations_manual/securing_duckdb/overview
 */
export async function confineToFiles(connection: DuckDBConnection, paths: readonly string[]): Promise<void> {
  // A path is checked as it is written in `read_parquet` and again as it is opened.
  const allowed = [...new Set(paths.flatMap((path) => [path, readablePath(path)]))]
  await connection.run(toDuckDB(sql`set allowed_paths = [${commaList(allowed)}]`))
  await connection.run('set enable_external_access = false')
  await connection.run('set lock_configuration = true')
}

/** Throws when the SQL calls what no confined query may call. For the text before DuckDB sees it. */
export function assertNoRefusedCall(text: string): void {
  const [, name] = REFUSED_CALL.exec(text) ?? []
  if (name !== undefined) throw new Error(`${name.toLowerCase()} is refused`)
}

/** Throws unless the statement is one of those that a confined query may run. */
export function assertConfined({ statementType }: DuckDBPreparedStatement): void {
  if (ALLOWED_STATEMENTS.has(statementType)) return
  throw new Error(`${StatementType[statementType] ?? 'This statement'} is refused`)
}

/** Whether DuckDB refused a statement because of `confineToFiles`. */
export function isConfinementRefusal(message: string): boolean {
  return /^Permission Error: |the configuration has been locked|^\w+ is refused$/.test(message)
}

import { type DuckDBConnection, type DuckDBPreparedStatement, StatementType } from '@duckdb/node-api'
import { commaList, sql } from '../db/sql.ts'
import { readablePath, toDuckDB } from './lake-database.ts'

export const HINT = 'lake query reads the lake and nothing else unless --allow-files is given'

/** COPY and EXPLAIN ANALYZE may write to each readable file, and PREPARE hides the statement that EXECUTE runs. */
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
  // This includes SET VARIABLE. Settings are locked.
  StatementType.SET,
  StatementType.VARIABLE_SET,
])

/** Calls that change locked settings, write files, end the process or run SQL text. A comment may come before `(`. */
const REFUSED_CALL =
  /(?<![\p{L}\p{N}_$])((?:enable|disable)_\w+|(?:force_)?checkpoint|query|json_execute_serialized_sql)"?[\s\p{Z}\p{Cf}]*(?:\(|--|\/\*)/iu

/** https://duckdb.org/docs/stable/operations_manual/securing_duckdb/overview */
export async function confineToFiles(connection: DuckDBConnection, paths: readonly string[]): Promise<void> {
  // DuckDB checks the path as it is written in `read_parquet`, and again when it opens the file.
  const allowed = [...new Set(paths.flatMap((path) => [path, readablePath(path)]))]
  await connection.run(toDuckDB(sql`set allowed_paths = [${commaList(allowed)}]`))
  await connection.run('set enable_external_access = false')
  await connection.run('set lock_configuration = true')
}

/** Runs before DuckDB parses the text. */
export function assertNoRefusedCall(text: string): void {
  const [, name] = REFUSED_CALL.exec(text) ?? []
  if (name !== undefined) throw new Error(`${name.toLowerCase()} is refused`)
}

export function assertConfined({ statementType }: DuckDBPreparedStatement): void {
  if (ALLOWED_STATEMENTS.has(statementType)) return
  throw new Error(`${StatementType[statementType] ?? 'This statement'} is refused`)
}

export function isConfinementRefusal(message: string): boolean {
  return /^Permission Error: |the configuration has been locked|^\w+ is refused$/.test(message)
}

import {
  DuckDBArrayValue,
  type DuckDBConnection,
  type DuckDBExtractedStatements,
  DuckDBListValue,
  DuckDBMapValue,
  type DuckDBResultReader,
  DuckDBStructValue,
  DuckDBTimestampTZValue,
  DuckDBTimestampValue,
  type DuckDBValue,
  ResultReturnType,
} from '@duckdb/node-api'
import { commaList, identifier, noSql, type Sql, sql } from '../db/sql.ts'
import { OperatorError } from '../errors.ts'
import { currenciesWithDigits } from '../money.ts'
import { assertConfined, assertNoRefusedCall, confineToFiles, HINT, isConfinementRefusal } from './confine-query.ts'
import { makeSpillPath, readablePath, toDuckDB, withDuckDB } from './lake-database.ts'
import { LAKE_COLUMNS } from './lake-row.ts'
import type { LakeFile, LakeStore } from './lake-store.ts'
import { nameFiles, readLakeFiles } from './list-files.ts'

/** `rows` hold null, booleans, numbers and text: see `toPrintable`. */
export interface LakeQueryResult {
  columns: string[]
  rows: unknown[][]
}

/** A query that DuckDB refuses, or a lake it cannot read. The message is one line. */
export class LakeQueryError extends OperatorError {
  override readonly name = 'LakeQueryError'
}

/**
 * Runs SQL (`text`, DuckDB's) over two views of the lake: `order_events`, one row per event with the files' columns and
 * `ingest_date`, and `orders`, the newest state of each order. Returns the result of the last statement. With `allowFiles`
 * the SQL may read and write files, attach databases and change DuckDB's settings. Throws LakeQueryError.
 */
export async function queryLake(store: LakeStore, text: string, { allowFiles = false } = {}): Promise<LakeQueryResult> {
  const run = (files: LakeFile[], paths: string[]) =>
    withDuckDB(makeSpillPath(), async (connection) => {
      try {
        await createViews(connection, paths)
        if (!allowFiles) await confineToFiles(connection, paths)
        const reader = await runStatements(connection, text, allowFiles)
        return { columns: reader.columnNames(), rows: reader.getRows().map((row) => row.map(toPrintable)) }
      } catch (error) {
        const reason = toOneLine(error)
        const message = nameFiles(reason, store, files, paths)
        throw new LakeQueryError(isConfinementRefusal(reason) ? `${message}; ${HINT}` : message, { cause: error })
      }
    })
  try {
    return await readLakeFiles(store, run)
  } catch (error) {
    if (error instanceof LakeQueryError) throw error
    throw new LakeQueryError(toOneLine(error), { cause: error })
  }
}

/** Runs each statement and returns the result of the last: `connection.run` returns that of the first. */
async function runStatements(connection: DuckDBConnection, text: string, allowFiles: boolean): Promise<DuckDBResultReader> {
  if (!allowFiles) assertNoRefusedCall(text)
  const statements = await extractStatements(connection, text)
  const prepare = async (index: number) => {
    const statement = await statements.prepare(index)
    if (!allowFiles) assertConfined(statement)
    return statement
  }
  let last = 0
  for (; last < statements.count - 1; last += 1) await (await prepare(last)).run()
  const reader = await (await prepare(last)).runAndReadAll()
  if (!allowFiles && reader.returnType === ResultReturnType.NOTHING)
    throw new Error('The last statement returns no rows: end the query with a select')
  return reader
}

async function extractStatements(connection: DuckDBConnection, text: string): Promise<DuckDBExtractedStatements> {
  try {
    return await connection.extractStatements(text)
  } catch (error) {
    // DuckDB's reason follows this prefix. It is missing when the text contains no statement.
    const [, reason = 'There is no statement in the query'] = String(error).split('Failed to extract statements: ')
    throw new Error(reason, { cause: error })
  }
}

/** Null in rows from before the column was added. */
const EXPONENT: Sql = sql`coalesce(currency_exponent, case
  when currency in (${commaList(currenciesWithDigits(0))}) then 0 when currency in (${commaList(currenciesWithDigits(3))}) then 3 else 2 end)`

async function createViews(connection: DuckDBConnection, files: readonly string[]): Promise<void> {
  const columns = Object.entries({ ...LAKE_COLUMNS, ingest_date: sql`DATE` })
  // The first branch defines columns and types, also for a lake without files or whose files lack a column.
  const none = sql`select ${commaList(columns.map(([name, type]) => sql`null::${type} as ${identifier(name)}`))} where false`
  const some = sql`
    union all by name
    select *
    from read_parquet(
      [${commaList(files.map(readablePath))}],
      union_by_name = true,
      hive_partitioning = true,
      hive_types = { ingest_date: DATE }
    )`
  const rows = sql`${none} ${files.length > 0 ? some : noSql}`
  await connection.run(toDuckDB(sql`create view order_events as select * replace (${EXPONENT} as currency_exponent) from (${rows})`))
  await connection.run(`
    create view orders as
    select
      order_id, order_number, version, status, user_id, currency, currency_exponent, total_amount, client_reference, shipping_country,
      case when status = 'cancelled' then actor_type end as cancelled_by, case when status = 'cancelled' then reason end as cancel_reason,
      item_count, items, created_at, updated_at
    from order_events
    qualify row_number() over (partition by order_id order by version desc) = 1`)
}

/** Integers past 32 bits and decimals as exact text, timestamps as RFC 3339 UTC, lists and structs as JSON text. */
function toPrintable(value: DuckDBValue): null | boolean | number | string {
  if (value === null || typeof value === 'boolean' || typeof value === 'number' || typeof value === 'string') return value
  if (value instanceof DuckDBTimestampTZValue || value instanceof DuckDBTimestampValue) return toRfc3339(value)
  return NESTED.some((type) => value instanceof type) ? toJson(value) : String(value)
}

const NESTED = [DuckDBListValue, DuckDBArrayValue, DuckDBStructValue, DuckDBMapValue]

// JSON.stringify does not support bigint, and an amount must stay a number in the JSON.
function toJson(value: DuckDBValue): string {
  if (value instanceof DuckDBListValue || value instanceof DuckDBArrayValue) return `[${value.items.map(toJson).join(',')}]`
  if (value instanceof DuckDBStructValue) return toJsonObject(Object.entries(value.entries))
  if (value instanceof DuckDBMapValue) return toJsonObject(value.entries.map(({ key, value }) => [String(toPrintable(key)), value]))
  return typeof value === 'bigint' ? String(value) : JSON.stringify(toPrintable(value))
}

function toJsonObject(entries: [string, DuckDBValue][]): string {
  return `{${entries.map(([key, value]) => `${JSON.stringify(key)}:${toJson(value)}`).join(',')}}`
}

function toRfc3339(value: DuckDBTimestampTZValue | DuckDBTimestampValue): string {
  const microseconds = ((value.micros % 1_000n) + 1_000n) % 1_000n
  const date = new Date(Number((value.micros - microseconds) / 1_000n))
  // DuckDB's range is wider than Date's, and has infinities.
  if (!value.isFinite || Number.isNaN(date.getTime())) return String(value)
  return microseconds === 0n ? date.toISOString() : date.toISOString().replace('Z', `${String(microseconds).padStart(3, '0')}Z`)
}

/** DuckDB's message without the excerpt of the statement that follows it. */
function toOneLine(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  const [text = ''] = message.split(/\n\s*LINE \d+:/)
  return text.replace(/\s+/g, ' ').trim()
}

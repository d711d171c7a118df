import { type DuckDBConnection, type DuckDBResult, StatementType } from '@duckdb/node-api'
import { assertLakeSelect, NO_SELECT } from './assert-lake-select.ts'
import { confineToFiles } from './confine-query.ts'
import { withDuckDB } from './lake-database.ts'
import { extractStatements } from './lake-query.ts'
import type { LakeFile, LakeStore } from './lake-store.ts'
import { createAllViews, reasonOf } from './lake-views.ts'
import { type LakePaths, readAllFiles } from './list-files.ts'
import type { LakePlace } from './open-lake-store.ts'
import { assertPrintable, toOneLine, toPrintable } from './printable-values.ts'

export interface QueryBounds {
  maxRows: number
  /** Largest size of the rows as JSON. */
  maxBytes: number
  /** Memory limit of DuckDB's buffers, such as `512MB`; the process has its own limit. */
  memory: string
  /** Size limit of the files in `spillDirectory`. */
  spill: string
  spillDirectory: string
}

export interface BoundedResult {
  columns: { name: string; type: string }[]
  /** Each row as JSON. */
  rows: string[]
  isTruncated: boolean
}

/** The SQL cannot be answered. The message is one line, without paths of this machine. */
export class QueryRefused extends Error {}

/** Runs one SELECT over the lake's views, which reads nothing else. Throws QueryRefused, or what the store throws. */
export function queryWithin(store: LakeStore, text: string, bounds: QueryBounds): Promise<BoundedResult> {
  const settings = { threads: '1', memory_limit: bounds.memory, max_temp_directory_size: bounds.spill }
  const run = (files: LakeFile[], { orders, catalogue }: LakePaths) => {
    const paths = [...orders, ...catalogue]
    const query = async (connection: DuckDBConnection) => {
      const broken = await createAllViews(connection, { orders, catalogue })
      try {
        await confineToFiles(connection, paths)
        return await readRows(await runSelect(connection, text), bounds)
      } catch (error) {
        throw reasonOf(error, broken)
      }
    }
    return withDuckDB(bounds.spillDirectory, query, settings).catch((error) => {
      throw new QueryRefused(hidePaths(toOneLine(error), store, files, paths, bounds), { cause: error })
    })
  }
  return readAllFiles(store, run)
}

async function runSelect(connection: DuckDBConnection, text: string): Promise<DuckDBResult> {
  // First: DuckDB's own preparation of other statements already reads files.
  await assertLakeSelect(connection, text)
  const statements = await extractStatements(connection, text)
  const statement = await statements.prepare(0)
  if (statements.count !== 1 || statement.statementType !== StatementType.SELECT) throw new Error(NO_SELECT)
  if (statement.parameterCount > 0) throw new Error('A query has no parameters')
  return statement.stream()
}

async function readRows(result: DuckDBResult, { maxRows, maxBytes }: QueryBounds): Promise<BoundedResult> {
  const types = result.columnTypes()
  const names = result.columnNames()
  assertPrintable(names, types)
  const columns = names.map((name, index) => ({ name, type: String(types[index]) }))
  const rows: string[] = []
  let bytes = 0
  for await (const chunk of result) {
    for (let index = 0; index < chunk.rowCount; index++) {
      if (rows.length === maxRows) return { columns, rows, isTruncated: true }
      const row = JSON.stringify(chunk.getRowValues(index).map(toPrintable))
      bytes += Buffer.byteLength(row) + 1
      if (bytes > maxBytes && rows.length === 0) throw new Error(`A row is larger than ${maxBytes} bytes`)
      if (bytes > maxBytes) return { columns, rows, isTruncated: true }
      rows.push(row)
    }
  }
  return { columns, rows, isTruncated: false }
}

/** A file by its name in the lake, and DuckDB's temporary folder not at all. */
function hidePaths(
  message: string,
  store: LakeStore,
  files: readonly LakeFile[],
  paths: readonly string[],
  { spillDirectory }: QueryBounds,
) {
  const names = files.map(({ name }) => name)
  const named = names.reduce(
    (text, name, index) => text.replaceAll(paths[index] ?? name, name).replaceAll(store.locate(name), name),
    message,
  )
  // DuckDB's advice is about settings that a query cannot change.
  const hidden = named.replaceAll(spillDirectory, 'the temporary folder').replace(/\s*Possible solutions: .*$/, '')
  return names.some((name) => hidden.includes(name)) ? `${hidden}; \`storefront verify\` checks the files of the lake` : hidden
}

/** What the process of a query reads from its standard input, as one line of JSON. */
export interface QueryRequest {
  place: LakePlace
  text: string
  bounds: QueryBounds
}

/** Its exit status with a reason on standard output, which the operator may see. Others have theirs on standard error. */
export const EXIT_REFUSED = 3

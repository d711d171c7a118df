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
  maxBytes: number
  /** The memory limit for DuckDB's buffers, such as `512MB`. The process has a limit of its own. */
  memory: string
  spill: string
  spillDirectory: string
}

export interface BoundedResult {
  columns: { name: string; type: string }[]
  rows: string[]
  isTruncated: boolean
}

export class QueryRefused extends Error {}

/** Runs a query within the bounds. Throws QueryRefused, or an error of the store. */
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
  // This check is first: DuckDB reads files even when it prepares other statements.
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

/** Replaces paths by the names of files in the lake, and hides DuckDB's temporary folder. */
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
  const hidden = named.replaceAll(spillDirectory, 'the temporary folder').replace(/\s*Possible solutions: .*$/, '')
  return names.some((name) => hidden.includes(name)) ? `${hidden}; \`storefront verify\` checks the files of the lake` : hidden
}

/** The input of the query process: one line of JSON on standard input. */
export interface QueryRequest {
  place: LakePlace
  text: string
  bounds: QueryBounds
}

/** The exit status which says that standard output has a reason that the operator may see. */
export const EXIT_REFUSED = 3

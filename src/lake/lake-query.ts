import { type DuckDBConnection, type DuckDBExtractedStatements, type DuckDBResultReader, ResultReturnType } from '@duckdb/node-api'
import { OperatorError } from '../errors.ts'
import { assertConfined, assertNoRefusedCall, confineToFiles, HINT, isConfinementRefusal } from './confine-query.ts'
import { REMEDY } from './find-damage.ts'
import { makeSpillPath, withDuckDB } from './lake-database.ts'
import type { LakeFile, LakeStore } from './lake-store.ts'
import { createAllViews, reasonOf } from './lake-views.ts'
import { type LakePaths, nameFiles, readAllFiles } from './list-files.ts'
import { assertPrintable, toOneLine, toPrintable } from './printable-values.ts'

/** One damaged file fails each query of its views, because they read the columns of all files. */
const DAMAGED = `\`storefront verify\` checks the files of the lake; if one is damaged, ${REMEDY}`

/** The values in `rows` are null, booleans, numbers and texts: see `toPrintable`. */
export interface LakeQueryResult {
  columns: string[]
  rows: unknown[][]
}

export class LakeQueryError extends OperatorError {
  override readonly name = 'LakeQueryError'
}

/** The last statement's result. `allowFiles` permits files, attached databases and settings. Throws LakeQueryError. */
export async function queryLake(store: LakeStore, text: string, { allowFiles = false } = {}): Promise<LakeQueryResult> {
  const run = (files: LakeFile[], { orders, catalogue }: LakePaths) => {
    const paths = [...orders, ...catalogue]
    return withDuckDB(makeSpillPath(), async (connection) => {
      const broken = await createAllViews(connection, { orders, catalogue })
      try {
        if (!allowFiles) await confineToFiles(connection, paths)
        const reader = await runStatements(connection, text, allowFiles)
        const columns = reader.columnNames()
        assertPrintable(columns, reader.columnTypes())
        return { columns, rows: reader.getRows().map((row) => row.map(toPrintable)) }
      } catch (error) {
        const reason = toOneLine(reasonOf(error, broken))
        const message = nameFiles(reason, store, files, paths)
        const advice = isConfinementRefusal(reason) ? HINT : files.some(({ name }) => message.includes(name)) ? DAMAGED : null
        throw new LakeQueryError(advice === null ? message : `${message}; ${advice}`, { cause: error })
      }
    })
  }
  try {
    return await readAllFiles(store, run)
  } catch (error) {
    if (error instanceof LakeQueryError) throw error
    throw new LakeQueryError(toOneLine(error), { cause: error })
  }
}

/** Runs the statements one by one and returns the last result, because `connection.run` returns the first one. */
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

export async function extractStatements(connection: DuckDBConnection, text: string): Promise<DuckDBExtractedStatements> {
  try {
    return await connection.extractStatements(text)
  } catch (error) {
    // The reason of DuckDB follows this prefix. It is missing if the text contains no statement.
    const [, reason = 'There is no statement in the query'] = String(error).split('Failed to extract statements: ')
    throw new Error(reason, { cause: error })
  }
}

import { readFileSync } from 'node:fs'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { type Cleanup, onCleanup } from './cleanup.ts'

const PLAIN_FILES = readFileSync(new URL('../examples/analytics/plain-files.sql', import.meta.url), 'utf8')

/** The lake in a folder as DuckDB has its plain files, in the schema `storefront`. */
export async function openPlainFiles(t: Cleanup, directory: string): Promise<DuckDBConnection> {
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  onCleanup(t, () => {
    connection.closeSync()
    instance.closeSync()
  })
  // The folder's name may have characters that are special in SQL and in file patterns.
  const pattern = directory.replaceAll(/[*?[]/g, '[$&]').replaceAll("'", "''")
  await connection.run(`set variable lake = '${pattern}'`)
  await connection.run(PLAIN_FILES)
  return connection
}

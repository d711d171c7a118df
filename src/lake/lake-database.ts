import { randomUUID } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { commaList, type Sql, sql } from '../db/sql.ts'
import { every } from '../loop.ts'

const INTERRUPT_MS = 50

/**
 * Runs `work` in a separate DuckDB in memory, without network access. DuckDB creates `spillDirectory` when it needs it.
 * `signal` ends the query in flight.
 */
export async function withDuckDB<T>(
  spillDirectory: string,
  work: (connection: DuckDBConnection) => Promise<T>,
  settings: Readonly<Record<string, string>> = {},
  signal?: AbortSignal,
): Promise<T> {
  const instance = await createDuckDB({ temp_directory: spillDirectory, ...settings })
  try {
    return await withConnection(instance, async (connection) => {
      let end = () => {}
      // A query that begins later is ended, too.
      const interrupt = () => {
        end = every(INTERRUPT_MS, () => connection.interrupt())
      }
      signal?.throwIfAborted()
      signal?.addEventListener('abort', interrupt)
      return await work(connection).finally(() => {
        signal?.removeEventListener('abort', interrupt)
        end()
      })
    })
  } finally {
    instance.closeSync()
  }
}

/** A DuckDB in memory, without network access. It takes 0.1 s of a processor. */
export async function createDuckDB(settings: Readonly<Record<string, string>>): Promise<DuckDBInstance> {
  // Loaded at its first use: it takes longer than anything else that a start does not need.
  const { DuckDBInstance } = await import('@duckdb/node-api')
  return DuckDBInstance.create(':memory:', {
    threads: '2',
    memory_limit: '512MB',
    // Parquet, JSON and ICU are built in; any other extension would be downloaded.
    autoinstall_known_extensions: 'false',
    autoload_known_extensions: 'false',
    ...settings,
  })
}

export async function withConnection<T>(instance: DuckDBInstance, work: (connection: DuckDBConnection) => Promise<T>): Promise<T> {
  const connection = await instance.connect()
  try {
    await connection.run(`set TimeZone = 'UTC'`)
    return await work(connection)
  } finally {
    connection.closeSync()
  }
}

/** Whether DuckDB failed for a reason that says nothing about the file. */
export function isFaultOfMachine(error: unknown): boolean {
  return /out of memory|no space left|too many open files/i.test(String(error))
}

/** For `catch`: `fallback` for a file that DuckDB cannot read, unless the fault is the machine's. */
export function ifDamaged<T>(fallback: T): (error: unknown) => T {
  return (error) => {
    if (isFaultOfMachine(error)) throw error
    return fallback
  }
}

/** For `withDuckDB`, where the caller has no folder for temporary files. */
export function makeSpillPath(): string {
  return join(tmpdir(), `storefront-lake-${randomUUID()}`)
}

/**
 * A statement as DuckDB's text, its values as escaped literals: COPY, options and views take no parameters. Whole
 * numbers and texts only. https://duckdb.org/docs/stable/sql/data_types/literal_types
 */
export function toDuckDB({ strings, values }: Sql): string {
  return strings.reduce((text, part, index) => text + toLiteral(values[index - 1]) + part)
}

function toLiteral(value: unknown): string {
  if (typeof value === 'string' && !value.includes('\0')) return `'${value.replaceAll("'", "''")}'`
  if (Number.isSafeInteger(value)) return String(value)
  throw new RangeError(`${typeof value} is no literal for DuckDB`)
}

/** A path for DuckDB, which reads `*`, `?` and `[` in a folder's name as a pattern. */
export function readablePath(path: string): string {
  return path.replace(/[*?[]/g, '[$&]')
}

/** The rows of some files of the lake, at least one. */
export function parquetRows(paths: readonly string[]): Sql {
  return sql`read_parquet([${commaList(paths.map(readablePath))}], union_by_name = true, hive_partitioning = false)`
}

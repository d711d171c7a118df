import { randomUUID } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { commaList, type Sql, sql } from '../db/sql.ts'
import { every } from '../loop.ts'

const INTERRUPT_MS = 50

/** A separate DuckDB in memory, without network access. `signal` ends the query in flight. */
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
      // A query that begins after the abort is ended, too.
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

export async function createDuckDB(settings: Readonly<Record<string, string>>): Promise<DuckDBInstance> {
  // Imported at the first use, because it takes longer than the rest of a start.
  const { DuckDBInstance } = await import('@duckdb/node-api')
  return DuckDBInstance.create(':memory:', {
    threads: '2',
    memory_limit: '512MB',
    // Parquet, JSON and ICU are built in. Any other extension would be downloaded.
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

/** Whether the reason of the failure is independent of the file. */
export function isFaultOfMachine(error: unknown): boolean {
  return /out of memory|no space left|too many open files/i.test(String(error))
}

/** A handler for `catch`. It returns `fallback` for an unreadable file, and rethrows faults of the machine. */
export function ifDamaged<T>(fallback: T): (error: unknown) => T {
  return (error) => {
    if (isFaultOfMachine(error)) throw error
    return fallback
  }
}

export function makeSpillPath(): string {
  return join(tmpdir(), `storefront-lake-${randomUUID()}`)
}

/** COPY, options and views take no parameters, so values become escaped literals: whole numbers and texts only. */
export function toDuckDB({ strings, values }: Sql): string {
  return strings.reduce((text, part, index) => text + toLiteral(values[index - 1]) + part)
}

function toLiteral(value: unknown): string {
  if (typeof value === 'string' && !value.includes('\0')) return `'${value.replaceAll("'", "''")}'`
  if (Number.isSafeInteger(value)) return String(value)
  throw new RangeError(`${typeof value} is no literal for DuckDB`)
}

/** DuckDB reads `*`, `?` and `[` in a folder's name as a pattern. */
export function readablePath(path: string): string {
  return path.replace(/[*?[]/g, '[$&]')
}

export function parquetRows(paths: readonly string[]): Sql {
  return sql`read_parquet([${commaList(paths.map(readablePath))}], union_by_name = true, hive_partitioning = false)`
}

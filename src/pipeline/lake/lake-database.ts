import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'

/** Runs `work` in a DuckDB of its own, in memory, that never reaches for the network. `spillDirectory` is made when needed. */
export async function withDuckDB<T>(spillDirectory: string, work: (connection: DuckDBConnection) => Promise<T>): Promise<T> {
  const instance = await DuckDBInstance.create(':memory:', {
    threads: '2',
    memory_limit: '512MB',
    temp_directory: spillDirectory,
    // Parquet, JSON and ICU are linked in; anything else would be a download.
    autoinstall_known_extensions: 'false',
    autoload_known_extensions: 'false',
  })
  try {
    const connection = await instance.connect()
    try {
      await connection.run(`set TimeZone = 'UTC'`)
      return await work(connection)
    } finally {
      connection.closeSync()
    }
  } finally {
    instance.closeSync()
  }
}

export function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}

/** A path where DuckDB reads: it would take `*`, `?` and `[` of a folder's name for a pattern. */
export function quoteReadPath(path: string): string {
  return quoteText(path.replace(/[*?[]/g, '[$&]'))
}

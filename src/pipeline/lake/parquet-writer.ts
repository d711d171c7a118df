import { open } from 'node:fs/promises'
import { commaList, identifier, sql } from '../../db/sql.ts'
import { readablePath, toDuckDB, withDuckDB } from './lake-database.ts'
import { LAKE_COLUMNS, LAKE_SCHEMA_VERSION } from './lake-row.ts'

const DEFAULT_MAXIMUM_OBJECT_BYTES = 16 * 1024 * 1024
const CHUNK_BYTES = 256 * 1024
const NEWLINE = 0x0a
const UTF8_BYTES_PER_CHARACTER = 3

/**
 * Writes rows, each a line of JSON, as one Parquet file, synced to disk, with the name that it will have in its metadata. Uses
 * `<path>.ndjson` and `<path>.spill` on the way. Throws when the file would not hold exactly these rows.
 */
export async function writeParquet(path: string, lines: readonly string[], name: string): Promise<void> {
  // Reading a file is about six times as fast here as binding the same JSON as a parameter.
  const spool = `${path}.ndjson`
  const longest = await writeLines(spool, lines)
  const columns = Object.entries(LAKE_COLUMNS)
  await withDuckDB(`${path}.spill`, async (connection) => {
    const written = await connection.run(
      toDuckDB(sql`
      copy (
        select ${commaList(columns.map(([name]) => identifier(name)))}
        from read_json(
          ${readablePath(spool)},
          format = 'newline_delimited',
          compression = 'uncompressed',
          auto_detect = false,
          hive_partitioning = false,
          maximum_object_size = ${Math.max(DEFAULT_MAXIMUM_OBJECT_BYTES, longest + 1)},
          columns = { ${commaList(columns.map(([name, type]) => sql`${identifier(name)}: ${type.text}`))} }
        )
      )
      to ${path} (
        format parquet,
        compression zstd,
        use_tmp_file false,
        kv_metadata { schema_version: ${String(LAKE_SCHEMA_VERSION)}, name: ${name} }
      )`),
    )
    if (written.rowsChanged !== lines.length) {
      throw new Error(`a lake file got ${written.rowsChanged} rows of ${lines.length}`)
    }
  })
  await syncFile(path)
}

/** The name that a file was written to have. */
export async function readParquetName(path: string): Promise<string> {
  return withDuckDB(`${path}.spill`, async (connection) => {
    const reader = await connection.runAndReadAll(
      toDuckDB(sql`select decode(value) from parquet_kv_metadata(${readablePath(path)}) where decode(key) = 'name'`),
    )
    return String(reader.getRows()[0]?.[0])
  })
}

/** Returns the length of the longest line in bytes. */
async function writeLines(path: string, lines: readonly string[]): Promise<number> {
  const file = await open(path, 'w')
  let longest = 0
  try {
    // One piece of memory for all: a large text that grows is copied twice on its way into a file.
    let chunk = Buffer.allocUnsafeSlow(CHUNK_BYTES)
    let filled = 0
    for (const line of lines) {
      const most = line.length * UTF8_BYTES_PER_CHARACTER + 1
      if (filled + most > chunk.length) {
        await file.writeFile(chunk.subarray(0, filled))
        filled = 0
        if (most > chunk.length) chunk = Buffer.allocUnsafeSlow(most)
      }
      const written = chunk.write(line, filled)
      longest = Math.max(longest, written)
      filled += written
      chunk[filled++] = NEWLINE
    }
    await file.writeFile(chunk.subarray(0, filled))
  } finally {
    await file.close()
  }
  return longest
}

export async function syncFile(path: string): Promise<void> {
  const file = await open(path, 'r+')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

import { open } from 'node:fs/promises'
import { commaList, identifier, type Sql, sql } from '../db/sql.ts'
import { readablePath } from './lake-database.ts'

/** DuckDB's buffer is twice the longest line. Its default of 16 MiB is most of the memory of a comparison. */
const MIN_OBJECT_BYTES = 1024 * 1024
const CHUNK_BYTES = 256 * 1024
const NEWLINE = 0x0a
const UTF8_BYTES_PER_CHARACTER = 3

export interface JsonLines {
  path: string
  longestBytes: number
}

export function jsonRows({ path, longestBytes }: JsonLines, columns: Readonly<Record<string, Sql>>): Sql {
  return sql`read_json(
    ${readablePath(path)},
    format = 'newline_delimited',
    compression = 'uncompressed',
    auto_detect = false,
    hive_partitioning = false,
    maximum_object_size = ${Math.max(MIN_OBJECT_BYTES, longestBytes + 1)},
    columns = { ${commaList(Object.entries(columns).map(([name, type]) => sql`${identifier(name)}: ${type.text}`))} }
  )`
}

export async function writeJsonLines(path: string, lines: readonly string[]): Promise<JsonLines> {
  await using file = await open(path, 'w')
  let longestBytes = 0
  // One buffer for all lines, because a growing string is copied twice before it is in a file.
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
    longestBytes = Math.max(longestBytes, written)
    filled += written
    chunk[filled++] = NEWLINE
  }
  await file.writeFile(chunk.subarray(0, filled))
  return { path, longestBytes }
}

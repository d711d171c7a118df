import { randomUUID } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from '../db/sql.ts'
import { checkChecksum, WRONG_CHECKSUM } from './lake-checksum.ts'
import { parquetRows, toDuckDB, withDuckDB } from './lake-database.ts'
import { readParquetName } from './parquet-writer.ts'

/** Why a file is not the one that was written under this name; null for a sound one. Reads all of it. */
export async function findDamage(path: string, name: string): Promise<string | null> {
  const checksum = await checkChecksum(path)
  if (checksum === 'wrong') return WRONG_CHECKSUM
  try {
    const misnamed = await findOtherName(path, name)
    // In a file without a checksum only reading every value shows whether it can be read.
    if (misnamed === null && checksum === 'none') await countRows(path)
    return misnamed
  } catch (error) {
    return `it cannot be read: ${(error as Error).message.split('\n')[0]?.replaceAll(path, 'the file')}`
  }
}

/** Says so when a file's metadata has another name than this one: it was copied or renamed by hand. Throws when it cannot be read. */
export async function findOtherName(path: string, name: string): Promise<string | null> {
  const written = await readParquetName(path)
  return written === null || written === name ? null : `it was written as ${written}`
}

async function countRows(path: string): Promise<void> {
  await withDuckDB(join(tmpdir(), `storefront-lake-${randomUUID()}`), async (connection) => {
    await connection.runAndReadAll(toDuckDB(sql`select count(*), sum(hash(row)) from ${parquetRows([path])} as row`))
  })
}

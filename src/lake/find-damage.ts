import { sql } from '../db/sql.ts'
import { checkChecksum, WRONG_CHECKSUM } from './lake-checksum.ts'
import { isFaultOfMachine, parquetRows } from './lake-database.ts'
import type { DatasetName } from './lake-names.ts'
import { readParquetName } from './parquet-writer.ts'
import { queryDuckDB } from './query-duckdb.ts'

/** How a file is damaged, or that it was written under another name; null for an intact one. Reads all of it. */
export async function findDamage(path: string, name: string): Promise<string | null> {
  const checksum = await checkChecksum(path)
  if (checksum === 'wrong') return WRONG_CHECKSUM
  try {
    const misnamed = await findOtherName(path, name)
    // Without a checksum only reading every value shows damage.
    if (misnamed === null && checksum === 'none') await queryDuckDB(sql`select sum(hash(row)) from ${parquetRows([path])} as row`)
    return misnamed
  } catch (error) {
    if (isFaultOfMachine(error)) throw error
    return `it cannot be read: ${(error as Error).message.split('\n')[0]?.replaceAll(path, 'the file')}`
  }
}

/** How to repair a damaged file: `lake repair` writes those of orders again, from the topic or from orders. */
export function remedyFor(dataset: DatasetName): string {
  return dataset === 'orders' ? 'run storefront lake repair' : 'take it from a backup of the lake'
}

/** Not null when a file's metadata has another name: it was copied or renamed by hand. Throws when it cannot be read. */
export async function findOtherName(path: string, name: string): Promise<string | null> {
  const written = await readParquetName(path)
  return written === null || written === name ? null : `it was written as ${written}`
}

import { sql } from '../db/sql.ts'
import { checkChecksum, WRONG_CHECKSUM } from './lake-checksum.ts'
import { isFaultOfMachine, parquetRows } from './lake-database.ts'
import { readParquetName } from './parquet-writer.ts'
import { queryDuckDB } from './query-duckdb.ts'

/** How a file is damaged, or that it was written under another name; null for an intact one. Reads all of it. */
export async function findDamage(path: string, name: string): Promise<string | null> {
  return (await findDamagedBytes(path)) ?? (await explained(path, () => findOtherName(path, name)))
}

/** How a file of rows is damaged, whatever its name; null for an intact one. Reads all of it. */
export async function findDamagedBytes(path: string): Promise<string | null> {
  const checksum = await checkChecksum(path)
  if (checksum !== 'none') return checksum === 'wrong' ? WRONG_CHECKSUM : null
  // A file without a checksum shows damage when every value is read.
  return explained(path, async () => {
    await queryDuckDB(sql`select sum(hash(row)) from ${parquetRows([path])} as row`)
    return null
  })
}

async function explained(path: string, find: () => Promise<string | null>): Promise<string | null> {
  try {
    return await find()
  } catch (error) {
    if (isFaultOfMachine(error)) throw error
    return `it cannot be read: ${(error as Error).message.split('\n')[0]?.replaceAll(path, 'the file')}`
  }
}

/** What to do about a damaged file. */
export const REMEDY = 'run storefront lake repair'

/**
 * Returns a reason when the metadata of a file has another name: it was copied or renamed by hand. Throws when it
 * cannot be read.
 */
export async function findOtherName(path: string, name: string): Promise<string | null> {
  const written = await readParquetName(path)
  return written === null || written === name ? null : `it was written as ${written}`
}

import { sql } from '../db/sql.ts'
import { checkChecksum, WRONG_CHECKSUM } from './lake-checksum.ts'
import { isFaultOfMachine, parquetRows } from './lake-database.ts'
import { queryDuckDB } from './query-duckdb.ts'

export async function findDamagedBytes(path: string): Promise<string | null> {
  const checksum = await checkChecksum(path)
  if (checksum !== 'none') return checksum === 'wrong' ? WRONG_CHECKSUM : null
  try {
    // In a file without a checksum, damage appears only when every value is read.
    await queryDuckDB(sql`select sum(hash(row)) from ${parquetRows([path])} as row`)
    return null
  } catch (error) {
    if (isFaultOfMachine(error)) throw error
    return `it cannot be read: ${(error as Error).message.split('\n')[0]?.replaceAll(path, 'the file')}`
  }
}

export const REMEDY = 'run storefront lake repair'

import { open } from 'node:fs/promises'
import { sql } from '../db/sql.ts'
import { findOtherName } from './find-damage.ts'
import { isFaultOfMachine, parquetRows } from './lake-database.ts'
import { type DatasetName, parseName } from './lake-names.ts'
import { type LakeFile, type LakeStore, repeatWhenGone } from './lake-store.ts'
import { listLake } from './list-files.ts'
import { queryDuckDB } from './query-duckdb.ts'

const MAX_ATTEMPTS = 10

/**
 * The greatest sequence in the files of a dataset, 0 for none; of those whose name is greater than `after`. `known`: the end
 * when it was last found, up to which nothing is read again. Readers and writers of the lake have to agree on its end,
 * so all of them ask here (decision 0176).
 */
export async function findLakeEnd(
  store: LakeStore,
  dataset: DatasetName = 'orders',
  { after, known = 0 }: { after?: string; known?: number } = {},
): Promise<number> {
  return repeatWhenGone(MAX_ATTEMPTS, async () => findEndOf(store, await listLake(store, dataset, after), known))
}

/** The end of listed files, also superseded ones: the file that supersedes them may be an orphan. Throws LakeFileGone. */
export async function findEndOf(store: LakeStore, files: readonly LakeFile[], known = 0): Promise<number> {
  for (const file of files.toSorted((a, b) => lastOf(b) - lastOf(a))) {
    if (lastOf(file) <= known) return lastOf(file)
    if (await store.withCopies([file], ([path = '']) => hasRowsOfItsName(path, file.name))) return lastOf(file)
  }
  return 0
}

/** The last sequence in a file's name. An orphan file can have any: see `findLakeEnd`. */
export function lastOf({ name }: LakeFile): number {
  return parseName(name)?.last ?? 0
}

/** Whether its rows can be read, are in the range of its name and were written under it. Throws when it cannot know. */
async function hasRowsOfItsName(path: string, name: string): Promise<boolean> {
  const { first = 0, last = 0 } = parseName(name) ?? {}
  if (!(await hasMagic(path))) return false
  try {
    if ((await findOtherName(path, name)) !== null) return false
    const rows = await queryDuckDB(sql`select min(sequence) >= ${first} and max(sequence) <= ${last} from ${parquetRows([path])}`)
    return rows[0]?.[0] === true
  } catch (error) {
    if (isFaultOfMachine(error)) throw error
    return false
  }
}

const MAGIC = 'PAR1'

/** Whether it has both ends of a Parquet file. */
export async function hasMagic(path: string): Promise<boolean> {
  await using file = await open(path, 'r')
  const { size } = await file.stat()
  const read = async (position: number) =>
    (await file.read(Buffer.alloc(MAGIC.length), 0, MAGIC.length, Math.max(position, 0))).buffer.toString('latin1')
  return (await read(0)) === MAGIC && (await read(size - MAGIC.length)) === MAGIC
}

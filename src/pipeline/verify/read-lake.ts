import { sql } from '../../db/sql.ts'
import { readablePath } from '../lake/lake-database.ts'
import { parseName, splitSuperseded } from '../lake/lake-names.ts'
import { type LakeFile, LakeFileGone, type LakeStore } from '../lake/lake-store.ts'
import { listLake } from '../lake/list-files.ts'
import { FACTS_IN_LAKE } from './facts.ts'
import type { Ledger } from './ledger.ts'

const MAX_ATTEMPTS = 5

export interface CorruptFile {
  name: string
  /** A path, or an address in the object store. */
  path: string
  reason: string
}

export interface LakeContents {
  files: number
  /** The greatest sequence that a file's name promises: the sink's position. */
  lastSequence: number
  corrupt: CorruptFile[]
}

/**
 * Reads every column of every row of the files that count, as the store has them now, and puts what it finds into the ledger. Files
 * that cannot be read, or hold what their name does not say, are listed. Begins again when files were replaced meanwhile.
 */
export async function readLake(store: LakeStore, ledger: Ledger): Promise<LakeContents> {
  for (let attempt = 1; ; attempt++) {
    const files = splitSuperseded(await listLake(store)).current
    try {
      const corrupt = await readFiles(store, files, ledger)
      const now = new Set((await listLake(store)).map(({ name }) => name))
      if (files.every(({ name }) => now.has(name))) {
        const lastSequence = files.reduce((newest, { name }) => Math.max(newest, parseName(name)?.last ?? 0), 0)
        return { files: files.length, lastSequence, corrupt }
      }
    } catch (error) {
      if (!(error instanceof LakeFileGone)) throw error
    }
    if (attempt === MAX_ATTEMPTS) throw new Error('the files of the lake keep changing')
    await ledger.run(sql`truncate lake_events`)
  }
}

async function readFiles(store: LakeStore, files: readonly LakeFile[], ledger: Ledger): Promise<CorruptFile[]> {
  const corrupt: CorruptFile[] = []
  for (const file of files) {
    const path = store.locate(file.name)
    const read = async ([copy = '']: string[]) => (await readFile(copy, file.name, ledger))?.replaceAll(copy, path) ?? null
    const reason = await store.withCopies([file], read, { isFresh: true })
    if (reason !== null) corrupt.push({ name: file.name, path, reason })
  }
  return corrupt
}

/** Why the file is corrupt, null when it is not. Its checksum makes DuckDB decode the columns that are not compared, too. */
async function readFile(path: string, name: string, ledger: Ledger): Promise<string | null> {
  try {
    await ledger.run(sql`
      create or replace temp table file_events as
      select event_id, ${FACTS_IN_LAKE} as facts, sequence, hash(file) as checksum
      from read_parquet(${readablePath(path)}, hive_partitioning = false) as file`)
  } catch (error) {
    const [reason = ''] = (error instanceof Error ? error.message : String(error)).split('\n')
    // A machine without memory or space for the comparison says nothing about the file.
    if (/out of memory|no space left|too many open files/i.test(reason)) throw error
    return reason
  }
  await ledger.run(sql`insert into lake_events select * from file_events`)
  const { first = 0, last = 0 } = parseName(name) ?? {}
  const strays = await ledger.count(sql`from file_events where sequence is null or sequence not between ${first} and ${last}`)
  return strays === 0 ? null : `${strays} of its rows are not in the range of its name`
}

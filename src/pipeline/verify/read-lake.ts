import { basename } from 'node:path'
import { quoteReadPath } from '../lake/lake-database.ts'
import { listDataFiles } from '../lake/lake-files.ts'
import { FACTS_IN_LAKE } from './facts.ts'
import type { Ledger } from './ledger.ts'

const FILE_NAME = /^(\d{16})-(\d{16})\.parquet$/
const MAX_ATTEMPTS = 5

export interface CorruptFile {
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
 * Reads every column of every row of the lake's files, and puts what it finds into the ledger. Files that cannot be read, or hold
 * what their name does not say, are listed. Begins again when files were replaced meanwhile.
 */
export async function readLake(directory: string, ledger: Ledger): Promise<LakeContents> {
  for (let attempt = 1; ; attempt++) {
    const files = (await listDataFiles(directory)).sort()
    const corrupt = await readFiles(files, ledger)
    const now = new Set(await listDataFiles(directory))
    if (files.every((file) => now.has(file)) || attempt === MAX_ATTEMPTS) {
      return { files: files.length, lastSequence: Math.max(0, ...files.map((file) => rangeOf(file).last)), corrupt }
    }
    await ledger.run('truncate lake_events')
  }
}

async function readFiles(files: readonly string[], ledger: Ledger): Promise<CorruptFile[]> {
  const corrupt: CorruptFile[] = []
  for (const path of files) {
    const reason = await readFile(path, ledger)
    if (reason !== null) corrupt.push({ path, reason })
  }
  return corrupt
}

/** Why the file is corrupt, null when it is not. Its checksum makes DuckDB decode the columns that are not compared, too. */
async function readFile(path: string, ledger: Ledger): Promise<string | null> {
  try {
    await ledger.run(`
      create or replace temp table file_events as
      select event_id, ${FACTS_IN_LAKE} as facts, sequence, hash(file) as checksum
      from read_parquet(${quoteReadPath(path)}, hive_partitioning = false) as file`)
  } catch (error) {
    const [reason = ''] = (error instanceof Error ? error.message : String(error)).split('\n')
    // A machine without memory or space for the comparison says nothing about the file.
    if (/out of memory|no space left|too many open files/i.test(reason)) throw error
    return reason
  }
  await ledger.run('insert into lake_events select * from file_events')
  const { first, last } = rangeOf(path)
  const strays = await ledger.count(`from file_events where sequence is null or sequence not between ${first} and ${last}`)
  return strays === 0 ? null : `${strays} of its rows are not in the range of its name`
}

function rangeOf(path: string): { first: number; last: number } {
  const [, first = '0', last = '0'] = FILE_NAME.exec(basename(path)) ?? []
  return { first: Number(first), last: Number(last) }
}

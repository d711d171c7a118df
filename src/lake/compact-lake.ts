import { join } from 'node:path'
import { sql } from '../db/sql.ts'
import { deleteSuperseded } from './delete-superseded.ts'
import { REMEDY } from './find-damage.ts'
import { checkChecksum, WRONG_CHECKSUM } from './lake-checksum.ts'
import { parquetRows, withDuckDB } from './lake-database.ts'
import { DATASET_NAMES, type DatasetName, type FileRange, nameOf, parseName, splitSuperseded } from './lake-names.ts'
import { type LakeFile, LakeFileGone, type LakeStore, repeatWhenGone } from './lake-store.ts'
import { listLake, nameFiles } from './list-files.ts'
import { copyToParquet } from './parquet-writer.ts'
import { selectRows } from './query-duckdb.ts'

export interface CompactOptions {
  store: LakeStore
  /** Whether a day (UTC, `YYYY-MM-DD`) is merged. */
  isWanted: (ingestDate: string) => boolean
  /** Throws when another process may hold the lock now. */
  assertAlone: () => Promise<void>
  /** Called before superseded files of a day are deleted. When it throws, they stay. */
  beforeDelete?: () => Promise<void>
  /** Called for each merged file after it has superseded the others. */
  onMerged?: (merged: { name: string; files: number; rows: number }) => void
}

export interface CompactReport {
  merged: number
  /** The number of deleted files, including those that an earlier run had left. */
  deleted: number
  /** Days that stay unchanged, with the reason. */
  failures: string[]
}

type Sized = LakeFile & FileRange
type DayOptions = Omit<CompactOptions, 'isWanted'> & { dataset: DatasetName }

const MAX_FILE_BYTES = 128 * 1024 * 1024
const MAX_ATTEMPTS = 3

/**
 * Merges the small files of each day, those of orders and those of the catalogue. The range of a merged file covers the ranges of its sources, and its level is
 * higher: from the moment it is visible, readers skip the sources, which are then deleted. See decision 0052.
 */
export async function compactLake({ isWanted, ...options }: CompactOptions): Promise<CompactReport> {
  const report: CompactReport = { merged: 0, deleted: 0, failures: [] }
  for (const dataset of DATASET_NAMES) {
    const days = new Set((await listLake(options.store, dataset)).map(({ name }) => parseName(name)?.ingestDate ?? ''))
    for (const day of [...days].filter((day) => day !== '' && isWanted(day)).sort()) await compactDay(day, { ...options, dataset }, report)
  }
  return report
}

async function compactDay(day: string, options: DayOptions, report: CompactReport): Promise<void> {
  try {
    // Files that a killed run has left would otherwise lie in the range of the next merged file.
    if (!(await clearDay(day, options, report))) return
    report.merged += await mergeDay(day, options)
    await clearDay(day, options, report)
  } catch (error) {
    report.failures.push(`${day}: ${(error as Error).message.split('\n')[0]}`)
  }
}

/** False when a file supersedes others by its name alone: the day stays unchanged. */
async function clearDay(day: string, { store, dataset, beforeDelete }: DayOptions, report: CompactReport): Promise<boolean> {
  const { deleted, faults } = await deleteSuperseded(store, dataset, day, beforeDelete)
  report.deleted += deleted
  for (const { reason } of faults) report.failures.push(`${day}: ${reason}; ${REMEDY}`)
  return faults.length === 0
}

async function mergeDay(day: string, options: DayOptions): Promise<number> {
  return repeatWhenGone(MAX_ATTEMPTS, async () => {
    const groups = groupFiles(await listDay(options, day), MAX_FILE_BYTES)
    for (const group of groups) await merge(day, group, options)
    return groups.length
  })
}

async function merge(day: string, group: Sized[], { store, dataset, assertAlone, onMerged }: DayOptions) {
  const first = Math.min(...group.map((file) => file.first))
  const last = Math.max(...group.map((file) => file.last))
  const name = nameOf({ dataset, ingestDate: day, first, last, level: Math.max(...group.map((file) => file.level)) + 1 })
  await store.withWorkspace(async (folder) => {
    const path = join(folder, 'file')
    const rows = await store.withCopies(group, (paths) =>
      writeMerged(path, paths, name).catch((error: Error) => {
        throw new Error(nameFiles(error.message, store, group, paths), { cause: error })
      }),
    )
    // Readers would skip a file that was added to the range meanwhile, although its rows are not in this one.
    const now = (await listDay({ store, dataset }, day)).filter((file) => file.first <= last && file.last >= first)
    const isUnchanged = now.length === group.length && now.every((file, index) => file.tag === group[index]?.tag)
    if (!isUnchanged) throw new LakeFileGone(`the files of ${day} have changed`)
    await assertAlone()
    // `taken`: another run has merged the same files.
    await store.put(name, path)
    onMerged?.({ name, files: group.length, rows })
  })
}

/**
 * Groups neighbouring files to be merged, at least two each and at most `maxBytes`. Files whose ranges overlap stay
 * together, so that a merged range never covers a file that is not in it.
 */
export function groupFiles(files: readonly Sized[], maxBytes: number): Sized[][] {
  const clusters: Sized[][] = []
  let end = Number.NEGATIVE_INFINITY
  for (const file of files.toSorted((a, b) => a.first - b.first || a.last - b.last)) {
    if (file.first <= end) clusters.at(-1)?.push(file)
    else clusters.push([file])
    end = Math.max(end, file.last)
  }
  const groups: Sized[][] = []
  let bytes = Number.POSITIVE_INFINITY
  for (const cluster of clusters) {
    const size = cluster.reduce((sum, file) => sum + file.sizeBytes, 0)
    if (bytes + size <= maxBytes) groups.at(-1)?.push(...cluster)
    else groups.push([...cluster])
    bytes = bytes + size <= maxBytes ? bytes + size : size
  }
  return groups.filter((group) => group.length > 1)
}

async function listDay({ store, dataset }: Pick<DayOptions, 'store' | 'dataset'>, day: string): Promise<Sized[]> {
  const all = (await listLake(store, dataset, `${dataset}/ingest_date=${day}/`)).flatMap((file) => {
    const range = parseName(file.name)
    return range?.ingestDate === day ? [{ ...file, ...range }] : []
  })
  return splitSuperseded(all).current
}

/** Writes the rows of all files into one, in order of sequence. Throws when it has other rows. Returns their number. */
async function writeMerged(path: string, files: readonly string[], name: string): Promise<number> {
  // The checksum of the merged file would make damaged rows look correct.
  for (const file of files) if ((await checkChecksum(file)) === 'wrong') throw new Error(`${file}: ${WRONG_CHECKSUM}; ${REMEDY}`)
  return withDuckDB(`${path}.spill`, async (connection) => {
    await copyToParquet(connection, sql`select * from ${parquetRows(files)} order by sequence`, path, name)
    const sum = async (paths: readonly string[]) =>
      (await selectRows(connection, sql`select count(*), sum(hash(row)) from ${parquetRows(paths)} as row`))[0]?.map(String) ?? []
    const [before, after] = [await sum(files), await sum([path])]
    if (before.join() !== after.join()) throw new Error(`a merged file would hold ${after[0]} rows in place of ${before[0]}, or other ones`)
    return Number(before[0])
  })
}

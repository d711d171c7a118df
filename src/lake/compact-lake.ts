import { join } from 'node:path'
import type { DuckDBConnection } from '@duckdb/node-api'
import { sql } from '../db/sql.ts'
import { REMEDY } from './find-damage.ts'
import { untilCommitted } from './iceberg/commit-snapshot.ts'
import { commitFiles, eventTableOf, type LakeSnapshot, type LiveFile, readSnapshot } from './iceberg/event-table.ts'
import type { DataFile } from './iceberg/manifest.ts'
import { checkChecksum, WRONG_CHECKSUM } from './lake-checksum.ts'
import { parquetRows, withDuckDB } from './lake-database.ts'
import { DATASET_NAMES, type DatasetName, newName } from './lake-names.ts'
import { type LakeStore, repeatWhenGone } from './lake-store.ts'
import { nameFiles } from './list-files.ts'
import { type NewFile, writeDataFile } from './parquet-writer.ts'
import { selectRows } from './query-duckdb.ts'

export interface CompactOptions {
  store: LakeStore
  /** Whether to merge the files of a day (UTC, `YYYY-MM-DD`). */
  isWanted: (ingestDate: string) => boolean
  /** Whether to skip a file that is larger than all later files of its day together, until these have grown. */
  leavesLarge?: boolean
  now?: () => Date
  signal?: AbortSignal
  onMerged?: (merged: { name: string; files: number; rows: number }) => void
}

export interface CompactReport {
  merged: number
  failures: string[]
}

const MAX_FILE_BYTES = 128 * 1024 * 1024
const MAX_ATTEMPTS = 10

/** Each merged file replaces its sources in one snapshot. See docs/decisions/lake-snapshots.md#merging. */
export async function compactLake({ isWanted, ...options }: CompactOptions): Promise<CompactReport> {
  const report: CompactReport = { merged: 0, failures: [] }
  for (const dataset of DATASET_NAMES) {
    const days = new Set((await readSnapshot(options.store, dataset)).files.map(({ ingestDate }) => ingestDate))
    for (const day of [...days].filter(isWanted)) {
      try {
        report.merged += await repeatWhenGone(MAX_ATTEMPTS, () => mergeDay(dataset, day, options))
      } catch (error) {
        options.signal?.throwIfAborted()
        report.failures.push(`${day}: ${(error as Error).message.split('\n')[0]}`)
      }
    }
  }
  return report
}

async function mergeDay(dataset: DatasetName, day: string, options: Omit<CompactOptions, 'isWanted'>): Promise<number> {
  const snapshot = await readSnapshot(options.store, dataset)
  const groups = groupFiles(
    snapshot.files.filter(({ ingestDate }) => ingestDate === day),
    MAX_FILE_BYTES,
    options.leavesLarge,
  )
  for (const group of groups) await merge(snapshot, group, options)
  return groups.length
}

async function merge(
  read: LakeSnapshot,
  group: LiveFile[],
  { store, now = () => new Date(), signal, onMerged }: Omit<CompactOptions, 'isWanted'>,
) {
  const { dataset, table } = read
  const [first, last] = [Math.min(...group.map((file) => file.first)), Math.max(...group.map((file) => file.last))]
  const names = new Set(group.map((file) => file.name))
  await store.withWorkspace(async (folder) => {
    const path = join(folder, 'file')
    const data = await store.withCopies(group, (paths) =>
      writeMerged({ path, location: path }, paths, dataset, signal).catch((error: Error) => {
        throw new Error(nameFiles(error.message, store, group, paths), { cause: error })
      }),
    )
    await untilCommitted(async () => {
      const snapshot = await readSnapshot(store, dataset, table)
      const removed = snapshot.files.filter((file) => names.has(file.name))
      if (removed.length < group.length) return true
      // A file of an earlier attempt may be deleted already, because no snapshot has it.
      const name = newName(dataset, group[0]?.ingestDate ?? '', first, last)
      await store.put(name, path)
      const isCommitted = await commitFiles(snapshot, { added: [{ ...data, file_path: table.locate(name) }], removed }, now())
      if (isCommitted) onMerged?.({ name, files: group.length, rows: data.record_count })
      return isCommitted
    })
  })
}

export function groupFiles<T extends Pick<LiveFile, 'first' | 'sizeBytes'>>(
  files: readonly T[],
  maxBytes: number,
  leavesLarge = false,
): T[][] {
  const groups: T[][] = []
  let bytes = Number.POSITIVE_INFINITY
  for (const file of files.toSorted((a, b) => a.first - b.first)) {
    bytes += file.sizeBytes
    if (bytes <= maxBytes) groups.at(-1)?.push(file)
    else {
      groups.push([file])
      bytes = file.sizeBytes
    }
  }
  return (leavesLarge ? groups.map(withoutLarge) : groups).filter((group) => group.length > 1)
}

function withoutLarge<T extends Pick<LiveFile, 'sizeBytes'>>([first, ...others]: T[]): T[] {
  if (first === undefined) return []
  const rest = others.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  return first.sizeBytes > rest ? withoutLarge(others) : [first, ...others]
}

/** Writes the rows of the files in order of sequence. Throws if the result has other rows than the sources. */
async function writeMerged(file: NewFile, paths: readonly string[], dataset: DatasetName, signal?: AbortSignal): Promise<DataFile> {
  // The checksum of the merged file would make damaged rows look correct.
  for (const path of paths) if ((await checkChecksum(path)) === 'wrong') throw new Error(`${path}: ${WRONG_CHECKSUM}; ${REMEDY}`)
  const work = async (connection: DuckDBConnection) => {
    const data = await writeDataFile(connection, file, sql`select * from ${parquetRows(paths)} order by sequence`, eventTableOf(dataset))
    const sum = async (some: readonly string[]) =>
      (await selectRows(connection, sql`select count(*), sum(hash(row)) from ${parquetRows(some)} as row`))[0]?.map(String) ?? []
    const [before, after] = [await sum(paths), await sum([file.path])]
    if (before.join() !== after.join()) throw new Error(`a merged file would hold ${after[0]} rows in place of ${before[0]}, or other ones`)
    return data
  }
  return withDuckDB(`${file.path}.spill`, work, {}, signal)
}

import { sql } from '../db/sql.ts'
import { findDamagedBytes } from './find-damage.ts'
import { commitSnapshot, readBase, untilCommitted } from './iceberg/commit-snapshot.ts'
import { describeFile } from './iceberg/describe-file.ts'
import {
  commitFiles,
  eventTableOf,
  isOldName,
  LakeNotAdopted,
  type LakeSnapshot,
  readSnapshot,
  SEQUENCE,
  toLiveFile,
} from './iceberg/event-table.ts'
import type { DataFile } from './iceberg/manifest.ts'
import type { TableStore } from './iceberg/table-store.ts'
import { ifDamaged, makeSpillPath, readablePath, withDuckDB } from './lake-database.ts'
import { type DatasetName, prefixOf } from './lake-names.ts'
import type { LakeStore, ListedFile } from './lake-store.ts'
import { queryDuckDB } from './query-duckdb.ts'

/** Gives a new lake its first snapshot, and adopts a lake of an earlier release. */
export async function openLakeEvents(store: LakeStore, dataset: DatasetName, table: TableStore, now: Date): Promise<LakeSnapshot> {
  return untilCommitted(async () => {
    try {
      const snapshot = await readSnapshot(store, dataset, table)
      // Files without metadata would look like a lake that has lost its metadata.
      if (snapshot.base.metadata !== null || (await commitFiles(snapshot, { added: [] }, now))) return snapshot
    } catch (error) {
      if (!(error instanceof LakeNotAdopted)) throw error
      await adopt(store, dataset, table, now)
    }
    return false
  })
}

/**
 * Commits a first snapshot with the files that count. In an earlier release, a file superseded files of the same or a
 * lower level whose range it covers.
 */
async function adopt(store: LakeStore, dataset: DatasetName, table: TableStore, now: Date): Promise<void> {
  const base = await readBase(table)
  let listed = await store.list(prefixOf(dataset))
  // Another process has adopted the lake meanwhile.
  if (!listed.every(({ name }) => isOldName(name))) return
  const added = new Map<string, DataFile>()
  for (let isDone = false; !isDone; ) {
    isDone = true
    for (const file of currentFiles(listed)) {
      if (added.has(file.name)) continue
      const data = await describe(store, table, dataset, file)
      if (data !== null) added.set(file.name, data)
      else {
        // The damaged file superseded other files only by its name. Those count now.
        await store.quarantine(file.name)
        listed = listed.filter(({ name }) => name !== file.name)
        isDone = false
      }
    }
  }
  const files = currentFiles(listed)
  const sequence = Math.max(0, ...files.map(({ name }) => rangeOf(name).last))
  const removed = new Set(base.manifests.flatMap(({ entries }) => entries.map(({ data_file }) => data_file.file_path)))
  const change = {
    ...({ operation: 'overwrite', removed, summary: { [SEQUENCE]: String(sequence) } } as const),
    added: files.flatMap(({ name }) => added.get(name) ?? []),
    isKept: () => false,
  }
  if (!(await commitSnapshot(table, eventTableOf(dataset), base, change, now))) return
  for (const { name } of await store.list('.pending/'))
    if (name.includes('catalogue') === (dataset === 'catalogue')) await store.delete(name)
}

/**
 * Describes a file. Returns null if it is damaged, was written under another name, or has rows outside of the range in
 * its name.
 */
async function describe(
  store: LakeStore,
  table: TableStore,
  dataset: DatasetName,
  { name, sizeBytes }: ListedFile,
): Promise<DataFile | null> {
  return store.withCopies([{ name, sizeBytes }], async ([path = '']) => {
    if ((await findDamagedBytes(path)) !== null) return null
    const written = await queryDuckDB(
      sql`select decode(value) from parquet_kv_metadata(${readablePath(path)}) where decode(key) = 'name'`,
    ).catch(ifDamaged(null))
    if (written === null || (written[0]?.[0] ?? name) !== name) return null
    const data = await withDuckDB(makeSpillPath(), (connection) =>
      describeFile(connection, eventTableOf(dataset), path, { location: table.locate(name), sizeBytes }),
    )
    const { first, last } = toLiveFile(table, data)
    return data.record_count === 0 || (first >= rangeOf(name).first && last <= rangeOf(name).last) ? data : null
  })
}

interface OldRange {
  folder: string
  first: number
  last: number
  level: number
}

function rangeOf(name: string): OldRange {
  const [, folder = '', first, last, level = '0'] = /^(.*)\/(\d{16})-(\d{16})(?:\.(\d{1,6}))?\.parquet$/.exec(name) ?? []
  return { folder, first: Number(first), last: Number(last), level: Number(level) }
}

function currentFiles<T extends { name: string }>(files: readonly T[]): T[] {
  const ranges = files.map((file) => ({ file, ...rangeOf(file.name) }))
  ranges.sort((a, b) => (a.folder === b.folder ? a.first - b.first || b.last - a.last || b.level - a.level : a.folder < b.folder ? -1 : 1))
  const current: T[] = []
  // Files of the folder whose range reaches the current file. There are one or two, except after a killed merge.
  let open: typeof ranges = []
  for (const range of ranges) {
    open = open.filter(({ folder, last }) => folder === range.folder && last >= range.first)
    if (!open.some(({ last, level }) => last >= range.last && level >= range.level)) current.push(range.file)
    open.push(range)
  }
  return current
}

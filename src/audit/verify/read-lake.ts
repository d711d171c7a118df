import { sql } from '../../db/sql.ts'
import { eventTableOf, LakeDamaged, type LakeSnapshot, type LiveFile, readSnapshot } from '../../lake/iceberg/event-table.ts'
import { checkChecksum, WRONG_CHECKSUM } from '../../lake/lake-checksum.ts'
import { typedList } from '../../lake/lake-columns.ts'
import { isFaultOfMachine, readablePath } from '../../lake/lake-database.ts'
import type { DatasetName } from '../../lake/lake-names.ts'
import { LakeFileGone, type LakeStore } from '../../lake/lake-store.ts'
import { countOf, type OnStep } from '../on-step.ts'
import type { ComparisonTables } from './comparison-tables.ts'
import type { IdRange } from './id-range.ts'
import { ROW_DIGESTS } from './row-digest.ts'

const MAX_ATTEMPTS = 5

export interface CorruptFile {
  name: string
  path: string
  reason: string
}

export interface LakeContents {
  /** The column `file` of `lake_events` is an index of this list. */
  files: LiveFile[]
  lastSequence: number
  corrupt: CorruptFile[]
}

/** Lists unreadable files and files that differ from their entry. Restarts when files were replaced meanwhile. */
export async function readLake(
  store: LakeStore,
  dataset: DatasetName,
  tables: ComparisonTables,
  onStep: OnStep = () => {},
  range?: IdRange,
): Promise<LakeContents> {
  for (let attempt = 1; ; attempt++) {
    try {
      const snapshot = await readSnapshot(store, dataset)
      const corrupt = await readRows(store, snapshot, tables, onStep, range)
      const isGone = corrupt.some(({ reason }) => reason === GONE)
      const isSame = (after: LakeSnapshot) => after.base.state.nextVersion === snapshot.base.state.nextVersion
      if (attempt === MAX_ATTEMPTS || !isGone || isSame(await readSnapshot(store, dataset)))
        return { files: snapshot.files, lastSequence: snapshot.sequence, corrupt }
    } catch (error) {
      if (!(error instanceof LakeDamaged)) throw error
      return { files: [], lastSequence: 0, corrupt: [{ name: '', path: eventTableOf(dataset).name, reason: error.message }] }
    }
  }
}

const GONE = 'it is gone'

export async function readRows(
  store: LakeStore,
  { dataset, files }: Pick<LakeSnapshot, 'dataset' | 'files'>,
  tables: ComparisonTables,
  onStep: OnStep,
  range?: IdRange,
): Promise<CorruptFile[]> {
  await tables.run(sql`create or replace table no_lake_rows (${typedList(eventTableOf(dataset).columns)})`)
  await tables.run(sql`truncate lake_events`)
  const corrupt: CorruptFile[] = []
  for (const [index, file] of files.entries()) {
    onStep(`reading file ${countOf(index + 1)} of ${countOf(files.length)} of the lake`)
    const path = store.locate(file.name)
    const read = async ([copy = '']: string[]) =>
      (await readFile(copy, file, dataset, index, tables, range))?.replaceAll(copy, path) ?? null
    const reason = await store.withCopies([file], read, { isFresh: true }).catch((error) => {
      if (!(error instanceof LakeFileGone)) throw error
      return GONE
    })
    if (reason !== null) corrupt.push({ name: file.name, path, reason })
  }
  return corrupt
}

/** Why the file is corrupt, or null. Its readable rows go into `lake_events`. */
async function readFile(
  path: string,
  { first, last, ingestDate, data }: LiveFile,
  dataset: DatasetName,
  index: number,
  tables: ComparisonTables,
  range: IdRange | undefined,
): Promise<string | null> {
  const checksum = await checkChecksum(path)
  if (checksum === 'wrong') return WRONG_CHECKSUM
  // Every release that writes catalogue files gives them a checksum.
  if (checksum === 'none' && dataset === 'catalogue') return 'it is cut off, or the store has not written it: it has no checksum'
  try {
    const unknown = checksum === 'none' ? await findUnknownColumns(path, dataset, tables) : []
    if (unknown.length > 0) return `it has columns that no release wrote: ${unknown.join(', ')}`
    await tables.runWide(sql`
      create or replace temp table file_events as
      select event_id, sequence, ${ROW_DIGESTS[dataset]} as digests, ingested_at
      from (select * from no_lake_rows union all by name select * from read_parquet(${readablePath(path)}, hive_partitioning = false))`)
  } catch (error) {
    if (isFaultOfMachine(error)) throw error
    return (error instanceof Error ? error.message : String(error)).split('\n')[0] ?? ''
  }
  const isCompared = range === undefined ? sql`true` : sql`event_id >= ${range.from} and event_id < ${range.below}`
  await tables.run(sql`insert into lake_events select event_id, sequence, digests, ${index} from file_events where ${isCompared}`)
  const others = await tables.count(sql`
    from file_events
    where sequence is null or sequence not between ${first} and ${last} or strftime(ingested_at, '%Y-%m-%d') is distinct from ${ingestDate}`)
  if (others > 0) return `${others} of its rows are not in the range of its entry in the snapshot, or not of its day`
  const rows = await tables.count(sql`from file_events`)
  return rows === data.record_count ? null : `it has ${rows} rows, and ${data.record_count} in the snapshot`
}

/** Detects a damaged column name in a file without a checksum. Missing columns are allowed. */
async function findUnknownColumns(path: string, dataset: DatasetName, tables: ComparisonTables): Promise<string[]> {
  const columns = await tables.select<{ column_name: string }>(
    sql`select column_name from (describe select * from read_parquet(${readablePath(path)}, hive_partitioning = false))`,
  )
  return columns.map(({ column_name }) => column_name).filter((name) => !(name in eventTableOf(dataset).columns))
}

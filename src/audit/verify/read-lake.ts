import { sql } from '../../db/sql.ts'
import { findOtherName } from '../../lake/find-damage.ts'
import { checkChecksum, WRONG_CHECKSUM } from '../../lake/lake-checksum.ts'
import { typedList } from '../../lake/lake-columns.ts'
import { isFaultOfMachine, readablePath } from '../../lake/lake-database.ts'
import type { LakeDataset } from '../../lake/lake-dataset.ts'
import { findEndOf } from '../../lake/lake-end.ts'
import { parseName, splitSuperseded } from '../../lake/lake-names.ts'
import { type LakeFile, LakeFileGone, type LakeStore } from '../../lake/lake-store.ts'
import { listLake } from '../../lake/list-files.ts'
import type { TopicEvent } from '../../topic/topic.ts'
import { countOf, type OnStep } from '../on-step.ts'
import type { ComparisonTables } from './comparison-tables.ts'
import { ROW_DIGESTS } from './row-digest.ts'

const MAX_ATTEMPTS = 5

export interface CorruptFile {
  name: string
  /** A path, or an address in the object store. */
  path: string
  reason: string
  /** The rows are valid, but the file was written under another name. */
  isMisnamed: boolean
}

export interface LakeContents {
  /** The files that were read. The column `file` of `lake_events` is an index of this list. */
  files: LakeFile[]
  /** The end of the lake: the sink's position. */
  lastSequence: number
  corrupt: CorruptFile[]
}

/** What is read of a dataset. */
export type ReadDataset = Pick<LakeDataset<TopicEvent>, 'name' | 'columns'>

export interface ReadLakeOptions {
  /** Names of files to read although they are superseded by others. */
  withSuperseded?: ReadonlySet<string>
  onStep?: OnStep
}

/**
 * Reads every row of the current files of a dataset from the store into `lake_events`, and lists the files that cannot be read or do
 * not match their name. Restarts when files were replaced meanwhile.
 */
export async function readLake(
  store: LakeStore,
  dataset: ReadDataset,
  tables: ComparisonTables,
  { withSuperseded = new Set(), onStep = () => {} }: ReadLakeOptions = {},
): Promise<LakeContents> {
  await tables.run(sql`create or replace table no_lake_rows (${typedList(dataset.columns)})`)
  for (let attempt = 1; ; attempt++) {
    await tables.run(sql`truncate lake_events`)
    const all = await listLake(store, dataset.name)
    const { current, superseded } = splitSuperseded(all)
    const files = [...current, ...superseded.filter(({ name }) => withSuperseded.has(name))]
    try {
      const corrupt = await readFiles(store, dataset, files, tables, onStep)
      const lastSequence = await findEndOf(store, all)
      const now = new Set((await listLake(store, dataset.name)).map(({ name }) => name))
      if (files.every(({ name }) => now.has(name))) return { files, lastSequence, corrupt }
    } catch (error) {
      if (!(error instanceof LakeFileGone)) throw error
    }
    if (attempt === MAX_ATTEMPTS) throw new Error('the files of the lake keep changing')
  }
}

async function readFiles(
  store: LakeStore,
  dataset: ReadDataset,
  files: readonly LakeFile[],
  tables: ComparisonTables,
  onStep: OnStep,
): Promise<CorruptFile[]> {
  const corrupt: CorruptFile[] = []
  for (const [index, file] of files.entries()) {
    onStep(`reading file ${countOf(index + 1)} of ${countOf(files.length)} of the lake`)
    const path = store.locate(file.name)
    const read = async ([copy = '']: string[]) => {
      const reason = await readFile(copy, file.name, dataset, index, tables)
      const otherName = reason === null ? await findOtherName(copy, file.name) : null
      return { reason: (reason ?? otherName)?.replaceAll(copy, path) ?? null, isMisnamed: otherName !== null }
    }
    const { reason, isMisnamed } = await store.withCopies([file], read, { isFresh: true })
    if (reason !== null) corrupt.push({ name: file.name, path, reason, isMisnamed })
  }
  return corrupt
}

/** Why the file is corrupt; null when it is not. Its rows go into `lake_events` if they can be read at all. */
async function readFile(path: string, name: string, dataset: ReadDataset, index: number, tables: ComparisonTables): Promise<string | null> {
  const checksum = await checkChecksum(path)
  if (checksum === 'wrong') return WRONG_CHECKSUM
  // Each release that has written files of the catalogue has given them one.
  if (checksum === 'none' && dataset.name === 'catalogue') return 'it is cut off, or the store has not written it: it has no checksum'
  try {
    const unknown = checksum === 'none' ? await findUnknownColumns(path, dataset, tables) : []
    if (unknown.length > 0) return `it has columns that no release wrote: ${unknown.join(', ')}`
    await tables.runWide(sql`
      create or replace temp table file_events as
      select event_id, sequence, ${ROW_DIGESTS[dataset.name]} as digests, ingested_at
      from (select * from no_lake_rows union all by name select * from read_parquet(${readablePath(path)}, hive_partitioning = false))`)
  } catch (error) {
    if (isFaultOfMachine(error)) throw error
    return (error instanceof Error ? error.message : String(error)).split('\n')[0] ?? ''
  }
  await tables.run(sql`insert into lake_events select event_id, sequence, digests, ${index} from file_events`)
  const { first = 0, last = 0, ingestDate = '' } = parseName(name) ?? {}
  const orphans = await tables.count(sql`
    from file_events
    where sequence is null or sequence not between ${first} and ${last} or strftime(ingested_at, '%Y-%m-%d') is distinct from ${ingestDate}`)
  return orphans === 0 ? null : `${orphans} of its rows are not in the range and of the date of its name`
}

/** Detects a damaged column name in a file without a checksum. Missing columns are allowed. */
async function findUnknownColumns(path: string, { columns: known }: ReadDataset, tables: ComparisonTables): Promise<string[]> {
  const columns = await tables.select<{ column_name: string }>(
    sql`select column_name from (describe select * from read_parquet(${readablePath(path)}, hive_partitioning = false))`,
  )
  return columns.map(({ column_name }) => column_name).filter((name) => !(name in known))
}

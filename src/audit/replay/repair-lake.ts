import type { CatalogueEvent } from '../../catalogue/catalogue-event.ts'
import { makeEvents } from '../../change-stream/publish-stored-events.ts'
import type { Pool } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { findDamagedBytes } from '../../lake/find-damage.ts'
import { readBase } from '../../lake/iceberg/commit-snapshot.ts'
import { describeFile } from '../../lake/iceberg/describe-file.ts'
import {
  eventTableOf,
  LakeDamaged,
  type LakeSnapshot,
  type LiveFile,
  readSnapshot,
  SEQUENCE,
  toLiveFile,
  toSnapshot,
} from '../../lake/iceberg/event-table.ts'
import type { DataFile } from '../../lake/iceberg/manifest.ts'
import { currentSnapshot } from '../../lake/iceberg/table-metadata.ts'
import { TableStore } from '../../lake/iceberg/table-store.ts'
import { writeDerivedTables } from '../../lake/iceberg/write-derived-tables.ts'
import { makeSpillPath, withDuckDB } from '../../lake/lake-database.ts'
import { withLakeLock, withTablesLock } from '../../lake/lake-lock.ts'
import { type DatasetName, prefixOf } from '../../lake/lake-names.ts'
import type { LakeStore } from '../../lake/lake-store.ts'
import type { Topic, TopicEvent } from '../../topic/topic.ts'
import type { OnStep } from '../on-step.ts'
import { findLakeAhead } from '../restore/find-data-loss.ts'
import { type ComparedPartition, cataloguePartition, orderPartition } from '../verify/compared-partition.ts'
import { type ComparisonTables, REWRITING, withComparisonTables } from '../verify/comparison-tables.ts'
import { readRows } from '../verify/read-lake.ts'
import { readTopic } from '../verify/read-partition.ts'
import { ALTERED_IN_LAKE } from '../verify/row-digest.ts'
import { type RewriteOptions, RewrittenFiles } from './rewrite-files.ts'
import { withSubscriberLock } from './subscriber-lock.ts'

export interface RepairOptions {
  pool: Pool
  url: string
  store: LakeStore
  topic: Topic
  /** If absent, neither catalogue files nor tables are written: product tables may come from damaged files. */
  catalogueTopic?: Topic<CatalogueEvent>
  now: () => Date
  onStep?: OnStep
  onRepaired?: (report: RepairReport) => void
}

export interface RepairReport {
  quarantined: string[]
  written: number
  /** Events after the end of the lake, which the sink writes. */
  later: number
  /** Event ids in quarantined files that neither topic nor database has. */
  lost: string[]
  /** For each damaged or missing file, how many of its rows exist nowhere else. Null if that is unknown. */
  lostRows: { path: string; rows: number | null }[]
}

export interface LakeRepairReport extends RepairReport {
  /** Why the tables of the newest state could not be written after the repair, or null. */
  tablesFailure: string | null
}

interface Repaired<E extends TopicEvent> extends Pick<RewriteOptions<E>, 'store' | 'dataset' | 'topic' | 'makeEvents' | 'now'> {
  pool: Pool
  readTopic: (tables: ComparisonTables) => Promise<unknown>
  onStep: OnStep
}

/**
 * Quarantines and rewrites faulty files, adds missing events, and rebuilds damaged metadata. Can be killed at any point
 * and run again. Waits while files are merged. Throws LakeBusy if it lost its lock to another repair, and LakeAhead
 * when another database writes to the lake.
 */
export async function repairLake({
  url,
  topic,
  catalogueTopic,
  onStep = () => {},
  onRepaired = () => {},
  ...options
}: RepairOptions): Promise<LakeRepairReport> {
  const { pool, store } = options
  return withLakeLock(url, async () => {
    const run = async <Row extends object, E extends TopicEvent>(partition: ComparedPartition<Row, E>) => {
      const { dataset, topic, stored } = partition
      const repaired: Repaired<E> = {
        ...{ ...options, dataset, topic, onStep },
        readTopic: (tables) => readTopic(partition, tables, 0, onStep),
        makeEvents: (ids) => makeEvents(pool, stored, ids),
      }
      const report = await withSubscriberLock(url, dataset.subscriber, () =>
        withComparisonTables((tables) => repair(tables, repaired), REWRITING),
      )
      onRepaired(report)
      return report
    }
    let tablesFailure: string | null = null
    const reports = [await run(orderPartition(topic))]
    if (catalogueTopic !== undefined) {
      reports.push(await run(cataloguePartition(catalogueTopic)))
      onStep('writing the tables of the lake')
      try {
        await withTablesLock(url, () => writeDerivedTables(store))
      } catch (error) {
        tablesFailure = (error as Error).message.split('\n')[0] ?? ''
      }
    }
    return {
      quarantined: reports.flatMap(({ quarantined }) => quarantined),
      written: reports.reduce((sum, { written }) => sum + written, 0),
      later: reports.reduce((sum, { later }) => sum + later, 0),
      lost: reports.flatMap(({ lost }) => lost),
      lostRows: reports.flatMap(({ lostRows }) => lostRows),
      tablesFailure,
    }
  })
}

async function repair<E extends TopicEvent>(tables: ComparisonTables, { onStep, ...options }: Repaired<E>): Promise<RepairReport> {
  const { store, dataset } = options
  const { snapshot, found, isRebuilt } = await readOrRebuild(store, dataset.name)
  const ahead = await findLakeAhead(options, snapshot.sequence)
  if (ahead !== null) throw ahead
  const corrupt = await readRows(store, snapshot, tables, onStep)
  await options.readTopic(tables)
  onStep('rewriting files of the lake')
  const damaged = new Set(corrupt.map(({ name }) => name))
  const invalid = await dropRows(tables, snapshot, damaged)
  const faulty = snapshot.files.flatMap((file, index) =>
    damaged.has(file.name) || invalid.has(index) ? [{ ...file, index, isDamaged: damaged.has(file.name) }] : [],
  )
  const isFaulty = ({ file_path }: DataFile) => faulty.some(({ data }) => data.file_path === file_path)
  const files = new RewrittenFiles(
    { ...options, tables },
    snapshot,
    found.filter((data) => !isFaulty(data)),
  )
  for (const file of faulty) await files.rewrite(file)
  await files.addMissing(faulty)
  await files.commit(isRebuilt)
  const later = await tables.count(
    sql`select distinct event_id from topic_events anti join lake_events using (event_id) where sequence > ${snapshot.sequence}`,
  )
  const lostRows = [...files.lostRows].map(([name, rows]) => ({ path: store.locate(name), rows }))
  return { quarantined: files.quarantined, written: files.written, later, lost: [...files.lost], lostRows }
}

/** The remaining rows are in `lake_events`, the others in `dropped_rows`. Returns the indexes of their files. */
async function dropRows(tables: ComparisonTables, { files }: LakeSnapshot, damaged: ReadonlySet<string>): Promise<Set<number>> {
  // No row of a damaged file is trusted, even if it could be read.
  for (const [index, { name }] of files.entries())
    if (damaged.has(name)) await tables.run(sql`delete from lake_events where file = ${index}`)
  await tables.run(sql`create table altered_rows as ${ALTERED_IN_LAKE}`)
  await tables.run(sql`
    create table dropped_rows as
    select rowid as place, file, event_id, sequence
    from lake_events
    qualify place in (select place from altered_rows)
      or row_number() over (partition by event_id order by place in (select place from altered_rows), file, sequence) > 1`)
  await tables.run(sql`delete from lake_events where rowid in (select place from dropped_rows)`)
  const dropped = await tables.select<{ file: number }>(sql`select distinct file from dropped_rows`)
  return new Set(dropped.map(({ file }) => file))
}

/**
 * Reads the newest snapshot. If the metadata are damaged, it consists of the files of the newest readable snapshot and
 * all other existing files.
 */
async function readOrRebuild(
  store: LakeStore,
  dataset: DatasetName,
): Promise<{ snapshot: LakeSnapshot; found: DataFile[]; isRebuilt: boolean }> {
  const table = new TableStore(store, eventTableOf(dataset).name)
  try {
    const snapshot = await readSnapshot(store, dataset, table)
    return { snapshot, found: [], isRebuilt: snapshot.base.isMoved }
  } catch (error) {
    if (!(error instanceof LakeDamaged)) throw error
  }
  const read = await readBase(table)
  const recorded = read.metadata === null ? undefined : currentSnapshot(read.metadata).summary[SEQUENCE]
  // The files of an earlier release's snapshot are copies of those in the folder.
  const base = recorded === undefined ? { ...read, manifests: [] } : read
  const known = toSnapshot(table, dataset, base, 0)
  const names = new Set(known.files.map(({ name }) => name))
  const found = await withDuckDB(makeSpillPath(), async (connection) => {
    const others: LiveFile[] = []
    for (const { name, sizeBytes } of await store.list(prefixOf(dataset))) {
      if (names.has(name)) continue
      const file = { location: table.locate(name), sizeBytes }
      const data = await store.withCopies([{ name, sizeBytes }], async ([path = '']) =>
        (await findDamagedBytes(path)) === null ? describeFile(connection, eventTableOf(dataset), path, file) : null,
      )
      others.push(data === null ? unreadFile(table, file, name) : toLiveFile(table, data))
    }
    return others
  })
  const files = [...known.files, ...found]
  const sequence = files.reduce((end, { last }) => Math.max(end, last), Number(recorded ?? 0))
  return { snapshot: { ...known, files, sequence }, found: found.map(({ data }) => data), isRebuilt: true }
}

function unreadFile(table: TableStore, { location, sizeBytes }: { location: string; sizeBytes: number }, name: string): LiveFile {
  const [, first = 0, last = 0] = /(\d{16})-(\d{16})[^/]*$/.exec(name) ?? []
  const data = { ...NO_ROWS, file_path: location, file_size_in_bytes: sizeBytes }
  return { ...toLiveFile(table, data), first: Number(first), last: Number(last) }
}

const NO_ROWS = {
  ...({ content: 0, file_format: 'PARQUET', partition: {}, record_count: 0 } as const),
  ...{ value_counts: [], null_value_counts: [], lower_bounds: [], upper_bounds: [] },
}

import type { CatalogueEvent } from '../../catalogue/catalogue-event.ts'
import type { Pool } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { deleteSuperseded, type SupersedingFault } from '../../lake/delete-superseded.ts'
import { commitEvents, hasEventTables } from '../../lake/iceberg/commit-events.ts'
import { writeDerivedTables } from '../../lake/iceberg/write-derived-tables.ts'
import { findLakeEnd } from '../../lake/lake-end.ts'
import { withLakeLock } from '../../lake/lake-lock.ts'
import { parseName } from '../../lake/lake-names.ts'
import { LakeRepairs } from '../../lake/lake-repairs.ts'
import type { LakeStore } from '../../lake/lake-store.ts'
import { listLake } from '../../lake/list-files.ts'
import type { Topic, TopicEvent } from '../../topic/topic.ts'
import type { OnStep } from '../on-step.ts'
import { findLakeAhead, findNewestAssignedSequence } from '../restore/find-data-loss.ts'
import { type ComparedPartition, cataloguePartition, makeEvents, orderPartition } from '../verify/compared-partition.ts'
import { type ComparisonTables, REWRITING, withComparisonTables } from '../verify/comparison-tables.ts'
import { type LakeContents, readLake } from '../verify/read-lake.ts'
import { readTopic } from '../verify/read-partition.ts'
import { ALTERED_IN_LAKE } from '../verify/row-digest.ts'
import { quarantineOrphans } from './quarantine-orphans.ts'
import { type FileGroup, groupNested, type RewriteOptions, RewrittenFiles } from './rewrite-files.ts'
import { withSubscriberLock } from './subscriber-lock.ts'
import { writeMissing } from './write-missing.ts'

export interface RepairOptions {
  pool: Pool
  /** Address of the same database. */
  url: string
  store: LakeStore
  topic: Topic
  /**
   * The partition of the catalogue; absent: its files are not repaired, and no table is written, because those of products may be made of
   * damaged ones.
   */
  catalogueTopic?: Topic<CatalogueEvent>
  now: () => Date
  onStep?: OnStep
  /** Called when the files of a dataset are repaired: the other one's may fail. */
  onRepaired?: (report: RepairReport) => void
}

export interface RepairReport {
  /** New places of the files that were rewritten. */
  quarantined: string[]
  /** The number of events that the lake lacked, or had no valid row of. */
  written: number
  /** The number of events after the end of the lake, which the sink writes. */
  later: number
  /** Event ids in files that were quarantined which neither the topic nor the database has. */
  lost: string[]
}

/** The report of both datasets. */
export interface LakeRepairReport extends RepairReport {
  /** Why the tables of the newest state could not be written again although the files are repaired; null when they could. */
  tablesFailure: string | null
}

/** What is repaired of one dataset. */
interface Repaired<E extends TopicEvent> extends Pick<RewriteOptions<E>, 'store' | 'dataset' | 'topic' | 'makeEvents' | 'now'> {
  pool: Pool
  readTopic: (tables: ComparisonTables) => Promise<unknown>
  onStep: OnStep
}

/**
 * Repairs the faults that `verify` finds in the lake's files of events. A file that is damaged, or has doubled or altered rows, is quarantined and
 * rewritten; events that the lake lacks up to its end are added, from the topic or else from the database, and the sink writes those after it. No
 * sink of the dataset is active and no files are merged meanwhile. Can be killed at any point and run again. Throws LakeBusy when another repair
 * or merge is in progress, and LakeAhead when another database writes to this lake.
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
  return withLakeLock(url, async (assertHeld) => {
    const repairs = new LakeRepairs(store, assertHeld)
    const run = async <Row extends object, E extends TopicEvent>(partition: ComparedPartition<Row, E>) => {
      const { dataset, topic, stored } = partition
      const repaired: Repaired<E> = {
        ...{ ...options, dataset, topic, onStep },
        readTopic: (tables) => readTopic(partition, tables, 0, onStep),
        makeEvents: (ids) => makeEvents(pool, stored, ids),
      }
      const report = await withSubscriberLock(url, dataset.subscriber, () =>
        withComparisonTables((tables) => repair(tables, repairs, repaired), REWRITING),
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
        if (await hasEventTables(store)) await writeDerivedTables(store)
      } catch (error) {
        tablesFailure = (error as Error).message.split('\n')[0] ?? ''
      }
    }
    return {
      quarantined: reports.flatMap(({ quarantined }) => quarantined),
      written: reports.reduce((sum, { written }) => sum + written, 0),
      later: reports.reduce((sum, { later }) => sum + later, 0),
      lost: reports.flatMap(({ lost }) => lost),
      tablesFailure,
    }
  })
}

async function repair<E extends TopicEvent>(
  tables: ComparisonTables,
  repairs: LakeRepairs,
  { onStep, ...options }: Repaired<E>,
): Promise<RepairReport> {
  const { store, dataset, now } = options
  await assertNotAhead(options, await findLakeEnd(store, dataset.name))
  await repairs.start()
  // The tables must not lose files that they still have.
  const updateTables = async () => {
    if (await hasEventTables(store)) await commitEvents(store)
  }
  const orphans = await quarantineOrphans(store, dataset.name, () => findNewestAssignedSequence(options.pool, options.topic))
  // Finishes a killed repair, whose new file supersedes the old ones already.
  const days = new Set((await listLake(store, dataset.name)).map(({ name }) => parseName(name)?.ingestDate ?? ''))
  const faults: SupersedingFault[] = []
  for (const day of days) faults.push(...(await deleteSuperseded(store, dataset.name, day, updateTables)).faults)
  // These are read, too: they may have rows that the file that supersedes them lacks.
  const withSuperseded = new Set(faults.flatMap(({ superseded }) => superseded))
  const contents = await readLake(store, dataset, tables, { withSuperseded, onStep })
  // Another database may have begun to write since.
  await assertNotAhead(options, contents.lastSequence)
  await options.readTopic(tables)
  onStep('rewriting files of the lake')
  const files = new RewrittenFiles({ ...options, tables, repairs, beforeDelete: updateTables })
  const faulty = new Set(faults.map(({ name }) => name))
  for (const group of await findGroups(tables, contents, faulty)) await files.rewrite(group)
  await files.recordLost(orphans.keys)
  const added = await writeMissing({ ...options, tables, repairs }, contents.lastSequence, now().toISOString())
  await updateTables()
  const later = await tables.count(
    sql`select distinct event_id from topic_events anti join lake_events using (event_id) where sequence > ${contents.lastSequence}`,
  )
  return { quarantined: [...orphans.quarantined, ...files.quarantined], written: files.written + added, later, lost: [...files.lost] }
}

async function assertNotAhead<E extends TopicEvent>(compared: Pick<Repaired<E>, 'pool' | 'topic'>, lakeEnd: number): Promise<void> {
  const ahead = await findLakeAhead(compared, lakeEnd)
  if (ahead !== null) throw ahead
}

/** The files to rewrite, the `faulty` ones included. Afterwards `lake_events` has the rows that stay, `dropped_rows` the others. */
async function findGroups(tables: ComparisonTables, { files, corrupt }: LakeContents, faulty: ReadonlySet<string>): Promise<FileGroup[]> {
  const damaged = new Set(corrupt.filter(({ isMisnamed }) => !isMisnamed).map(({ name }) => name))
  const misnamed = new Set(corrupt.filter(({ isMisnamed }) => isMisnamed).map(({ name }) => name))
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
  const invalid = new Set(dropped.map(({ file }) => files[file]?.name ?? ''))
  return groupNested(
    files.map((file, index) => {
      const isDamaged = damaged.has(file.name)
      return { ...file, index, isDamaged, isKeptWhole: !isDamaged && !misnamed.has(file.name) && !invalid.has(file.name) }
    }),
    ({ name, isKeptWhole }) => !isKeptWhole || faulty.has(name),
  )
}

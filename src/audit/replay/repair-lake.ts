import { sql } from '../../db/sql.ts'
import { deleteSuperseded, type SupersedingFault } from '../../lake/delete-superseded.ts'
import { commitOrderEvents, hasOrderEvents } from '../../lake/iceberg/commit-order-events.ts'
import { findLakeEnd } from '../../lake/lake-end.ts'
import { withLakeLock } from '../../lake/lake-lock.ts'
import { parseName } from '../../lake/lake-names.ts'
import { LakeRepairs } from '../../lake/lake-repairs.ts'
import { listLake } from '../../lake/list-files.ts'
import type { OnStep } from '../on-step.ts'
import { findLakeAhead } from '../restore/find-data-loss.ts'
import { type ComparisonTables, withComparisonTables } from '../verify/comparison-tables.ts'
import { type LakeContents, readLake } from '../verify/read-lake.ts'
import { readTopic } from '../verify/read-topic.ts'
import { ALTERED_IN_LAKE } from '../verify/row-digest.ts'
import { type FileGroup, groupNested, type RewriteOptions, RewrittenFiles } from './rewrite-files.ts'
import { withSubscriberLock } from './subscriber-lock.ts'
import { writeMissing } from './write-missing.ts'

type RepairedStores = Omit<RewriteOptions, 'tables' | 'repairs' | 'beforeDelete'>

export interface RepairOptions extends RepairedStores {
  /** Address of the same database. */
  url: string
  onStep?: OnStep
}

export interface RepairReport {
  /** New places of the files that were rewritten. */
  setAside: string[]
  /** The number of events that the lake lacked, or had no sound row of. */
  written: number
  /** Event ids in files that were set aside which neither the topic nor an order has. */
  lost: string[]
}

/**
 * Repairs the faults that `verify` finds in the lake's files. A file that is damaged, or has doubled or altered rows, is set aside and
 * rewritten; events that the lake lacks up to its position are added, from the topic or else from `orders`. No sink is active and no
 * files are merged meanwhile. Can be killed at any point and run again. Throws LakeBusy when another repair or merge is in progress, and
 * LakeAhead when another database writes to this lake.
 */
export async function repairLake({ url, onStep = () => {}, ...options }: RepairOptions): Promise<RepairReport> {
  return withLakeLock(url, (assertHeld) =>
    withSubscriberLock(url, 'lake', () =>
      withComparisonTables((tables) => repair(tables, new LakeRepairs(options.store, assertHeld), options, onStep)),
    ),
  )
}

async function repair(tables: ComparisonTables, repairs: LakeRepairs, options: RepairedStores, onStep: OnStep): Promise<RepairReport> {
  const { store, topic, now } = options
  await assertNotAhead(options, await findLakeEnd(store))
  await repairs.start()
  // The table must not lose files that it still has.
  const updateTable = async () => {
    if (await hasOrderEvents(store)) await commitOrderEvents(store)
  }
  // Finishes a killed repair, whose new file supersedes the old ones already.
  const days = new Set((await listLake(store)).map(({ name }) => parseName(name)?.ingestDate ?? ''))
  const faults: SupersedingFault[] = []
  for (const day of days) faults.push(...(await deleteSuperseded(store, 'orders', day, updateTable)).faults)
  // These are read, too: they may have rows that the file that supersedes them lacks.
  const superseded = new Set(faults.flatMap(({ superseded }) => superseded))
  const contents = await readLake(store, tables, superseded, onStep)
  // Another database may have begun to write since.
  await assertNotAhead(options, contents.lastSequence)
  await readTopic(topic, tables, 0, onStep)
  onStep('rewriting files of the lake')
  const files = new RewrittenFiles({ ...options, tables, repairs, beforeDelete: updateTable })
  const faulty = new Set(faults.map(({ name }) => name))
  for (const group of await findGroups(tables, contents, faulty)) await files.rewrite(group)
  const added = await writeMissing({ store, topic, tables, repairs }, contents.lastSequence, now().toISOString())
  await updateTable()
  return { setAside: files.setAside, written: files.written + added, lost: [...files.lost] }
}

async function assertNotAhead(compared: Pick<RepairedStores, 'pool' | 'topic'>, lakeEnd: number): Promise<void> {
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
  const unsound = new Set(dropped.map(({ file }) => files[file]?.name ?? ''))
  return groupNested(
    files.map((file, index) => {
      const isDamaged = damaged.has(file.name)
      return { ...file, index, isDamaged, isKeptWhole: !isDamaged && !misnamed.has(file.name) && !unsound.has(file.name) }
    }),
    ({ name, isKeptWhole }) => !isKeptWhole || faulty.has(name),
  )
}

import { type Sql, sql } from '../../db/sql.ts'
import { findDamagedBytes } from '../../lake/find-damage.ts'
import { examineTable } from '../../lake/iceberg/examine-table.ts'
import { CATALOGUE_TABLES, DERIVED_TABLES, type LakeTableDefinition, ORDER_EVENTS } from '../../lake/iceberg/lake-table.ts'
import { currentSnapshot } from '../../lake/iceberg/table-metadata.ts'
import { TableStore } from '../../lake/iceberg/table-store.ts'
import { EVENTS, UP_TO } from '../../lake/iceberg/write-derived-tables.ts'
import { checkChecksum, WRONG_CHECKSUM } from '../../lake/lake-checksum.ts'
import { ifDamaged, readablePath } from '../../lake/lake-database.ts'
import type { DatasetName } from '../../lake/lake-names.ts'
import { type LakeFile, type LakeStore, repeatWhenGone } from '../../lake/lake-store.ts'
import type { ComparisonTables } from './comparison-tables.ts'
import type { LakeContents } from './read-lake.ts'

const MAX_ATTEMPTS = 5

export interface TablesRead {
  /** The number of tables that were written. */
  count: number
  /** Files and metadata that cannot be read, with the reason. */
  faults: string[]
  /** Tables whose metadata name another place, and that place. */
  moved: string[]
  /** Whether one of them is `order_events`. */
  isMoved: boolean
  /** Tables that are written as a whole and record how many events they contain. Earlier releases did not record it. */
  written: WrittenTable[]
}

interface WrittenTable {
  name: string
  dataset: DatasetName
  /** The last event that its rows contain. */
  upTo: number
  /** How many events it was made of. */
  events: number
}

/** Reads the events of the Iceberg table `order_events` into `table_events`, and examines every table. Read it before the lake, which it follows. */
export async function readTables(store: LakeStore, tables: ComparisonTables): Promise<TablesRead> {
  return repeatWhenGone(MAX_ATTEMPTS, async () => {
    await tables.run(sql`truncate table_events`)
    const versions = new Map<LakeTableDefinition, number>()
    const read: TablesRead = { count: 0, faults: [], moved: [], isMoved: false, written: [] }
    for (const definition of CATALOGUE_TABLES) {
      const { newest, files, faults, movedFrom } = await examineTable(store, definition)
      if (newest !== null) read.count += 1
      read.faults.push(...faults)
      if (movedFrom !== null) {
        read.moved.push(`${definition.name}: ${movedFrom}`)
        read.isMoved ||= definition === ORDER_EVENTS
      } else if (newest !== null) {
        const { [UP_TO]: upTo, [EVENTS]: events } = currentSnapshot(newest.metadata).summary
        const { name, dataset } = definition
        if (events !== undefined) read.written.push({ name, dataset, upTo: Number(upTo), events: Number(events) })
      }
      if (isDerived(definition)) versions.set(definition, newest?.version ?? 0)
      if (isDerived(definition)) read.faults.push(...(await findDamagedFiles(store, files)))
      if (definition === ORDER_EVENTS)
        read.faults.push(...(await readRows(store, files, (rows) => tables.runWide(sql`insert into table_events ${rows}`))))
    }
    // A second check: they may be written for the first time just now.
    const isBack = async ({ name }: LakeTableDefinition) => (await new TableStore(store, name).read()).newest !== null
    for (const table of findGoneTables(versions))
      if (!(await isBack(table))) read.faults.push(`${table.name}: the table is gone, and others that are written with it are there`)
    return read
  })
}

/** The tables of a dataset are written one after the other: one is gone when a later one is there, or an earlier one was written twice. */
function findGoneTables(versions: ReadonlyMap<LakeTableDefinition, number>): LakeTableDefinition[] {
  const all = [...versions]
  const gone = all.filter(([table, version], place) => {
    const isProof = ([other, times]: [LakeTableDefinition, number], at: number) =>
      other.dataset === table.dataset && times > (at > place ? 0 : 1)
    return version === 0 && all.some(isProof)
  })
  return gone.map(([table]) => table)
}

/** Whether a table is written as a whole, with the others of its dataset. */
function isDerived({ name }: LakeTableDefinition): boolean {
  return DERIVED_TABLES.some((derived) => derived.name === name)
}

async function findDamagedFiles(store: LakeStore, files: readonly LakeFile[]): Promise<string[]> {
  const faults: string[] = []
  for (const file of files) {
    const damage = await store.withCopies([file], ([path = '']) => findDamagedBytes(path), { isFresh: true })
    if (damage !== null) faults.push(`${store.locate(file.name)}: ${damage}`)
  }
  return faults
}

/** Tables of a dataset that lack events from before the one that they go up to: files of the lake were gone or damaged when they were written. */
export async function findIncomplete(
  tables: ComparisonTables,
  { written }: Pick<TablesRead, 'written'>,
  of: DatasetName,
): Promise<string[]> {
  const incomplete: string[] = []
  for (const { name, dataset, upTo, events } of written) {
    if (dataset !== of) continue
    const inLake = await tables.count(sql`select distinct event_id from lake_events where sequence <= ${upTo}`)
    if (events < inLake) incomplete.push(`${name}: it was made of ${events} of the ${inLake} events up to sequence ${upTo}`)
  }
  return incomplete
}

/** Inserts id and sequence of the rows of a table of events. Returns what cannot be read. */
export async function readRows(store: LakeStore, files: readonly LakeFile[], insert: (rows: Sql) => Promise<unknown>): Promise<string[]> {
  const faults: string[] = []
  await store.withCopies(files, async (paths) => {
    for (const [index, path] of paths.entries()) {
      const location = store.locate(files[index]?.name ?? '')
      if ((await checkChecksum(path)) === 'wrong') faults.push(`${location}: ${WRONG_CHECKSUM}`)
      const inserted = insert(sql`select event_id, sequence from read_parquet(${readablePath(path)}, hive_partitioning = false)`)
      const isRead = await inserted.then(() => true).catch(ifDamaged(false))
      if (!isRead) faults.push(`${location}: it cannot be read`)
    }
  })
  return faults
}

/**
 * Finds the events in the lake that their table lacks. They are late when the table goes further, or when their file is older than `dueBefore`,
 * in milliseconds since 1970; and never while the table is that of another place.
 */
export async function addUnregistered(
  tables: ComparisonTables,
  { files }: LakeContents,
  { isMoved }: Pick<TablesRead, 'isMoved'>,
  dueBefore: number,
): Promise<void> {
  await tables.add(
    'late_files',
    files.flatMap(({ storedAt }, file) => (storedAt < dueBefore ? [{ file }] : [])),
  )
  await tables.run(sql`
    insert into unregistered_events
    select
      event_id,
      (${isMoved ? 0 : 1} = 1 and (sequence <= (select coalesce(max(sequence), 0) from table_events) or file in (from late_files)))::bigint
    from lake_events anti join table_events using (event_id)`)
}

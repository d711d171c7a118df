import { type Sql, sql } from '../../db/sql.ts'
import { isHere } from '../../lake/iceberg/commit-snapshot.ts'
import { examineTable } from '../../lake/iceberg/examine-table.ts'
import { CATALOGUE_TABLES, DERIVED_TABLES, ORDER_EVENTS } from '../../lake/iceberg/lake-table.ts'
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
  /** Of those that were written. */
  count: number
  /** Files and metadata that cannot be read, with the reason. */
  faults: string[]
  /** Tables whose metadata name another place, and that place. */
  moved: string[]
  /** Whether one of them is `order_events`. */
  isMoved: boolean
}

/** Reads the events of the Iceberg table `order_events` into `table_events`, and examines every table. Read it before the lake, which it follows. */
export async function readTables(store: LakeStore, tables: ComparisonTables): Promise<TablesRead> {
  return repeatWhenGone(MAX_ATTEMPTS, async () => {
    await tables.run(sql`truncate table_events`)
    const read: TablesRead = { count: 0, faults: [], moved: [], isMoved: false }
    for (const definition of CATALOGUE_TABLES) {
      const { newest, files, faults, movedFrom } = await examineTable(store, definition)
      if (newest !== null) read.count += 1
      read.faults.push(...faults)
      if (movedFrom !== null) {
        read.moved.push(`${definition.name}: ${movedFrom}`)
        read.isMoved ||= definition === ORDER_EVENTS
      }
      if (definition === ORDER_EVENTS)
        read.faults.push(...(await readRows(store, files, (rows) => tables.run(sql`insert into table_events ${rows}`))))
    }
    return read
  })
}

/** A table that is written as a whole. */
interface WrittenTable {
  name: string
  /** The last event that its rows contain. */
  upTo: number
  /** How many events it was made of. */
  events: number
}

/** The tables of a dataset that are written as a whole. Read them before the lake, which they follow. */
export async function readWrittenTables(store: LakeStore, dataset: DatasetName): Promise<WrittenTable[]> {
  const written: WrittenTable[] = []
  for (const definition of DERIVED_TABLES.filter((table) => table.dataset === dataset)) {
    const table = new TableStore(store, definition.name)
    const { newest } = await table.read()
    if (newest === null || !isHere(table, newest.metadata)) continue
    const { [UP_TO]: upTo, [EVENTS]: events } = currentSnapshot(newest.metadata).summary
    // Earlier releases did not count them.
    if (events !== undefined) written.push({ name: definition.name, upTo: Number(upTo), events: Number(events) })
  }
  return written
}

/** Tables that lack events from before the one that they go up to: files of the lake were gone or damaged when they were written. */
export async function findIncomplete(tables: ComparisonTables, written: readonly WrittenTable[]): Promise<string[]> {
  const incomplete: string[] = []
  for (const { name, upTo, events } of written) {
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

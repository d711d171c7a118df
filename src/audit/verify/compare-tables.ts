import { sql } from '../../db/sql.ts'
import { findDamagedBytes } from '../../lake/find-damage.ts'
import { examineTable } from '../../lake/iceberg/examine-table.ts'
import { CATALOGUE_TABLES, DERIVED_TABLES, type LakeTableDefinition } from '../../lake/iceberg/lake-table.ts'
import { currentSnapshot } from '../../lake/iceberg/table-metadata.ts'
import { TableStore } from '../../lake/iceberg/table-store.ts'
import { EVENTS, UP_TO } from '../../lake/iceberg/write-derived-tables.ts'
import type { DatasetName } from '../../lake/lake-names.ts'
import { type LakeFile, type LakeStore, repeatWhenGone } from '../../lake/lake-store.ts'
import type { ComparisonTables } from './comparison-tables.ts'

const MAX_ATTEMPTS = 5

export interface TablesRead {
  count: number
  faults: string[]
  /** Tables of the newest state whose metadata name another place. */
  moved: string[]
  /** Earlier releases did not record the number of events. */
  written: WrittenTable[]
}

interface WrittenTable {
  name: string
  dataset: DatasetName
  upTo: number
  events: number
}

/** `readLake` reads the files of the tables of events. */
export async function readTables(store: LakeStore): Promise<TablesRead> {
  return repeatWhenGone(MAX_ATTEMPTS, async () => {
    const versions = new Map<LakeTableDefinition, number>()
    const read: TablesRead = { count: 0, faults: [], moved: [], written: [] }
    for (const definition of CATALOGUE_TABLES) {
      const { newest, files, faults, movedFrom } = await examineTable(store, definition)
      if (newest !== null) read.count += 1
      read.faults.push(...faults)
      // The next file of events moves the others.
      if (!isDerived(definition)) continue
      if (movedFrom !== null) read.moved.push(`${definition.name}: ${movedFrom}`)
      versions.set(definition, newest?.version ?? 0)
      read.faults.push(...(await findDamagedFiles(store, files)))
      if (movedFrom !== null || newest === null) continue
      const { [UP_TO]: upTo, [EVENTS]: events } = currentSnapshot(newest.metadata).summary
      const { name, dataset } = definition
      if (events !== undefined) read.written.push({ name, dataset, upTo: Number(upTo), events: Number(events) })
    }
    // The tables may be written for the first time at this moment.
    const isBack = async ({ name }: LakeTableDefinition) => (await new TableStore(store, name).read()).newest !== null
    for (const table of findGoneTables(versions))
      if (!(await isBack(table))) read.faults.push(`${table.name}: the table is gone, and others that are written with it are there`)
    return read
  })
}

/** Tables are written in turn: one is gone when a later one exists, or an earlier one was written twice. */
function findGoneTables(versions: ReadonlyMap<LakeTableDefinition, number>): LakeTableDefinition[] {
  const all = [...versions]
  const gone = all.filter(([table, version], place) => {
    const isProof = ([other, times]: [LakeTableDefinition, number], at: number) =>
      other.dataset === table.dataset && times > (at > place ? 0 : 1)
    return version === 0 && all.some(isProof)
  })
  return gone.map(([table]) => table)
}

/** Whether a table is made from the event table of its dataset. */
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

/** Lake files were missing or damaged when these tables were written. */
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

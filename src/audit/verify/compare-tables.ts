import { sql } from '../../db/sql.ts'
import { examineTable } from '../../lake/iceberg/examine-table.ts'
import { CATALOGUE_TABLES, ORDER_EVENTS } from '../../lake/iceberg/lake-table.ts'
import { ifDamaged, readablePath } from '../../lake/lake-database.ts'
import { type LakeStore, repeatWhenGone } from '../../lake/lake-store.ts'
import type { ComparisonTables } from './comparison-tables.ts'

const MAX_ATTEMPTS = 5

export interface TablesRead {
  /** Of those that were written. */
  count: number
  /** Files and metadata that cannot be read, with the reason. */
  faults: string[]
}

/** Reads the events of the Iceberg table `order_events` into `table_events`, and examines every table. Read it before the lake, which it follows. */
export async function readTables(store: LakeStore, tables: ComparisonTables): Promise<TablesRead> {
  return repeatWhenGone(MAX_ATTEMPTS, async () => {
    await tables.run(sql`truncate table_events`)
    const read: TablesRead = { count: 0, faults: [] }
    for (const definition of CATALOGUE_TABLES) {
      const { newest, files, faults } = await examineTable(store, definition)
      if (newest !== null) read.count += 1
      read.faults.push(...faults)
      if (definition === ORDER_EVENTS) {
        await store.withCopies(files, async (paths) => {
          for (const [index, path] of paths.entries()) {
            const insert = tables.run(
              sql`insert into table_events select event_id, sequence from read_parquet(${readablePath(path)}, hive_partitioning = false)`,
            )
            const isRead = await insert.then(() => true).catch(ifDamaged(false))
            if (!isRead) read.faults.push(`${store.locate(files[index]?.name ?? '')}: it cannot be read`)
          }
        })
      }
    }
    return read
  })
}

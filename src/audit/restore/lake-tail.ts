import { sql } from '../../db/sql.ts'
import { checkChecksum } from '../../lake/lake-checksum.ts'
import { ifDamaged, parquetRows } from '../../lake/lake-database.ts'
import type { DatasetName } from '../../lake/lake-names.ts'
import type { LakeStore } from '../../lake/lake-store.ts'
import { readPresentFiles } from '../../lake/list-files.ts'
import { queryDuckDB } from '../../lake/query-duckdb.ts'

export interface LakeEvent {
  eventId: string
  sequence: number
  orderNumber: number
}

/**
 * Calls `visit` once for each file, and again for files that are replaced meanwhile. With `upTo`, only the newest file
 * up to that sequence is read. Corrupt and missing files are skipped, because `verify` reports them.
 */
export async function visitLakeAfter(
  store: LakeStore,
  dataset: DatasetName,
  after: number,
  upTo: number | null,
  visit: (events: LakeEvent[]) => Promise<void>,
): Promise<void> {
  await readPresentFiles(
    store,
    dataset,
    async (paths) => {
      for (const path of paths) await visit(await readFile(path, dataset, after))
    },
    (listed) => {
      const wanted = listed.filter(({ last }) => last > after && last <= (upTo ?? Number.POSITIVE_INFINITY))
      return upTo === null ? wanted : wanted.toSorted((a, b) => b.last - a.last).slice(0, 1)
    },
  )
}

// A damaged id must neither fail the comparison nor look like a lost event.
const UUID = '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}'
const EVENT_IDS = { orders: `${UUID}[.][1-9][0-9]{0,8}`, catalogue: `${UUID}([.]stock)?[.][1-9][0-9]{0,9}` }

async function readFile(path: string, dataset: DatasetName, after: number): Promise<LakeEvent[]> {
  if ((await checkChecksum(path)) === 'wrong') return []
  const select = sql`
    select event_id, sequence, ${dataset === 'orders' ? sql`coalesce(try_cast(order_number as bigint), 0)` : sql`0`}
    from ${parquetRows([path])}
    where sequence > ${after} and regexp_full_match(event_id, ${EVENT_IDS[dataset]})`
  const rows = await queryDuckDB(select).catch(ifDamaged([]))
  return rows.map(([eventId, sequence, orderNumber]) => ({
    eventId: String(eventId),
    sequence: Number(sequence),
    orderNumber: Number(orderNumber),
  }))
}

import { randomUUID } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DuckDBConnection, DuckDBValue } from '@duckdb/node-api'
import { commaList, noSql, type Sql, sql } from '../db/sql.ts'
import { parquetRows, toDuckDB, withDuckDB } from './lake-database.ts'
import type { LakeStore } from './lake-store.ts'
import { readLakeFiles } from './list-files.ts'

/** How far the clocks of the store's processes and that of the lake's files may be apart. */
const CLOCK_SKEW_MS = 15 * 60_000

/**
 * A time in milliseconds since 1970 that no event in the lake is newer than; null for an empty lake. A file cannot hold an event
 * from after its own time, so only the files of the last minutes are read.
 */
export async function findNewestEventTime(store: LakeStore): Promise<number | null> {
  let newest: number | null = null
  const times = await readLakeFiles(
    store,
    (_, paths) => selectFrom(paths, sql`select epoch_ms(max(event_time))`, noSql),
    (files) => {
      const newestFile = files.reduce((time, { storedAt }) => Math.max(time, storedAt), 0)
      newest = files.length === 0 ? null : newestFile
      return files.filter(({ storedAt }) => storedAt >= newestFile - CLOCK_SKEW_MS)
    },
  )
  return times.reduce<number | null>((latest, time) => (time === null ? latest : Math.max(latest ?? 0, Number(time))), newest)
}

/** Which of these events the lake has. Files from before the oldest of them are not looked at. */
export async function findStored(store: LakeStore, events: readonly { eventId: string; eventTime: number }[]): Promise<Set<string>> {
  const oldest = events.reduce((time, event) => Math.min(time, event.eventTime), Number.POSITIVE_INFINITY)
  const wanted = sql`where event_id in (select unnest([${commaList(events.map(({ eventId }) => eventId))}]))`
  const found = await readLakeFiles(
    store,
    (_, paths) => selectFrom(paths, sql`select distinct event_id`, wanted),
    (files) => files.filter(({ storedAt }) => storedAt >= oldest - CLOCK_SKEW_MS),
  )
  return new Set(found.map(String))
}

/** The first column of a query on the files. A corrupt one is passed over: it is for verify to name it, and not to hold up the lake. */
async function selectFrom(files: readonly string[], select: Sql, where: Sql): Promise<DuckDBValue[]> {
  if (files.length === 0) return []
  return withDuckDB(join(tmpdir(), `storefront-lake-${randomUUID()}`), async (connection) => {
    const query = (some: readonly string[]) => runQuery(connection, sql`${select} from ${parquetRows(some)} ${where}`)
    return query(files).catch(async () => {
      const values: DuckDBValue[] = []
      for (const file of files) values.push(...(await query([file]).catch(() => [])))
      return values
    })
  })
}

async function runQuery(connection: DuckDBConnection, statement: Sql): Promise<DuckDBValue[]> {
  return (await connection.runAndReadAll(toDuckDB(statement))).getRows().map(([value = null]) => value)
}

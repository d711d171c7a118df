import type { DuckDBValue } from '@duckdb/node-api'
import { commaList, noSql, type Sql, sql } from '../db/sql.ts'
import { ifDamaged, isFaultOfMachine, makeSpillPath, parquetRows, withDuckDB } from './lake-database.ts'
import type { DatasetName } from './lake-names.ts'
import type { LakeStore } from './lake-store.ts'
import { readLakeFiles } from './list-files.ts'
import { selectRows } from './query-duckdb.ts'

/** The largest expected difference between the clocks of the store's processes and that of the lake's files. */
const CLOCK_SKEW_MS = 15 * 60_000

/**
 * An upper bound of the event times in a dataset of the lake, in milliseconds since 1970; null for an empty lake. A file contains no
 * event that is newer than itself, so only the files of the last minutes are read.
 */
export async function findNewestEventTime(store: LakeStore, dataset: DatasetName): Promise<number | null> {
  let newest: number | null = null
  const times = await readLakeFiles(
    store,
    dataset,
    (_, paths) => selectFrom(paths, sql`select epoch_ms(max(event_time))`, noSql),
    (files) => {
      const newestFile = files.reduce((time, { storedAt }) => Math.max(time, storedAt), 0)
      newest = files.length === 0 ? null : newestFile
      return files.filter(({ storedAt }) => storedAt >= newestFile - CLOCK_SKEW_MS)
    },
  )
  return times.reduce<number | null>((latest, time) => (time === null ? latest : Math.max(latest ?? 0, Number(time))), newest)
}

/** The ids of these events that a lake dataset has. Files older than the oldest of them are not read. */
export async function findStored(
  store: LakeStore,
  dataset: DatasetName,
  events: readonly { eventId: string; eventTime: number }[],
): Promise<Set<string>> {
  const oldest = events.reduce((time, event) => Math.min(time, event.eventTime), Number.POSITIVE_INFINITY)
  const wanted = sql`where event_id in (select unnest([${commaList(events.map(({ eventId }) => eventId))}]))`
  const found = await readLakeFiles(
    store,
    dataset,
    (_, paths) => selectFrom(paths, sql`select distinct event_id`, wanted),
    (files) => files.filter(({ storedAt }) => storedAt >= oldest - CLOCK_SKEW_MS),
  )
  return new Set(found.map(String))
}

/** The first column of a query on the files. Skips damaged ones, so that they do not stop the lake: verify reports them. */
async function selectFrom(files: readonly string[], select: Sql, where: Sql): Promise<DuckDBValue[]> {
  if (files.length === 0) return []
  return withDuckDB(makeSpillPath(), async (connection) => {
    const query = async (some: readonly string[]) =>
      (await selectRows(connection, sql`${select} from ${parquetRows(some)} ${where}`)).map(([value = null]) => value)
    return query(files).catch(async (error: unknown) => {
      // Events that cannot be looked up now must not count as new ones.
      if (isFaultOfMachine(error)) throw error
      const values: DuckDBValue[] = []
      for (const file of files) values.push(...(await query([file]).catch(ifDamaged([]))))
      return values
    })
  })
}

import { randomUUID } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DuckDBConnection, DuckDBValue } from '@duckdb/node-api'
import { quoteReadPath, quoteText, withDuckDB } from './lake-database.ts'

/** The time of the newest event in these files, in milliseconds since 1970; null when they hold none. */
export async function findNewestEventTime(files: readonly string[]): Promise<number | null> {
  const times = await selectFrom(files, 'select epoch_ms(max(event_time))', '')
  return times.reduce<number | null>((newest, time) => (time === null ? newest : Math.max(newest ?? 0, Number(time))), null)
}

/** Which of these events are in the files. Event ids are sorted by time, so files of other times are passed over by their statistics. */
export async function findStored(files: readonly string[], eventIds: readonly string[]): Promise<Set<string>> {
  const wanted = `where event_id in (select unnest([${eventIds.map(quoteText).join(', ')}]))`
  return new Set((await selectFrom(files, 'select distinct event_id', wanted)).map(String))
}

/** The first column of a query on the files. A corrupt one is passed over: it is for verify to name it, and not to hold up the lake. */
async function selectFrom(files: readonly string[], select: string, where: string): Promise<DuckDBValue[]> {
  if (files.length === 0) return []
  return withDuckDB(join(tmpdir(), `storefront-lake-${randomUUID()}`), async (connection) => {
    const query = (some: readonly string[]) => runQuery(connection, `${select} from ${asTable(some)} ${where}`)
    return query(files).catch(async () => {
      const values: DuckDBValue[] = []
      for (const file of files) values.push(...(await query([file]).catch(() => [])))
      return values
    })
  })
}

async function runQuery(connection: DuckDBConnection, sql: string): Promise<DuckDBValue[]> {
  return (await connection.runAndReadAll(sql)).getRows().map(([value = null]) => value)
}

function asTable(files: readonly string[]): string {
  return `read_parquet([${files.map(quoteReadPath).join(', ')}], union_by_name = true, hive_partitioning = false)`
}

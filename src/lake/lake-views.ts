import type { DuckDBConnection } from '@duckdb/node-api'
import { currenciesWithDigits } from '../currency.ts'
import { commaList, identifier, noSql, type Sql, sql } from '../db/sql.ts'
import { ACTIVITY_COLUMNS } from './activity-files.ts'
import { readablePath, toDuckDB } from './lake-database.ts'
import { EVENT_COLUMNS, ORDER_COLUMNS } from './lake-tables.ts'

/** Null in rows from before the column was added. */
const EXPONENT: Sql = sql`coalesce(currency_exponent, case
  when currency in (${commaList(currenciesWithDigits(0))}) then 0 when currency in (${commaList(currenciesWithDigits(3))}) then 3 else 2 end)`

/** Creates the views `order_events` and `orders` of these files. */
export async function createViews(connection: DuckDBConnection, files: readonly string[]): Promise<void> {
  // The first branch defines columns and types, also for a lake without files or whose files lack a column.
  const none = sql`select ${commaList(Object.entries(EVENT_COLUMNS).map(([name, type]) => sql`null::${type} as ${identifier(name)}`))} where false`
  const some = sql`
    union all by name
    select *
    from read_parquet(
      [${commaList(files.map(readablePath))}],
      union_by_name = true,
      hive_partitioning = true,
      hive_types = { ingest_date: DATE }
    )`
  const rows = sql`${none} ${files.length > 0 ? some : noSql}`
  await connection.run(toDuckDB(sql`create view order_events as select * replace (${EXPONENT} as currency_exponent) from (${rows})`))
  await connection.run(
    toDuckDB(sql`
      create view orders as
      select ${commaList(Object.entries(ORDER_COLUMNS).map(([name, [value]]) => sql`${value} as ${identifier(name)}`))}
      from order_events
      qualify row_number() over (partition by order_id order by version desc) = 1`),
  )
}

/** Creates the view `activities` of these files. */
export async function createActivityView(connection: DuckDBConnection, files: readonly string[]): Promise<void> {
  const columns = Object.entries(ACTIVITY_COLUMNS)
  const none = sql`select ${commaList(columns.map(([name, type]) => sql`null::${type} as ${identifier(name)}`))} where false`
  const some = sql`
    union all by name
    select * from read_parquet([${commaList(files.map(readablePath))}], union_by_name = true, hive_partitioning = false)`
  await connection.run(toDuckDB(sql`create view activities as ${none} ${files.length > 0 ? some : noSql}`))
}

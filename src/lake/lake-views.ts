import type { DuckDBConnection } from '@duckdb/node-api'
import { commaList, identifier, noSql, type Sql, sql } from '../db/sql.ts'
import { CATALOGUE_COLUMNS } from './catalogue-row.ts'
import { CATALOGUE_VIEWS, exponentOf } from './catalogue-tables.ts'
import { isFaultOfMachine, readablePath, toDuckDB } from './lake-database.ts'
import type { DatasetName } from './lake-names.ts'
import { EVENT_COLUMNS, ORDER_COLUMNS } from './lake-tables.ts'
import type { LakePaths } from './list-files.ts'
import { ORDER_VIEWS } from './order-tables.ts'

/** Rows written before the column existed have null, hence the fallback. */
const EXPONENT = sql`coalesce(currency_exponent, ${exponentOf(sql`currency`)})`

export interface BrokenViews {
  names: readonly string[]
  reason: unknown
}

/** Creates all views. Returns those that a damaged file prevents, because a query may need only the others. */
export async function createAllViews(connection: DuckDBConnection, paths: LakePaths): Promise<BrokenViews[]> {
  const broken: BrokenViews[] = []
  const attempt = (names: readonly string[], work: Promise<void>) =>
    work.catch((reason: unknown) => {
      if (isFaultOfMachine(reason)) throw reason
      broken.push({ names, reason })
    })
  await attempt(['order_events', 'orders', ...ORDER_VIEWS.map(({ name }) => name)], createViews(connection, 'orders', paths.orders))
  await attempt(['catalogue_events', ...CATALOGUE_VIEWS.map(({ name }) => name)], createViews(connection, 'catalogue', paths.catalogue))
  return broken
}

export function reasonOf(error: unknown, broken: readonly BrokenViews[]): unknown {
  const name = /^Catalog Error: Table with name (\w+) does not exist/.exec(error instanceof Error ? error.message : '')?.[1]
  return broken.find(({ names }) => name !== undefined && names.includes(name.toLowerCase()))?.reason ?? error
}

/** The rows after `sequence`, with `earlier` in place of the others. */
export interface Since {
  sequence: number
  earlier: Sql
}

export function createViews(connection: DuckDBConnection, dataset: DatasetName, files: readonly string[], since?: Since): Promise<void> {
  return dataset === 'orders' ? createOrderViews(connection, files, since) : createCatalogueViews(connection, files, since)
}

async function createOrderViews(connection: DuckDBConnection, files: readonly string[], since?: Since): Promise<void> {
  const rows = rowsOf(EVENT_COLUMNS, files, since)
  await connection.run(
    toDuckDB(sql`create or replace view order_events as select * replace (${EXPONENT} as currency_exponent) from (${rows})`),
  )
  await connection.run(
    toDuckDB(sql`
      create or replace view orders as
      select ${commaList(Object.entries(ORDER_COLUMNS).map(([name, [value]]) => sql`${value} as ${identifier(name)}`))}
      from order_events
      qualify row_number() over (partition by order_id order by version desc) = 1`),
  )
  for (const { name, select } of ORDER_VIEWS) await connection.run(toDuckDB(sql`create or replace view ${identifier(name)} as ${select}`))
}

async function createCatalogueViews(connection: DuckDBConnection, files: readonly string[], since?: Since): Promise<void> {
  const rows = rowsOf({ ...CATALOGUE_COLUMNS, ingest_date: sql`DATE` }, files, since)
  await connection.run(toDuckDB(sql`create or replace view catalogue_events as ${rows}`))
  for (const { name, select } of CATALOGUE_VIEWS)
    await connection.run(toDuckDB(sql`create or replace view ${identifier(name)} as ${select}`))
}

/** Rows of the files. The first branch defines columns and types, even without files or if files lack a column. */
function rowsOf(columns: Readonly<Record<string, Sql>>, files: readonly string[], since?: Since): Sql {
  const none = sql`select ${commaList(Object.entries(columns).map(([name, type]) => sql`null::${type} as ${identifier(name)}`))} where false`
  const some = sql`
    union all by name
    select *
    from read_parquet(
      [${commaList(files.map(readablePath))}],
      union_by_name = true,
      hive_partitioning = true,
      hive_types = { ingest_date: DATE }
    )`
  const after = since === undefined ? noSql : sql`where sequence > ${since.sequence} union all by name ${since.earlier}`
  return sql`${none} ${files.length > 0 ? sql`${some} ${after}` : noSql}`
}

import type { DuckDBConnection } from '@duckdb/node-api'
import { commaList, identifier, type Sql, sql } from '../../db/sql.ts'
import { parquetRows, toDuckDB } from '../lake-database.ts'
import { createViews } from '../lake-views.ts'
import { selectRows } from '../query-duckdb.ts'
import { fieldIdOf } from './field-ids.ts'
import type { DerivedTable } from './lake-table.ts'
import type { DataFile } from './manifest.ts'

/** A file is split from twice as many rows on: the rows of a change are written again with all others of their file. */
const FILE_ROWS = 10_000

/** Rows that get files of their own: those of a present file, and the changed ones of its range. */
export interface FileGroup {
  /** The index of the file; null where the table has none for the rows. */
  file: number | null
  month: number | null
}

/** The rows of a table of the newest state that events change, in a DuckDB. Its methods are called in order. */
export class ChangedRows {
  readonly #connection: DuckDBConnection
  readonly #table: DerivedTable
  readonly #fileRows: number

  /** `fileRows`: the least number of rows of a file that is split from a larger one. */
  constructor(connection: DuckDBConnection, table: DerivedTable, fileRows = FILE_ROWS) {
    this.#connection = connection
    this.#table = table
    this.#fileRows = fileRows
  }

  /** Finds what the events after `after` change. Returns the number of these events. */
  async find(events: readonly string[], after: number): Promise<number> {
    const { id, monthOf, changes } = this.#table
    const month = monthOf === undefined ? sql`0` : sql`(year(${identifier(monthOf)}) - 1970) * 12 + month(${identifier(monthOf)}) - 1`
    const rows = sql`from ${parquetRows(events)} where sequence > ${after}`
    await this.#create(
      'touched',
      sql`
      select distinct ${identifier(id)} as touched_id, ${this.#keyOf('events')} as touched_key, ${month} as touched_month
      from (select * ${rows}) as events
      where ${identifier(id)} is not null and ${changes}`,
    )
    return this.#count(sql`select count(*) ${rows}`)
  }

  /** Finds the files in whose range the changed rows are. Files of a month have each a range of keys of its own. */
  async place(files: readonly DataFile[]): Promise<FileGroup[]> {
    const { columns, key } = this.#table
    const type = isTime(columns[key]) ? sql`BIGINT` : sql`VARCHAR`
    const ranges = files.map((file, index) => sql`(${index}, ${file.partition.month ?? 0}, ${lowestKey(file, this.#table)})`)
    await this.#create(
      'ranges',
      sql`
      select file::integer as file, month::integer as month, lower::${type} as lower
      from (values ${commaList([...ranges, sql`(null, null, null)`])}) as ranges (file, month, lower)
      where file is not null`,
    )
    await this.#create(
      'placed',
      sql`
      select touched.*, coalesce(own.file, least.file) as touched_file
      from touched
        asof left join ranges as own on touched_month = own.month and touched_key >= own.lower
        left join (select month, arg_min(file, lower) as file from ranges group by month) as least on touched_month = least.month`,
    )
    const groups = await selectRows(this.#connection, sql`select distinct touched_file, touched_month from placed order by all`)
    return groups.map(([file, month]) => ({ file: toNumber(file), month: this.#table.monthOf === undefined ? null : toNumber(month) }))
  }

  /** Makes the changed rows. `earlier`: files whose rows stand for the events up to `after`, and maybe for later ones. */
  async make(events: readonly string[], after: number, earlier: readonly string[]): Promise<void> {
    const { dataset, history, id, select } = this.#table
    const rows =
      history === null || earlier.length === 0
        ? sql`select null::bigint as sequence where false`
        : sql`
          select ${history.toEvent}
          from ${parquetRows(earlier)}
            anti join (select ${identifier(history.id)}, version from ${parquetRows(events)} where sequence > ${after})
              using (${identifier(history.id)}, version)
          where ${identifier(id)} in (select touched_id from touched)`
    await createViews(this.#connection, dataset, events, after === 0 ? undefined : { sequence: after, earlier: rows })
    await this.#create(
      'changed',
      sql`
      select made.*, touched_file, touched_month
      from (${select}) as made join placed on made.${identifier(id)} = touched_id and ${this.#keyOf('made')} = touched_key`,
    )
  }

  /** Collects the rows of a group. Returns queries of the rows of a file each. */
  async collect({ file, month }: FileGroup, path: string | null): Promise<Sql[]> {
    const { id, order } = this.#table
    const kept =
      path === null
        ? sql``
        : sql`union all by name
          select * from ${parquetRows([path])} where ${identifier(id)} not in (select touched_id from touched)`
    await this.#create(
      'group_rows',
      sql`
      select * exclude (touched_file, touched_month)
      from changed
      where touched_file is not distinct from ${sqlOf(file)} and touched_month = ${month ?? 0}
      ${kept}`,
    )
    const rows = await this.#count(sql`select count(*) from group_rows`)
    if (rows === 0) return []
    const key = this.#keyOf('group_rows')
    const parts = Math.max(1, Math.floor(rows / this.#fileRows))
    const starts = await selectRows(
      this.#connection,
      sql`
      select distinct min(key) as start
      from (select ${key} as key, ((row_number() over (order by ${key}) - 1) * ${parts}) // ${rows} as part from group_rows)
      group by part
      order by start`,
    )
    return starts.map(([start], index) => {
      const end = starts[index + 1]?.[0]
      const from = index === 0 ? sql`true` : sql`${key} >= ${sqlOf(start)}`
      return sql`select * from group_rows where ${from} and ${end === undefined ? sql`true` : sql`${key} < ${sqlOf(end)}`} order by ${order}`
    })
  }

  /** DuckDB: the value by whose ranges rows are in files. */
  #keyOf(alias: string): Sql {
    const { columns, key } = this.#table
    const column = sql`${identifier(alias)}.${identifier(key)}`
    return isTime(columns[key]) ? sql`epoch_us(${column})` : column
  }

  async #create(name: string, rows: Sql): Promise<void> {
    await this.#connection.run(toDuckDB(sql`create or replace temp table ${identifier(name)} as ${rows}`))
  }

  async #count(statement: Sql): Promise<number> {
    const [row = []] = await selectRows(this.#connection, statement)
    return Number(row[0])
  }
}

/** The least key of a file, as DuckDB compares it. */
function lowestKey({ file_path, lower_bounds }: DataFile, { columns, key }: DerivedTable): Sql {
  const bytes = lower_bounds.find((bound) => bound.key === fieldIdOf(key))?.value
  if (bytes === undefined) throw new RangeError(`${file_path} has no bound of ${key}`)
  return sql`${isTime(columns[key]) ? Number(Buffer.from(bytes).readBigInt64LE()) : Buffer.from(bytes).toString()}`
}

function isTime(type: Sql | undefined): boolean {
  return type?.text === 'TIMESTAMPTZ'
}

function sqlOf(value: unknown): Sql {
  return value == null ? sql`null` : sql`${typeof value === 'string' ? value : Number(value)}`
}

function toNumber(value: unknown): number | null {
  return value == null ? null : Number(value)
}

import type { DuckDBConnection } from '@duckdb/node-api'
import { commaList, identifier, type Sql, sql } from '../../db/sql.ts'
import { parquetRows, toDuckDB } from '../lake-database.ts'
import { createViews } from '../lake-views.ts'
import { selectRows } from '../query-duckdb.ts'
import { eventTableOf } from './event-table.ts'
import { fieldIdOf } from './field-ids.ts'
import type { DerivedTable } from './lake-table.ts'
import type { DataFile } from './manifest.ts'

/** A file with twice this number of rows is split. A change writes all rows of a file again. */
const FILE_ROWS = 10_000

/** The changed rows cannot be computed from the rows of the table, so the table must be written as a whole. */
export class NeedsWhole extends Error {
  override readonly name = 'NeedsWhole'
}

export interface FileGroup {
  file: number | null
  month: number | null
}

/** The changed rows of a table of the newest state, in DuckDB. Its methods are called in order. */
export class ChangedRows {
  readonly #connection: DuckDBConnection
  readonly #table: DerivedTable
  readonly #fileRows: number

  /** `fileRows` is the least number of rows in each file after a split. */
  constructor(connection: DuckDBConnection, table: DerivedTable, fileRows = FILE_ROWS) {
    this.#connection = connection
    this.#table = table
    this.#fileRows = fileRows
  }

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

  /** Finds the files whose ranges contain the changed rows. Within a month, each file has a separate range of keys. */
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

  /**
   * Computes the changed rows. The rows of the files `earlier` represent the events up to `after`, and perhaps later
   * ones. Throws NeedsWhole.
   */
  async make(events: readonly string[], after: number, earlier: readonly string[]): Promise<void> {
    const { dataset, history, id, select } = this.#table
    const of = identifier(history?.id ?? id)
    await this.#create(
      'earlier',
      history === null || earlier.length === 0
        ? sql`select null::varchar as ${of}, null::integer as version where false`
        : sql`select ${history.toEvent} from ${parquetRows(earlier)} where ${identifier(id)} in (select touched_id from touched)`,
    )
    const rows = sql`
      select *
      from earlier
        anti join (select ${of}, version from ${parquetRows(events)} where sequence > ${after}) using (${of}, version)`
    await createViews(this.#connection, dataset, events, after === 0 ? undefined : { sequence: after, earlier: rows })
    if (after > 0) await this.#assertKnown(after)
    await this.#create(
      'changed',
      sql`
      select made.*, touched_file, touched_month
      from (${select}) as made join placed on made.${identifier(id)} = touched_id and ${this.#keyOf('made')} = touched_key`,
    )
  }

  /** A row that represents all earlier events hides the events before it. A row whose key has changed is not found. */
  async #assertKnown(after: number): Promise<void> {
    const { name, dataset, history, id, key } = this.#table
    if (history?.begins === undefined) return
    const of = identifier(history.id)
    const late = name === history.table ? sql`least < earlier.version` : sql`false`
    const lost = key === id ? sql`false` : sql`earlier.version is null and begins is not true`
    const unknown = await this.#count(sql`
      select count(*)
      from (
        select ${of}, min(version) as least, bool_or(${history.begins}) as begins
        from ${identifier(eventTableOf(dataset).name)}
        where sequence > ${after}
        group by all
      ) as new left join earlier using (${of})
      where ${late} or ${lost}`)
    if (unknown > 0) throw new NeedsWhole(`${unknown} rows of ${name}`)
  }

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
    await this.#create(
      'starts',
      sql`
      select min(key) as start, (row_number() over (order by min(key)) - 1)::integer as part
      from (select ${key} as key, ((row_number() over (order by ${key}) - 1) * ${parts}) // ${rows} as part from group_rows)
      group by part`,
    )
    // This order allows DuckDB to find the rows of one part without reading the others.
    await this.#create(
      'group_rows',
      sql`select group_rows.*, starts.part as file_part from group_rows asof join starts on ${key} >= starts.start order by file_part`,
    )
    const numbers = await selectRows(this.#connection, sql`select distinct file_part from group_rows order by file_part`)
    return numbers.map(([part]) => sql`select * exclude (file_part) from group_rows where file_part = ${Number(part)} order by ${order}`)
  }

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

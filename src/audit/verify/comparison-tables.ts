import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DuckDBAppender, DuckDBConnection, DuckDBValue } from '@duckdb/node-api'
import { identifier, literal, type Sql, sql } from '../../db/sql.ts'
import type { LakeTableDefinition } from '../../lake/iceberg/lake-table.ts'
import type { DataFile } from '../../lake/iceberg/manifest.ts'
import { jsonRows, writeJsonLines } from '../../lake/json-lines.ts'
import { typedList } from '../../lake/lake-columns.ts'
import { toDuckDB, withDuckDB } from '../../lake/lake-database.ts'
import { type NewFile, writeDataFile } from '../../lake/parquet-writer.ts'
import { MAX_EXAMPLES, type Sample } from './finding.ts'

/**
 * The tables of a comparison. `digest` and `erasable` are null if the row cannot become an event. `digests` are those
 * of the lake row (see `row-digest.ts`).
 */
const TABLES = {
  recorded_events: { event_id: 'VARCHAR', digest: 'VARCHAR', erasable: 'VARCHAR', changed_at: 'BIGINT' },
  topic_events: {
    event_id: 'VARCHAR',
    digest: 'VARCHAR',
    erasable: 'VARCHAR',
    changed_at: 'BIGINT',
    sequence: 'BIGINT',
    digests: 'UBIGINT[]',
    is_mailed: 'BIGINT',
    /** 1 when the change stream published it from its slot, see `StoredMessage`. */
    is_in_turn: 'BIGINT',
  },
  mail_events: { event_id: 'VARCHAR', status: 'VARCHAR', queued_at: 'BIGINT' },
  /** `file` is an index in `LakeContents.files`. */
  lake_events: { event_id: 'VARCHAR', sequence: 'BIGINT', digests: 'UBIGINT[]', file: 'BIGINT' },
  held_events: { event_id: 'VARCHAR' },
  corrupt_messages: { sequence: 'BIGINT', reason: 'VARCHAR' },
  leftover_rows: { event_id: 'VARCHAR', sequence: 'BIGINT' },
  lost_ranges: { after: 'BIGINT', up_to: 'BIGINT' },
  dead_letters: { event_id: 'VARCHAR', reason: 'VARCHAR' },
} as const
const COLUMN_TYPES = { VARCHAR: sql`VARCHAR`, BIGINT: sql`BIGINT`, 'UBIGINT[]': sql`UBIGINT[]` }

/** The order, product or stock whose events have ascending versions. */
export const STREAM = sql`regexp_replace(event_id, '[0-9]+$', '')`
export const VERSION = sql`split_part(event_id, '.', -1)::bigint`

export type TableName = keyof typeof TABLES
type Cell<Type> = Type extends 'BIGINT' ? number | null : Type extends 'VARCHAR' ? string | null : null
export type TableRow<Name extends TableName> = { [Column in keyof (typeof TABLES)[Name]]: Cell<(typeof TABLES)[Name][Column]> }

/** The tables spill to disk: comparing a million orders takes no more memory than comparing ten. */
export class ComparisonTables {
  readonly #connection: DuckDBConnection
  readonly #spool: string
  readonly #memoryLimit: string

  constructor(connection: DuckDBConnection, spool: string, memoryLimit: string) {
    this.#connection = connection
    this.#spool = spool
    this.#memoryLimit = memoryLimit
  }

  async add<Name extends TableName>(table: Name, rows: readonly TableRow<Name>[]): Promise<void> {
    if (rows.length === 0) return
    const columns = Object.entries(TABLES[table])
    const appender = await this.#connection.createAppender(table)
    for (const row of rows) {
      for (const [name, type] of columns) appendCell(appender, type, (row as Record<string, string | number | null>)[name] ?? null)
      appender.endRow()
    }
    appender.closeSync()
  }

  /** Each line is a row as JSON. The next statement can use the rows in `from`. */
  async spoolRows(lines: readonly string[], columns: Readonly<Record<string, Sql>>): Promise<Sql> {
    return jsonRows(await writeJsonLines(this.#spool, lines), columns)
  }

  writeLakeFile(file: NewFile, select: Sql, table: LakeTableDefinition): Promise<DataFile> {
    return writeDataFile(this.#connection, file, select, table)
  }

  async run(statement: Sql): Promise<void> {
    await this.#connection.run(toDuckDB(statement))
  }

  /** Runs a statement on rows that have all columns of an event, which need more memory. */
  async runWide(statement: Sql): Promise<void> {
    await this.run(sql`set memory_limit = '512MB'`)
    try {
      await this.run(statement)
    } finally {
      await this.run(sql`set memory_limit = ${literal(this.#memoryLimit)}`)
    }
  }

  async select<T>(statement: Sql): Promise<T[]> {
    const reader = await this.#connection.runAndReadAll(toDuckDB(statement))
    return reader.getRowObjects().map((row) => mapValues(row) as T)
  }

  async count(from: Sql): Promise<number> {
    const [row] = await this.select<{ n: number }>(sql`select count(*) as n from (${from})`)
    return row?.n ?? 0
  }

  /** Counts events and returns examples. `events` is a statement that selects `event_id`. */
  async sample(events: Sql): Promise<Sample> {
    const count = await this.count(events)
    if (count === 0) return { count, examples: [] }
    const rows = await this.select<{ event_id: string }>(sql`${events} order by event_id limit ${literal(MAX_EXAMPLES)}`)
    return { count, examples: rows.map(({ event_id }) => event_id) }
  }
}

/**
 * A million orders are compared in 300 MB. A second thread would need as much again, and the order of rows a whole
 * table.
 */
const COMPARING = { memory_limit: '48MB', threads: '1', preserve_insertion_order: 'false' }
/** Rewriting keeps rows in order and each column in memory. */
export const REWRITING = { memory_limit: '512MB' }

export async function withComparisonTables<T>(
  work: (tables: ComparisonTables) => Promise<T>,
  settings: Readonly<Record<string, string>> & { memory_limit: string } = COMPARING,
): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'storefront-verify-'))
  try {
    return await withDuckDB(
      join(folder, 'spill'),
      async (connection) => {
        for (const [table, columns] of Object.entries(TABLES)) {
          const types = Object.fromEntries(Object.entries(columns).map(([name, type]) => [name, COLUMN_TYPES[type]]))
          await connection.run(toDuckDB(sql`create table ${identifier(table)} (${typedList(types)})`))
        }
        return work(new ComparisonTables(connection, join(folder, 'rows.ndjson'), settings.memory_limit))
      },
      settings,
    )
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

function appendCell(appender: DuckDBAppender, type: string, value: string | number | null): void {
  if (value === null) appender.appendNull()
  else if (type === 'VARCHAR') appender.appendVarchar(String(value))
  else appender.appendBigInt(BigInt(value))
}

function mapValues(row: Record<string, DuckDBValue>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, typeof value === 'bigint' ? Number(value) : value]))
}

import { randomUUID } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DuckDBAppender, DuckDBConnection, DuckDBValue } from '@duckdb/node-api'
import { commaList, identifier, type Sql, sql } from '../../db/sql.ts'
import { toDuckDB, withDuckDB } from '../lake/lake-database.ts'

/**
 * What each place holds, by event id. `facts` and `move_details` are what the event says, each in one text: see `facts.ts`; null where
 * nobody can tell.
 */
const TABLES = {
  order_events: { event_id: 'VARCHAR', facts: 'VARCHAR', move_details: 'VARCHAR', changed_at: 'BIGINT' },
  topic_events: { event_id: 'VARCHAR', facts: 'VARCHAR', move_details: 'VARCHAR', changed_at: 'BIGINT', sequence: 'BIGINT' },
  mail_events: { event_id: 'VARCHAR', status: 'VARCHAR', queued_at: 'BIGINT' },
  lake_events: { event_id: 'VARCHAR', facts: 'VARCHAR', sequence: 'BIGINT', checksum: 'UBIGINT' },
  held_events: { event_id: 'VARCHAR' },
  corrupt_messages: { sequence: 'BIGINT', reason: 'VARCHAR' },
  parked_events: { event_id: 'VARCHAR', reason: 'VARCHAR' },
} as const
const COLUMN_TYPES = { VARCHAR: sql`VARCHAR`, BIGINT: sql`BIGINT`, UBIGINT: sql`UBIGINT` }

export type TableName = keyof typeof TABLES
type Cell<Type> = Type extends 'BIGINT' | 'UBIGINT' ? number | null : string | null
type Row<Name extends TableName> = { [Column in keyof (typeof TABLES)[Name]]: Cell<(typeof TABLES)[Name][Column]> }

/**
 * The events of all places side by side, in tables that spill to disk: comparing a million orders takes no more memory than
 * comparing ten.
 */
export class Ledger {
  readonly #connection: DuckDBConnection

  constructor(connection: DuckDBConnection) {
    this.#connection = connection
  }

  async add<Name extends TableName>(table: Name, rows: readonly Row<Name>[]): Promise<void> {
    if (rows.length === 0) return
    const columns = Object.entries(TABLES[table])
    const appender = await this.#connection.createAppender(table)
    for (const row of rows) {
      for (const [name, type] of columns) appendCell(appender, type, (row as Record<string, string | number | null>)[name] ?? null)
      appender.endRow()
    }
    appender.closeSync()
  }

  async run(statement: Sql): Promise<void> {
    await this.#connection.run(toDuckDB(statement))
  }

  /** Rows as objects; counts and sequences are numbers. */
  async select<T>(statement: Sql): Promise<T[]> {
    const reader = await this.#connection.runAndReadAll(toDuckDB(statement))
    return reader.getRowObjects().map((row) => mapValues(row) as T)
  }

  async count(from: Sql): Promise<number> {
    const [row] = await this.select<{ n: number }>(sql`select count(*) as n from (${from})`)
    return row?.n ?? 0
  }
}

/** Runs `work` with an empty ledger, which is gone afterwards. */
export async function withLedger<T>(work: (ledger: Ledger) => Promise<T>): Promise<T> {
  return withDuckDB(join(tmpdir(), `storefront-verify-${randomUUID()}`), async (connection) => {
    for (const [table, columns] of Object.entries(TABLES)) {
      const list = Object.entries(columns).map(([name, type]) => sql`${identifier(name)} ${COLUMN_TYPES[type]}`)
      await connection.run(toDuckDB(sql`create table ${identifier(table)} (${commaList(list)})`))
    }
    return work(new Ledger(connection))
  })
}

function appendCell(appender: DuckDBAppender, type: string, value: string | number | null): void {
  if (value === null) appender.appendNull()
  else if (type === 'VARCHAR') appender.appendVarchar(String(value))
  else appender.appendBigInt(BigInt(value))
}

function mapValues(row: Record<string, DuckDBValue>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, typeof value === 'bigint' ? Number(value) : value]))
}

import type { DuckDBConnection, DuckDBValue } from '@duckdb/node-api'
import { commaList, identifier, type Sql, sql } from '../../db/sql.ts'
import { typedList } from '../lake-columns.ts'
import { parquetRows, toDuckDB } from '../lake-database.ts'
import { selectRows } from '../query-duckdb.ts'
import { fieldIdOf } from './field-ids.ts'
import type { LakeTableDefinition } from './lake-table.ts'
import type { DataFile } from './manifest.ts'

const BOUNDED = [
  ...['sequence', 'event_time', 'version', 'created_at', 'updated_at', 'ingested_at', 'line', 'valid_from', 'valid_to', 'total_amount'],
  ...['order_id', 'order_number', 'user_id', 'status', 'currency', 'shipping_country', 'product_id', 'sku', 'category', 'event_type'],
]
/** Longer texts get no bounds. People write texts of any length, and each manifest contains the bounds. */
const MAX_BOUND_LENGTH = 64

export async function describeFile(
  connection: DuckDBConnection,
  { columns }: LakeTableDefinition,
  path: string,
  file: { location: string; sizeBytes: number },
): Promise<DataFile> {
  const counted = Object.keys(columns).filter((name) => name !== 'items')
  const bounded = counted.filter((name) => BOUNDED.includes(name))
  const boundOf = (name: string): Sql => (columns[name]?.text === 'TIMESTAMPTZ' ? sql`epoch_us(${identifier(name)})` : identifier(name))
  await connection.run(toDuckDB(sql`create or replace temp table no_rows (${typedList(columns)})`))
  const [row = []] = await selectRows(
    connection,
    sql`
      select count(*), ${commaList([
        ...counted.map((name) => sql`count(${identifier(name)})`),
        ...bounded.map((name) => sql`min(${boundOf(name)})`),
        ...bounded.map((name) => sql`max(${boundOf(name)})`),
      ])}
      from (select * from no_rows union all by name select * from ${parquetRows([path])})`,
  )
  const rows = Number(row[0])
  const counts = row.slice(1, counted.length + 1)
  const bounds = (from: number) =>
    bounded.flatMap((name, index) => {
      const value = row[1 + counted.length + from + index]
      const isBound = value != null && (typeof value !== 'string' || value.length <= MAX_BOUND_LENGTH)
      return isBound ? [{ key: fieldIdOf(name), value: encodeBound(columns[name]?.text === 'INTEGER', value) }] : []
    })
  return {
    content: 0,
    file_path: file.location,
    file_format: 'PARQUET',
    partition: {},
    record_count: rows,
    file_size_in_bytes: file.sizeBytes,
    value_counts: counted.map((name) => ({ key: fieldIdOf(name), value: rows })),
    null_value_counts: counted.map((name, index) => ({ key: fieldIdOf(name), value: rows - Number(counts[index]) })),
    lower_bounds: bounds(0),
    upper_bounds: bounds(bounded.length),
  }
}

/** https://iceberg.apache.org/spec/#binary-single-value-serialization */
function encodeBound(isInt: boolean, value: DuckDBValue): Buffer {
  if (typeof value === 'string') return Buffer.from(value)
  const bytes = Buffer.alloc(isInt ? 4 : 8)
  if (isInt) bytes.writeInt32LE(Number(value))
  else bytes.writeBigInt64LE(BigInt(String(value)))
  return bytes
}

import type { Queryable } from '../db/pool.ts'
import { allOf, commaList, identifier, type Sql, sql } from '../db/sql.ts'
import type { OrderRecord } from './events.ts'
import { type ColumnType, ORDER_COLUMNS, type OrderColumn } from './order-columns.ts'

export function selectList(
  render: (name: string, type: ColumnType) => Sql | undefined = () => undefined,
  columns: Readonly<Record<string, OrderColumn>> = ORDER_COLUMNS,
): Sql {
  return commaList(
    Object.entries(columns).map(([name, { type }]) => {
      const value = render(name, type)
      return value === undefined ? identifier(name) : sql`${value} as ${identifier(name)}`
    }),
  )
}

export const STREAMED_COLUMNS = selectList((name, type) => (type === 'bigint' ? sql`${identifier(name)}::text` : undefined))

export async function getOrderRecords(db: Queryable, ids: readonly string[]): Promise<OrderRecord[]> {
  const { rows } = await db.query<OrderRecord>(sql`select ${STREAMED_COLUMNS} from orders where id = any (${ids}::uuid[])`)
  return rows
}

export function recordList(columns: Readonly<Record<string, OrderColumn>> = ORDER_COLUMNS): Sql {
  return commaList(Object.entries(columns).map(([name, { type }]) => sql`${identifier(name)} ${TYPES[type]}`))
}

const TYPES: Readonly<Record<ColumnType, Sql>> = {
  uuid: sql`uuid`,
  bigint: sql`bigint`,
  integer: sql`integer`,
  text: sql`text`,
  json: sql`json`,
  jsonb: sql`jsonb`,
  timestamptz: sql`timestamptz`,
}

export function erasureOf(columns: Readonly<Record<string, OrderColumn>> = ORDER_COLUMNS): { set: Sql; isErased: Sql } {
  const personal = Object.keys(columns).filter((name) => columns[name]?.isPersonal)
  return {
    set: commaList(personal.map((name) => sql`${identifier(name)} = null`)),
    isErased: allOf(personal.map((name) => sql`${identifier(name)} is null`)),
  }
}

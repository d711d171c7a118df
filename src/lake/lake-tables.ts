import { identifier, type Sql, sql } from '../db/sql.ts'
import { CATALOGUE_COLUMNS } from './catalogue-row.ts'
import { CATALOGUE_VIEWS } from './catalogue-tables.ts'
import type { LakeColumn } from './lake-columns.ts'
import { LAKE_COLUMNS, ORDER_EVENT_COLUMNS } from './lake-row.ts'
import { ORDER_VIEWS } from './order-tables.ts'

export const EVENT_COLUMNS = { ...LAKE_COLUMNS, ingest_date: sql`DATE` }

/** An expression over the newest event or the order's whole history, and the DuckDB type. */
export const ORDER_COLUMNS: Readonly<Record<string, readonly [value: Sql, type: Sql]>> = Object.fromEntries(
  Object.entries<LakeColumn<never>>(ORDER_EVENT_COLUMNS).flatMap(([name, { type, inOrders }]) => {
    if (inOrders === undefined) return []
    return inOrders === true ? [[name, [identifier(name), type]]] : [[inOrders.name, [inOrders.value, type]]]
  }),
)

export interface LakeTable {
  name: string
  description: string
  columns: { name: string; type: string }[]
}

export const LAKE_TABLES: readonly LakeTable[] = [
  { name: 'order_events', description: 'A row for each change of an order.', columns: listColumns(EVENT_COLUMNS) },
  {
    name: 'orders',
    description: 'The newest state of each order.',
    columns: listColumns(Object.fromEntries(Object.entries(ORDER_COLUMNS).map(([name, [, type]]) => [name, type]))),
  },
  ...ORDER_VIEWS.map(({ name, description, columns }) => ({ name, description, columns: listColumns(columns) })),
  {
    name: 'catalogue_events',
    description: 'A row for each change of a product, a price or a stock level.',
    columns: listColumns({ ...CATALOGUE_COLUMNS, ingest_date: sql`DATE` }),
  },
  ...CATALOGUE_VIEWS.map(({ name, description, columns }) => ({ name, description, columns: listColumns(columns) })),
]

function listColumns(columns: Readonly<Record<string, Sql>>) {
  return Object.entries(columns).map(([name, type]) => ({ name, type: type.text.replaceAll('"', '').replaceAll(',', ', ') }))
}

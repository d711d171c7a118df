import { identifier, type Sql, sql } from '../db/sql.ts'
import { CATALOGUE_COLUMNS } from './catalogue-row.ts'
import { CATALOGUE_VIEWS } from './catalogue-tables.ts'
import { LAKE_COLUMNS } from './lake-row.ts'

const { version, status, user_id, currency, currency_exponent, total_amount, original_amount, client_reference, shipping_country } =
  LAKE_COLUMNS
const { order_id, order_number, item_count, items, created_at, updated_at, attributes } = LAKE_COLUMNS
const { shipping_amount, discount_amount, tax_amount, fee_amount, payment_provider, payment_state } = LAKE_COLUMNS
/** Of the view `order_events`, by type. */
export const EVENT_COLUMNS = { ...LAKE_COLUMNS, ingest_date: sql`DATE` }

/** Columns of the view `orders`: an expression over the newest event or the order's whole history, and the DuckDB type. */
export const ORDER_COLUMNS: Readonly<Record<string, readonly [value: Sql, type: Sql]>> = {
  ...sameColumns({ order_id, order_number, version, status, user_id, currency, currency_exponent, total_amount, original_amount }),
  ...sameColumns({ client_reference, shipping_country }),
  cancelled_by: [ofCancellation(sql`actor_type`), LAKE_COLUMNS.actor_type],
  cancel_reason: [ofCancellation(sql`reason`), LAKE_COLUMNS.reason],
  ...sameColumns({ item_count, items, created_at, updated_at, attributes }),
  ...sameColumns({ shipping_amount, discount_amount, tax_amount, fee_amount, payment_provider, payment_state }),
}

/** Of the event that cancelled the order: payments may follow it. */
function ofCancellation(value: Sql): Sql {
  return sql`case when status = 'cancelled'
    then arg_min_null(${value}, version) filter (where status = 'cancelled') over (partition by order_id) end`
}

function sameColumns(columns: Readonly<Record<string, Sql>>): Record<string, readonly [Sql, Sql]> {
  return Object.fromEntries(Object.entries(columns).map(([name, type]) => [name, [identifier(name), type]]))
}

export interface LakeTable {
  name: string
  description: string
  columns: { name: string; type: string }[]
}

/** What a query can read. */
export const LAKE_TABLES: readonly LakeTable[] = [
  { name: 'order_events', description: 'A row for each change of an order.', columns: listColumns(EVENT_COLUMNS) },
  {
    name: 'orders',
    description: 'The newest state of each order.',
    columns: listColumns(Object.fromEntries(Object.entries(ORDER_COLUMNS).map(([name, [, type]]) => [name, type]))),
  },
  {
    name: 'catalogue_events',
    description: 'A row for each change of a product, a price or the reach of stock.',
    columns: listColumns({ ...CATALOGUE_COLUMNS, ingest_date: sql`DATE` }),
  },
  ...CATALOGUE_VIEWS.map(({ name, description, columns }) => ({ name, description, columns: listColumns(columns) })),
]

function listColumns(columns: Readonly<Record<string, Sql>>) {
  return Object.entries(columns).map(([name, type]) => ({ name, type: type.text.replaceAll('"', '').replaceAll(',', ', ') }))
}

import { commaList, identifier, type Sql, sql } from '../../db/sql.ts'
import { CATALOGUE_COLUMNS } from '../catalogue-row.ts'
import { CATALOGUE_VIEWS } from '../catalogue-tables.ts'
import type { LakeColumns } from '../lake-columns.ts'
import type { DatasetName } from '../lake-names.ts'
import { ITEM_FIELDS, LAKE_COLUMNS, ORDER_EVENT_COLUMNS } from '../lake-row.ts'
import { ORDER_COLUMNS } from '../lake-tables.ts'
import { ORDER_VIEWS } from '../order-tables.ts'
import { fieldIdOf } from './field-ids.ts'
import type { Schema } from './table-metadata.ts'

export interface LakeTableDefinition {
  name: string
  description: string
  columns: Readonly<Record<string, Sql>>
  dataset: DatasetName
  monthOf?: string
}

export const ORDER_EVENTS: LakeTableDefinition = {
  name: 'order_events',
  dataset: 'orders',
  description: 'A row for each change of an order.',
  columns: LAKE_COLUMNS,
}

export const CATALOGUE_EVENTS: LakeTableDefinition = {
  name: 'catalogue_events',
  dataset: 'catalogue',
  description: 'A row for each change of a product, a price or a stock level.',
  columns: CATALOGUE_COLUMNS,
}

export const EVENT_TABLES: readonly LakeTableDefinition[] = [ORDER_EVENTS, CATALOGUE_EVENTS]

export interface DerivedTable extends LakeTableDefinition {
  select: Sql
  order: Sql
  /** An event replaces all rows with this value, such as the order's id. Events have the column, too. */
  id: string
  /** The files split by ranges of this column, which never changes for an id. Events have it, too. */
  key: string
  changes: Sql
  /** The table whose rows represent the earlier events of an id. Null if earlier events are not needed. */
  history: History | null
}

interface History {
  table: string
  /** The table has one row per id in its newest version, or one per version. */
  id: string
  /** Whether the rows of an id can be in any file. */
  isAnywhere?: true
  /** The condition for an event that needs no earlier events. Only for tables that keep just the newest version. */
  begins?: Sql
  toEvent: Sql
}

const OF_ORDERS: Pick<DerivedTable, 'dataset' | 'monthOf' | 'id' | 'key' | 'changes' | 'history'> = {
  ...{ dataset: 'orders', monthOf: 'created_at', id: 'order_id', key: 'created_at', changes: sql`true` },
  history: { table: 'orders', id: 'order_id', begins: sql`version = 1 or imported`, toEvent: eventOf(ORDER_EVENT_COLUMNS) },
}

function eventOf(columns: LakeColumns<never>): Sql {
  return commaList(
    Object.entries(columns).flatMap(([name, { inOrders }]) =>
      inOrders === undefined ? [] : inOrders === true ? [identifier(name)] : [sql`${identifier(inOrders.name)} as ${identifier(name)}`],
    ),
  )
}

const PRODUCT_HISTORY: History = {
  table: 'products',
  id: 'product_id',
  toEvent: sql`* exclude (valid_from, valid_to, is_current), valid_from as event_time, 'storefront.product.updated' as event_type`,
}

const { order_id, order_number, status, user_id, currency, currency_exponent, created_at } = LAKE_COLUMNS
const OF_ORDER = { order_id, order_number, status, user_id, currency, currency_exponent, created_at }
const { total_amount: lineTotal, ...itemFields } = ITEM_FIELDS

export const DERIVED_TABLES: readonly DerivedTable[] = [
  {
    name: 'order_lines',
    ...OF_ORDERS,
    description: 'The lines of each order, up to the event that its snapshot names.',
    columns: { ...OF_ORDER, line: sql`BIGINT`, ...itemFields, line_total_amount: lineTotal },
    select: sql`
      select * exclude (item), ${Object.keys(itemFields)
        .map((name) => sql`item.${identifier(name)}`)
        .reduce((a, b) => sql`${a}, ${b}`)},
        item.total_amount as line_total_amount
      from (
        select ${Object.keys(OF_ORDER)
          .map(identifier)
          .reduce((a, b) => sql`${a}, ${b}`)},
          generate_subscripts(items, 1) as line, unnest(items) as item
        from orders
      )`,
    order: sql`order_number, line`,
  },
  ...ORDER_VIEWS.map(
    (view): DerivedTable => ({
      ...{ ...OF_ORDERS, ...view, monthOf: view.monthOf, select: sql`select * from ${identifier(view.name)}` },
      history: OF_ORDERS.history === null || view.id === OF_ORDERS.id ? OF_ORDERS.history : { ...OF_ORDERS.history, isAnywhere: true },
    }),
  ),
  // This table is last of its dataset: the others find changes in its earlier rows.
  {
    name: 'orders',
    ...OF_ORDERS,
    description: 'The newest state of each order, up to the event that its snapshot names.',
    columns: Object.fromEntries(Object.entries(ORDER_COLUMNS).map(([name, [, type]]) => [name, type])),
    select: sql`select * from orders`,
    order: sql`order_number`,
  },
  ...CATALOGUE_VIEWS.map(
    ({ name, columns, ...view }): DerivedTable => ({
      ...{ ...view, name, columns, dataset: 'catalogue', select: sql`select * from ${identifier(name)}` },
      history: view.id === 'product_id' ? PRODUCT_HISTORY : null,
    }),
  ),
]

export const CATALOGUE_TABLES: readonly LakeTableDefinition[] = [...EVENT_TABLES, ...DERIVED_TABLES]

const TYPES: Readonly<Record<string, string>> = {
  BIGINT: 'long',
  INTEGER: 'int',
  VARCHAR: 'string',
  BOOLEAN: 'boolean',
  TIMESTAMPTZ: 'timestamptz',
}

/** All columns are optional, because files of earlier releases lack some of them. */
export function schemaOf({ columns }: LakeTableDefinition): Schema['fields'] {
  return Object.entries(columns).map(([name, type]) => ({
    id: fieldIdOf(name),
    name,
    required: false,
    type: name === 'items' ? itemsType() : typeOf(type),
  }))
}

function itemsType() {
  const fields = Object.entries(ITEM_FIELDS).map(([name, type]) => ({
    id: fieldIdOf(`items.${name}`),
    name,
    required: false,
    type: typeOf(type),
  }))
  return { type: 'list', 'element-id': fieldIdOf('items.element'), element: { type: 'struct', fields }, 'element-required': false }
}

function typeOf({ text }: Sql): string {
  const type = TYPES[text]
  if (type === undefined) throw new RangeError(`${text} has no type in Iceberg`)
  return type
}

/** The name mapping for files without field ids: see https://iceberg.apache.org/spec/#name-mapping-serialization. */
export function nameMappingOf({ columns }: LakeTableDefinition): string {
  const mapped = (path: string, name: string) => ({ 'field-id': fieldIdOf(path), names: [name] })
  const items = Object.keys(ITEM_FIELDS).map((name) => mapped(`items.${name}`, name))
  return JSON.stringify(
    Object.keys(columns).map((name) =>
      name === 'items' ? { ...mapped(name, name), fields: [{ ...mapped('items.element', 'element'), fields: items }] } : mapped(name, name),
    ),
  )
}

import { commaList, identifier, type Sql, sql } from '../../db/sql.ts'
import { CATALOGUE_EVENT_COLUMNS } from '../catalogue-row.ts'
import { type LakeColumns, typedList } from '../lake-columns.ts'
import { ITEM_COLUMNS, ITEM_FIELDS, ORDER_EVENT_COLUMNS } from '../lake-row.ts'

const VIEW_IDS = {
  ...{ line: 46, unit_price_amount: 50, quantity: 51, shipped: 53, cancelled: 54, returned: 55, line_total_amount: 56 },
  ...{ valid_from: 71, valid_to: 72, is_current: 73 },
  ...{ kind: 77, label: 78, amount: 79, made_at: 80, reference: 81, payment_reference: 82, reported_at: 83, changed_at: 84 },
  ...{ refunded_at: 85, shipped_at: 86, carrier: 87, tracking_number: 88, tracking_url: 89, units: 90, lines: 91 },
  ...{ first_order_at: 92, last_order_at: 93, first_country: 94, order_count: 95, cancelled_count: 96 },
}

const FIELD_IDS: Readonly<Record<string, number>> = {
  ...idsOf(ORDER_EVENT_COLUMNS),
  'items.element': 33,
  ...idsOf(ITEM_COLUMNS, 'items.'),
  ...idsOf(CATALOGUE_EVENT_COLUMNS),
  ...VIEW_IDS,
}

function idsOf(columns: LakeColumns<never>, prefix = ''): Record<string, number> {
  return Object.fromEntries(
    Object.entries(columns).flatMap(([name, { id, inOrders }]) => [
      [`${prefix}${name}`, id],
      ...(typeof inOrders === 'object' ? [[inOrders.name, inOrders.id]] : []),
    ]),
  )
}

export const LAST_FIELD_ID = Math.max(...Object.values(FIELD_IDS))

export function fieldIdOf(path: string): number {
  const id = Object.hasOwn(FIELD_IDS, path) ? FIELD_IDS[path] : undefined
  if (id === undefined) throw new RangeError(`the column ${path} has no field id`)
  return id
}

const ITEMS_TYPE = normalized(sql`STRUCT(${typedList(ITEM_FIELDS)})[]`.text)

/** The result is null for an unknown column: readers apply names only to files in which no column has an id. */
export function fieldIdOption(columns: readonly { name: string; type: string }[]): Sql | null {
  const isKnown = ({ name, type }: { name: string; type: string }) =>
    Object.hasOwn(FIELD_IDS, name) && (name !== 'items' || normalized(type) === ITEMS_TYPE)
  if (!columns.every(isKnown)) return null
  return sql`{ ${commaList(columns.map(({ name }) => sql`${identifier(name)}: ${name === 'items' ? ITEM_IDS : literalId(name)}`))} }`
}

const ITEM_IDS = sql`{ __duckdb_field_id: ${fieldIdOf('items')}, element: { __duckdb_field_id: ${fieldIdOf('items.element')}, ${commaList(
  Object.keys(ITEM_FIELDS).map((name) => sql`${identifier(name)}: ${fieldIdOf(`items.${name}`)}`),
)} } }`

function literalId(name: string): Sql {
  return sql`${fieldIdOf(name)}`
}

function normalized(type: string): string {
  return type.replaceAll(/["\s]/g, '').toLowerCase()
}

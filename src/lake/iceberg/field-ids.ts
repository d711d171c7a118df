import { commaList, identifier, type Sql, sql } from '../../db/sql.ts'
import { ITEM_FIELDS, typedList } from '../lake-row.ts'

/**
 * Iceberg's id of each column of the lake's tables; a column of the same name has the same id in every table. An id stays with its
 * column permanently: readers find columns by it. New columns get the next number.
 */
const FIELD_IDS: Readonly<Record<string, number>> = {
  sequence: 1,
  event_id: 2,
  event_type: 3,
  event_time: 4,
  order_id: 5,
  order_number: 6,
  version: 7,
  status: 8,
  previous_status: 9,
  user_id: 10,
  currency: 11,
  currency_exponent: 12,
  total_amount: 13,
  original_amount: 14,
  client_reference: 15,
  shipping_country: 16,
  actor_type: 17,
  reason: 18,
  change_type: 19,
  item_count: 20,
  items: 21,
  created_at: 22,
  updated_at: 23,
  attributes: 24,
  shipping_amount: 25,
  discount_amount: 26,
  tax_amount: 27,
  fee_amount: 28,
  payment_provider: 29,
  payment_state: 30,
  ingested_at: 31,
  imported: 32,
  'items.element': 33,
  'items.product_id': 34,
  'items.sku': 35,
  'items.name': 36,
  'items.unit_price_amount': 37,
  'items.quantity': 38,
  'items.total_amount': 39,
  'items.category': 40,
  'items.shipped': 41,
  'items.cancelled': 42,
  'items.returned': 43,
  cancelled_by: 44,
  cancel_reason: 45,
  line: 46,
  product_id: 47,
  sku: 48,
  name: 49,
  unit_price_amount: 50,
  quantity: 51,
  category: 52,
  shipped: 53,
  cancelled: 54,
  returned: 55,
  line_total_amount: 56,
  slug: 57,
  description: 58,
  brand: 59,
  variant_group: 60,
  options: 61,
  price_amount: 62,
  compare_at_amount: 63,
  previous_price_amount: 64,
  previous_compare_at_amount: 65,
  image_url: 66,
  archived_at: 67,
  available: 68,
  previous_available: 69,
  product: 70,
  valid_from: 71,
  valid_to: 72,
  is_current: 73,
}

/** The greatest id that was ever given to a column. */
export const LAST_FIELD_ID = Math.max(...Object.values(FIELD_IDS))

export function fieldIdOf(path: string): number {
  const id = Object.hasOwn(FIELD_IDS, path) ? FIELD_IDS[path] : undefined
  if (id === undefined) throw new RangeError(`the column ${path} has no field id`)
  return id
}

const ITEMS_TYPE = normalized(sql`STRUCT(${typedList(ITEM_FIELDS)})[]`.text)

/**
 * For COPY of these columns, by DuckDB type; null when one of them is unknown. A file has the ids of all of its columns or of none, because
 * readers apply the names of the table only to files without ids.
 */
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

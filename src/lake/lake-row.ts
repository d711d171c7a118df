import { minorDigits } from '../currency.ts'
import { commaList, identifier, type Sql, sql } from '../db/sql.ts'
import { linesOf } from '../orders/events.ts'
import type { Adjustment, AdjustmentKind } from '../orders/order-changes.ts'
import type { TopicMessage } from '../topic/topic.ts'

/** Increased when a column changes its meaning. Not for a new column: readers merge by name. */
export const LAKE_SCHEMA_VERSION = 1

/** Fields of a line in the column `items`, by DuckDB type. Only ever added to. */
export const ITEM_FIELDS = {
  product_id: sql`VARCHAR`,
  sku: sql`VARCHAR`,
  name: sql`VARCHAR`,
  unit_price_amount: sql`BIGINT`,
  quantity: sql`BIGINT`,
  total_amount: sql`BIGINT`,
  category: sql`VARCHAR`,
  shipped: sql`BIGINT`,
  cancelled: sql`BIGINT`,
  returned: sql`BIGINT`,
} as const

/** Columns of the lake's files, by DuckDB type. Amounts are minor units of `currency`. Only ever added to. */
export const LAKE_COLUMNS = {
  sequence: sql`BIGINT`,
  event_id: sql`VARCHAR`,
  event_type: sql`VARCHAR`,
  event_time: sql`TIMESTAMPTZ`,
  order_id: sql`VARCHAR`,
  order_number: sql`VARCHAR`,
  version: sql`INTEGER`,
  status: sql`VARCHAR`,
  previous_status: sql`VARCHAR`,
  user_id: sql`VARCHAR`,
  currency: sql`VARCHAR`,
  currency_exponent: sql`INTEGER`,
  total_amount: sql`BIGINT`,
  original_amount: sql`BIGINT`,
  client_reference: sql`VARCHAR`,
  shipping_country: sql`VARCHAR`,
  actor_type: sql`VARCHAR`,
  reason: sql`VARCHAR`,
  change_type: sql`VARCHAR`,
  item_count: sql`INTEGER`,
  items: sql`STRUCT(${typedList(ITEM_FIELDS)})[]`,
  created_at: sql`TIMESTAMPTZ`,
  updated_at: sql`TIMESTAMPTZ`,
  /** JSON. */
  attributes: sql`VARCHAR`,
  shipping_amount: sql`BIGINT`,
  discount_amount: sql`BIGINT`,
  tax_amount: sql`BIGINT`,
  fee_amount: sql`BIGINT`,
  payment_provider: sql`VARCHAR`,
  payment_state: sql`VARCHAR`,
  ingested_at: sql`TIMESTAMPTZ`,
  imported: sql`BOOLEAN`,
} as const

/** The columns of the first files. In their rows every later column and field is missing, or null after a merge. */
export const FIRST_COLUMNS: readonly string[] = [
  'sequence',
  'event_id',
  'event_type',
  'event_time',
  'order_id',
  'order_number',
  'version',
  'status',
  'previous_status',
  'user_id',
  'currency',
  'total_amount',
  'item_count',
  'items',
  'created_at',
  'updated_at',
  'ingested_at',
]
export const FIRST_ITEM_FIELDS: readonly string[] = ['product_id', 'sku', 'name', 'unit_price_amount', 'quantity', 'total_amount']

export type LakeRow = Record<keyof typeof LAKE_COLUMNS, unknown>

/**
 * The row of an event. Fields are named one by one, so that a new field of an order does not enter the lake by itself:
 * it must contain no name, address or note of a customer (decision 0135). Pure.
 */
export function toLakeRow(message: TopicMessage, ingestedAt: string): LakeRow {
  const { event, sequence } = message
  const { order, previous_status } = event.data
  const change = order.status_history.at(-1)
  const { total, original_total = total, items } = order
  const lines = linesOf(event)
  return {
    sequence,
    event_id: event.id,
    event_type: event.type,
    event_time: event.time,
    order_id: order.id,
    order_number: order.number,
    version: order.version,
    status: order.status,
    previous_status,
    user_id: order.user_id,
    currency: order.total.currency,
    currency_exponent: minorDigits(order.total.currency),
    total_amount: total.amount,
    original_amount: original_total.amount,
    client_reference: toText(order.client_reference),
    shipping_country: toText(order.shipping_address?.country),
    actor_type: toText(change?.actor?.type),
    reason: toText(change?.reason),
    change_type: toText(change?.change?.type),
    item_count: items.length,
    items: items.map((item, index) => ({
      product_id: toText(item.product_id),
      sku: toText(item.sku),
      name: toText(item.name),
      unit_price_amount: item.unit_price.amount,
      quantity: item.quantity,
      total_amount: item.total.amount,
      category: toText(item.category),
      shipped: lines[index]?.shipped ?? 0,
      cancelled: lines[index]?.cancelled ?? 0,
      returned: lines[index]?.returned ?? 0,
    })),
    created_at: order.created_at,
    updated_at: order.updated_at,
    attributes: toJson(order.attributes),
    shipping_amount: sumOf('shipping', order.adjustments),
    discount_amount: sumOf('discount', order.adjustments),
    tax_amount: sumOf('tax', order.adjustments),
    fee_amount: sumOf('fee', order.adjustments),
    payment_provider: toText(order.payment?.provider),
    payment_state: toText(order.payment?.state),
    ingested_at: ingestedAt,
    imported: change?.imported === true,
  }
}

/** A lone surrogate, which has no UTF-8, would make every flush fail. `findEventDefect` does not check these fields. */
function toText(value: unknown): string | null {
  return typeof value === 'string' ? value.toWellFormed() : null
}

/** Null without adjustments of the kind: 0 can be one. */
function sumOf(kind: AdjustmentKind, adjustments: readonly Adjustment[] = []): number | null {
  const amounts = adjustments.filter((adjustment) => adjustment.kind === kind).map(({ amount }) => amount.amount)
  return amounts.length === 0 ? null : amounts.reduce((sum, amount) => sum + amount, 0)
}

/** As JSON, which has an escape for a lone surrogate. */
function toJson(value: unknown): string | null {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : null
}

/** Names with their types, for DuckDB's `create table` and `STRUCT`. */
export function typedList(columns: Readonly<Record<string, Sql>>): Sql {
  return commaList(Object.entries(columns).map(([name, type]) => sql`${identifier(name)} ${type}`))
}

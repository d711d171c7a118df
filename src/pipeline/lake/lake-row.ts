import { sql } from '../../db/sql.ts'
import type { TopicMessage } from '../topic.ts'

/** Raised when a column changes its meaning. A new column alone does not raise it: readers merge by name. */
export const LAKE_SCHEMA_VERSION = 1

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
  total_amount: sql`BIGINT`,
  item_count: sql`INTEGER`,
  items: sql`STRUCT(product_id VARCHAR, sku VARCHAR, name VARCHAR, unit_price_amount BIGINT, quantity BIGINT, total_amount BIGINT)[]`,
  created_at: sql`TIMESTAMPTZ`,
  updated_at: sql`TIMESTAMPTZ`,
  ingested_at: sql`TIMESTAMPTZ`,
} as const

export type LakeRow = Record<keyof typeof LAKE_COLUMNS, unknown>

/**
 * The row of an event. Fields are named one by one so that a new field of an order stays out of the lake until someone
 * decides otherwise: of personal data only the user id may enter, no address, note or client reference. Pure.
 */
export function toLakeRow(message: TopicMessage, ingestedAt: string): LakeRow {
  const { event, sequence } = message
  const { order, previous_status } = event.data
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
    total_amount: order.total.amount,
    item_count: order.items.length,
    items: order.items.map((item) => ({
      // A lone surrogate has no UTF-8: it would make every flush fail.
      product_id: item.product_id.toWellFormed(),
      sku: item.sku.toWellFormed(),
      name: item.name.toWellFormed(),
      unit_price_amount: item.unit_price.amount,
      quantity: item.quantity,
      total_amount: item.total.amount,
    })),
    created_at: order.created_at,
    updated_at: order.updated_at,
    ingested_at: ingestedAt,
  }
}

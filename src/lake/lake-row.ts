import { minorDigits } from '../../client/src/currency.ts'
import { type Sql, sql } from '../db/sql.ts'
import { canonicalJson } from '../encoding.ts'
import { type ImpersonalOrder, linesOf, listPaymentEntries, type OrderEvent, parcelsOf } from '../orders/events.ts'
import type { Adjustment, AdjustmentKind, Parcel } from '../orders/order-changes.ts'
import type { TopicMessage } from '../topic/topic.ts'
import {
  BIGINT,
  BOOLEAN,
  firstOf,
  INTEGER,
  type LakeColumn,
  rowMaker,
  TIMESTAMPTZ,
  toText,
  typedList,
  typesOf,
  VARCHAR,
} from './lake-columns.ts'

/** Increases when a column changes its meaning. A new column keeps it, because readers merge by name. */
export const LAKE_SCHEMA_VERSION = 1

type Lines = ReturnType<typeof linesOf>

interface ItemSource {
  item: ImpersonalOrder['items'][number]
  line: Lines[number] | undefined
}

/** Fields may be added, never removed. */
export const ITEM_COLUMNS = {
  product_id: { id: 34, type: VARCHAR, isFirst: true, value: ({ item }) => toText(item.product_id) },
  sku: { id: 35, type: VARCHAR, isFirst: true, value: ({ item }) => toText(item.sku) },
  name: { id: 36, type: VARCHAR, isFirst: true, value: ({ item }) => toText(item.name) },
  unit_price_amount: { id: 37, type: BIGINT, isFirst: true, value: ({ item }) => item.unit_price.amount },
  quantity: { id: 38, type: BIGINT, isFirst: true, value: ({ item }) => item.quantity },
  total_amount: { id: 39, type: BIGINT, isFirst: true, value: ({ item }) => item.total.amount },
  category: { id: 40, type: VARCHAR, value: ({ item }) => toText(item.category) },
  shipped: { id: 41, type: BIGINT, value: ({ line }) => line?.shipped ?? 0 },
  cancelled: { id: 42, type: BIGINT, value: ({ line }) => line?.cancelled ?? 0 },
  returned: { id: 43, type: BIGINT, value: ({ line }) => line?.returned ?? 0 },
} as const satisfies Readonly<Record<string, LakeColumn<ItemSource>>>

interface Source {
  sequence: number
  event: Omit<OrderEvent, 'data'>
  /** The order without personal members, so no lake column can contain them. */
  order: ImpersonalOrder
  country: unknown
  billingCountry: unknown
  previousStatus: OrderEvent['data']['previous_status']
  change: ImpersonalOrder['status_history'][number] | undefined
  lines: Lines
  parcels: readonly Parcel[]
  ingestedAt: string
}

/** Amounts are minor units of `currency`. Columns may be added, never removed. */
export const ORDER_EVENT_COLUMNS = {
  sequence: { id: 1, type: BIGINT, isFirst: true, value: ({ sequence }) => sequence },
  event_id: { id: 2, type: VARCHAR, isFirst: true, value: ({ event }) => event.id },
  event_type: { id: 3, type: VARCHAR, isFirst: true, value: ({ event }) => event.type },
  event_time: { id: 4, type: TIMESTAMPTZ, isFirst: true, value: ({ event }) => event.time },
  order_id: { id: 5, type: VARCHAR, isFirst: true, inOrders: true, value: ({ order }) => order.id },
  order_number: { id: 6, type: VARCHAR, isFirst: true, inOrders: true, value: ({ order }) => order.number },
  version: { id: 7, type: INTEGER, isFirst: true, inOrders: true, value: ({ order }) => order.version },
  status: { id: 8, type: VARCHAR, isFirst: true, inOrders: true, value: ({ order }) => order.status },
  previous_status: { id: 9, type: VARCHAR, isFirst: true, value: ({ previousStatus }) => previousStatus },
  user_id: { id: 10, type: VARCHAR, isFirst: true, inOrders: true, value: ({ order }) => order.user_id },
  currency: { id: 11, type: VARCHAR, isFirst: true, inOrders: true, value: ({ order }) => order.total.currency },
  currency_exponent: { id: 12, type: INTEGER, inOrders: true, value: ({ order }) => minorDigits(order.total.currency) },
  total_amount: { id: 13, type: BIGINT, isFirst: true, inOrders: true, value: ({ order }) => order.total.amount },
  original_amount: { id: 14, type: BIGINT, inOrders: true, value: ({ order: { total, original_total = total } }) => original_total.amount },
  client_reference: { id: 15, type: VARCHAR, inOrders: true, value: ({ order }) => toText(order.client_reference) },
  shipping_country: { id: 16, type: VARCHAR, inOrders: true, value: ({ country }) => toText(country) },
  actor_type: {
    id: 17,
    type: VARCHAR,
    value: ({ change }) => toText(change?.actor?.type),
    inOrders: { id: 44, name: 'cancelled_by', value: ofCancellation(sql`actor_type`) },
  },
  reason: {
    id: 18,
    type: VARCHAR,
    value: ({ change }) => toText(change?.reason),
    inOrders: { id: 45, name: 'cancel_reason', value: ofCancellation(sql`reason`) },
  },
  change_type: { id: 19, type: VARCHAR, value: ({ change }) => toText(change?.change?.type) },
  item_count: { id: 20, type: INTEGER, isFirst: true, inOrders: true, value: ({ order }) => order.items.length },
  items: {
    ...{ id: 21, type: sql`STRUCT(${typedList(typesOf(ITEM_COLUMNS))})[]`, isFirst: true, inOrders: true },
    value: ({ order, lines }) => order.items.map((item, index) => toItem({ item, line: lines[index] })),
  },
  created_at: { id: 22, type: TIMESTAMPTZ, isFirst: true, inOrders: true, value: ({ order }) => order.created_at },
  updated_at: { id: 23, type: TIMESTAMPTZ, isFirst: true, inOrders: true, value: ({ order }) => order.updated_at },
  attributes: { id: 24, type: VARCHAR, inOrders: true, value: ({ order }) => toJson(order.attributes) },
  shipping_amount: sumOf(25, 'shipping'),
  discount_amount: sumOf(26, 'discount'),
  tax_amount: sumOf(27, 'tax'),
  fee_amount: sumOf(28, 'fee'),
  payment_provider: { id: 29, type: VARCHAR, inOrders: true, value: ({ order }) => toText(order.payment?.provider) },
  payment_state: { id: 30, type: VARCHAR, inOrders: true, value: ({ order }) => toText(order.payment?.state) },
  ingested_at: { id: 31, type: TIMESTAMPTZ, isFirst: true, value: ({ ingestedAt }) => ingestedAt },
  adjustments: { id: 74, type: VARCHAR, inOrders: true, value: ({ order: { adjustments = [] } }) => toRows(adjustments.map(toAdjustment)) },
  payments: { id: 75, type: VARCHAR, inOrders: true, value: ({ order }) => toRows(listPaymentEntries(order)) },
  parcels: { id: 76, type: VARCHAR, inOrders: true, value: ({ parcels }) => toRows(parcels) },
  billing_country: { id: 77, type: VARCHAR, inOrders: true, value: ({ billingCountry }) => toText(billingCountry) },
  imported: { id: 32, type: BOOLEAN, value: ({ change }) => change?.imported === true },
} as const satisfies Readonly<Record<string, LakeColumn<Source>>>

export const LAKE_COLUMNS = typesOf(ORDER_EVENT_COLUMNS)
export const FIRST_COLUMNS: readonly string[] = firstOf(ORDER_EVENT_COLUMNS)
export const ITEM_FIELDS = typesOf(ITEM_COLUMNS)
export const FIRST_ITEM_FIELDS: readonly string[] = firstOf(ITEM_COLUMNS)

export type LakeRow = Record<keyof typeof ORDER_EVENT_COLUMNS, unknown>

const toItem = rowMaker<ItemSource, keyof typeof ITEM_COLUMNS>(ITEM_COLUMNS)
const toRow = rowMaker<Source, keyof typeof ORDER_EVENT_COLUMNS>(ORDER_EVENT_COLUMNS)

/** Contains no name, address or note of a customer: docs/decisions/lake-files.md. */
export function toLakeRow({ event, sequence }: TopicMessage, ingestedAt: string): LakeRow {
  const { order, previous_status: previousStatus } = event.data
  const change = order.status_history.at(-1)
  return toRow({
    sequence,
    event,
    order,
    country: order.shipping_address?.country,
    billingCountry: order.billing_address?.country,
    previousStatus,
    change,
    lines: linesOf(event),
    parcels: parcelsOf(order),
    ingestedAt,
  })
}

function ofCancellation(value: Sql): Sql {
  return sql`case when status = 'cancelled'
    then arg_min_null(${value}, version) filter (where status = 'cancelled') over (partition by order_id) end`
}

/** The sum is null without adjustments of the kind, because 0 can be a sum. */
function sumOf(id: number, kind: AdjustmentKind): LakeColumn<Source> & { inOrders: true } {
  return {
    ...{ id, type: BIGINT, inOrders: true },
    value({ order: { adjustments = [] } }) {
      const amounts = adjustments.filter((adjustment) => adjustment.kind === kind).map(({ amount }) => amount.amount)
      return amounts.length === 0 ? null : amounts.reduce((sum, amount) => sum + amount, 0)
    },
  }
}

function toAdjustment({ amount, ...adjustment }: Adjustment) {
  return { ...adjustment, amount: amount.amount }
}

/**
 * The rows as JSON; null if there are none. The text does not depend on the order of members, which an erasure changes.
 */
function toRows(rows: readonly object[]): string | null {
  if (rows.length === 0) return null
  return canonicalJson(JSON.parse(JSON.stringify(rows, (_, value: unknown) => (typeof value === 'string' ? value.toWellFormed() : value))))
}

function toJson(value: unknown): string | null {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : null
}

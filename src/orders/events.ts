import type { Money } from '../money.ts'
import { joinAttributes, splitAttributes } from './line-attributes.ts'
import type { OrderItem, OrderRow, StatusChange } from './order.ts'
import { amendableValues, valuesAt } from './order-amendments.ts'
import type { Adjustment, Parcel, Payment } from './order-changes.ts'
import { followPayments, hasRefunds } from './order-charges.ts'
import {
  type LaterColumn,
  ORDER_COLUMNS,
  type OrderColumn,
  type PersonalColumn,
  type ShownGiven,
  showGiven,
  toGiven,
} from './order-columns.ts'
import { amountOf, isAmended, itemsWith, type LineState, orderStateOf, placedItems } from './order-state.ts'
import { ORDER_STATUSES, type OrderEventName, type OrderStatus, ruleOf, versionOf } from './order-status.ts'

type StreamedRow = { [K in keyof OrderRow]: K extends 'number' | 'total_amount' ? string : OrderRow[K] }
/** A row of `orders` in the change stream, parsed by `pg`'s default parsers. Older records lack later columns. */
export type OrderRecord = Omit<StreamedRow, LaterColumn> & Partial<Pick<StreamedRow, LaterColumn>>

export const RECORD_COLUMNS = Object.keys(ORDER_COLUMNS) as (keyof OrderRecord)[]

export const UPDATED = 'storefront.order.updated'

export const AMENDED = 'storefront.order.amended'

export type OrderEventType = `storefront.order.${OrderEventName}` | typeof UPDATED | typeof AMENDED

export function orderEventType(status: OrderStatus): OrderEventType {
  return `storefront.order.${ruleOf(status).event}`
}

export const ORDER_EVENT_TYPES: readonly OrderEventType[] = [...ORDER_STATUSES.map(orderEventType), UPDATED, AMENDED]

/** A CloudEvents 1.0 event in JSON, with the extensions sequence, partitioning and distributed tracing. */
export interface OrderEvent {
  specversion: '1.0'
  /** `<order id>.<version>`. Every read of the change gives the same id, and subscribers dedupe by it. */
  id: string
  source: '/orders'
  type: OrderEventType
  subject: string
  /** Time of the change, RFC 3339 UTC. */
  time: string
  datacontenttype: 'application/json'
  /** The order's version, ten digits with leading zeros, so it sorts as text. */
  sequence: string
  /** The order's id, so events of one order stay in order. */
  partitionkey: string
  /** W3C Trace Context of the request that made the change. */
  traceparent?: string
  data: OrderEventData
}

export interface OrderEventData {
  order: ShownGiven & {
    id: string
    number: string
    user_id: string
    status: OrderStatus
    items: OrderItem[]
    total: { amount: number; currency: string }
    version: number
    created_at: string
    updated_at: string
    status_history: StatusChange[]
    /** This member and `parcels` appear with the first change that is more than a status. */
    original_total?: { amount: number; currency: string }
    parcels?: Parcel[]
    adjustments?: Adjustment[]
    payment?: Payment
    /**
     * Appears with the first refund that the shop records. The value is null when the amount of another refund is
     * unknown.
     */
    refunded?: Money | null
  }
  previous_status: OrderStatus | null
}

const PERSONAL_MEMBERS = Object.entries<OrderColumn>(ORDER_COLUMNS).flatMap(([name, { isPersonal }]) => (isPersonal ? [name] : []))

export type ImpersonalOrder = Omit<OrderEventData['order'], PersonalColumn | 'items'> & { items: Omit<OrderItem, 'attributes'>[] }

/** Separates the members of an order that an erasure removes. */
export function splitPersonal({ items, ...others }: OrderEventData['order']): { order: object; personal: unknown[] } {
  const lines = splitAttributes(items)
  const order: Record<string, unknown> = { ...others, items: lines.items }
  const personal = PERSONAL_MEMBERS.map((name) => order[name])
  for (const name of PERSONAL_MEMBERS) delete order[name]
  return { order, personal: [...personal, lines.attributes] }
}

export function orderEventId({ id, version }: Pick<OrderRecord, 'id' | 'version'>): string {
  return `${id}.${version}`
}

/** Largest number of versions that are assumed for an order whose history does not list them. */
const MAX_ASSUMED = 10_000

export function orderEventIds(record: OrderRecord): string[] {
  const { id, version, status_history: history } = record
  const versions =
    Array.isArray(history) && hasWholeHistory(record)
      ? history.map(versionOf)
      : [
          ...Array(Math.min(version - 1, MAX_ASSUMED))
            .keys()
            .map((index) => index + 1),
          version,
        ]
  return versions.map((each) => orderEventId({ id, version: each }))
}

export function toOrderEvent(record: OrderRecord, previous: Pick<OrderRecord, 'status'> | null): OrderEvent {
  const { items, total, ...amended } = contentOf(record)
  return {
    specversion: '1.0',
    id: orderEventId(record),
    source: '/orders',
    type: typeOf(record, previous),
    subject: record.id,
    time: record.updated_at.toISOString(),
    datacontenttype: 'application/json',
    sequence: String(record.version).padStart(10, '0'),
    partitionkey: record.id,
    ...(record.traceparent === null ? {} : { traceparent: record.traceparent }),
    data: {
      order: {
        id: record.id,
        number: record.number,
        user_id: record.user_id,
        status: record.status,
        items,
        total,
        ...showGiven(toGiven(record)),
        version: record.version,
        created_at: record.created_at.toISOString(),
        updated_at: record.updated_at.toISOString(),
        status_history: record.status_history,
        ...amended,
      },
      previous_status: previous?.status ?? null,
    },
  }
}

function typeOf({ status, status_history }: OrderRecord, previous: Pick<OrderRecord, 'status'> | null): OrderEventType {
  const change = status_history.at(-1)?.change
  if (change?.type === 'amended') return AMENDED
  return previous?.status === status && change !== undefined ? UPDATED : orderEventType(status)
}

/** The content is as placed while all moves were moves of the whole order, as in earlier releases. */
function contentOf({ items: placed, item_attributes, total_amount, currency, status_history: history }: OrderRecord) {
  const items = joinAttributes(placed, item_attributes)
  const total = { amount: Number(total_amount), currency }
  if (!isAmended(history)) return { items, total }
  const state = orderStateOf({ items, total, history })
  const { adjustments, payment, refunded } = state
  return {
    ...{ items: itemsWith(state.items, state.lines), total: state.total, original_total: total, parcels: state.parcels },
    ...(adjustments.length === 0 ? {} : { adjustments }),
    ...(payment === null ? {} : { payment }),
    // Orders with only providers' reports have no such member in their published events.
    ...(hasRefunds(history) ? { refunded } : {}),
  }
}

/**
 * Whether another shop made the change before the order was imported. Subscribers send no message about such a change.
 */
export function isImported({ data: { order } }: OrderEvent): boolean {
  return order.status_history.at(-1)?.imported === true
}

export function hasWholeHistory({ status_history: history, version }: Pick<OrderRecord, 'status_history' | 'version'>): boolean {
  const last = history.at(-1)
  return last !== undefined && versionOf(last, history.length - 1) === version
}

/** The published events, without erased values and old `traceparent`s. Throws RangeError when a version is missing. */
export function toOrderEvents(record: OrderRecord): OrderEvent[] {
  const { status_history: history, version: newest } = record
  if (!hasWholeHistory(record))
    throw new RangeError(`order ${record.id} is at version ${newest} and its history has ${history.length} entries`)
  const values = amendableValues((name) => (record[name] ?? null) as never)
  const amended = { values, former: record.former_values ?? null, history }
  return history.map((change, index) => {
    const version = versionOf(change, index)
    const { status, at } = change
    const made = { status, version, status_history: history.slice(0, index + 1), updated_at: new Date(at), traceparent: null }
    const past = { ...record, ...made, ...valuesAt(amended, index) }
    return toOrderEvent(version === newest ? record : past, history[index - 1] ?? null)
  })
}

/** Like `toOrderEvents`, but addresses that were amended later are missing. Empty when a version is missing. */
export function toEarlierEvents({ data: { order } }: OrderEvent): OrderEvent[] {
  const { items, total, created_at, updated_at, original_total: _total, parcels: _parcels, ...same } = order
  if (!hasWholeHistory(order)) return []
  const times = { created_at: new Date(created_at), updated_at: new Date(updated_at) }
  const placed = {
    items: placedItems(items, order.status_history).map(asPlaced),
    total_amount: String(total.amount - amountOf(order.status_history)),
    currency: total.currency,
  }
  return toOrderEvents({ ...same, ...times, ...placed, traceparent: null }).slice(0, -1)
}

/** The id of the last event of `toEarlierEvents`, or null. It avoids making all events of a long history. */
export function previousEventId({ data: { order } }: OrderEvent): string | null {
  const index = order.status_history.length - 2
  const previous = order.status_history[index]
  return previous === undefined || !hasWholeHistory(order) ? null : `${order.id}.${versionOf(previous, index)}`
}

function asPlaced({ shipped: _shipped, cancelled: _cancelled, returned: _returned, ...item }: OrderItem): OrderItem {
  return item
}

const CHANGES_WITH_MAIL: readonly string[] = ['shipped', 'lines_cancelled', 'returned']

export function isMailed({ type, data: { order } }: OrderEvent): boolean {
  return type !== UPDATED || CHANGES_WITH_MAIL.includes(order.status_history.at(-1)?.change?.type ?? '')
}

/** Accepts older events, which lack `original_total`. */
export function linesOf({ data: { order } }: OrderEvent, history = order.status_history): LineState[] {
  const { items, total, original_total = total } = order
  return orderStateOf({ items: placedItems(items, order.status_history), total: original_total, history }).lines
}

export function parcelsOf({ parcels, items, total, status_history: history }: ImpersonalOrder): readonly Parcel[] {
  return parcels ?? orderStateOf({ items, total, history }).parcels
}

/** Amounts are in minor units. A reported partial refund has none, and neither has a later report of the rest. */
export function listPaymentEntries({ status_history: history, total, original_total: placed = total }: ImpersonalOrder) {
  return followPayments(history, placed.amount, true).entries
}

/** An absolute http or https URL without user name and password. */
export function isWebAddress(text: string): boolean {
  const url = URL.parse(text)
  return url !== null && ['http:', 'https:'].includes(url.protocol) && url.username === '' && url.password === ''
}

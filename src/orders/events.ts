import type { Attributes } from '../attributes.ts'
import { isDate, isTime, isTimeOfSomeForm } from './event-time.ts'
import type { OrderItem, ShippingAddress, StatusChange } from './order.ts'
import type { Adjustment, Parcel, Payment } from './order-changes.ts'
import { amountOf, isAmended, itemsWith, type LineState, orderStateOf } from './order-state.ts'
import { type OrderStatus, versionOf } from './order-status.ts'

/** A row of `orders` as the change stream carries it, columns parsed by `pg`'s default parsers. */
export interface OrderRecord {
  id: string
  number: string
  user_id: string
  status: OrderStatus
  items: OrderItem[]
  total_amount: string
  currency: string
  client_reference: string | null
  shipping_address: ShippingAddress | null
  note: string | null
  /** Absent in a record of the log from before the column was added. */
  attributes?: Attributes | null
  version: number
  status_history: StatusChange[]
  traceparent: string | null
  created_at: Date
  updated_at: Date
}

/** The columns of an `OrderRecord`: all others of the table do not concern events. */
export const ORDER_COLUMNS = Object.keys({
  id: true,
  number: true,
  user_id: true,
  status: true,
  items: true,
  total_amount: true,
  currency: true,
  client_reference: true,
  shipping_address: true,
  note: true,
  attributes: true,
  version: true,
  status_history: true,
  traceparent: true,
  created_at: true,
  updated_at: true,
} satisfies Record<keyof OrderRecord, true>) as (keyof OrderRecord)[]

const EVENT_NAMES = {
  pending: 'created',
  confirmed: 'confirmed',
  shipped: 'shipped',
  delivered: 'delivered',
  cancelled: 'cancelled',
  returned: 'returned',
} as const satisfies Record<OrderStatus, string>

/** Of a change that leaves the status as it is. */
export const UPDATED = 'storefront.order.updated'

export type OrderEventType = `storefront.order.${(typeof EVENT_NAMES)[OrderStatus]}` | typeof UPDATED

/** The type of the event for a move to `status`. */
export function orderEventType(status: OrderStatus): OrderEventType {
  return `storefront.order.${EVENT_NAMES[status]}`
}

/** Every type of order event. */
export const ORDER_EVENT_TYPES: readonly OrderEventType[] = [
  ...Object.values(EVENT_NAMES).map((name) => `storefront.order.${name}` as const),
  UPDATED,
]

/** An order change: CloudEvents 1.0, JSON format, with the extensions sequence, partitioning and distributed tracing. */
export interface OrderEvent {
  specversion: '1.0'
  /** `<order id>.<version>`: the same however often the change is read. Subscribers dedupe by it. */
  id: string
  source: '/orders'
  type: OrderEventType
  /** The order's id. */
  subject: string
  /** When the change was made, RFC 3339 UTC. */
  time: string
  datacontenttype: 'application/json'
  /** The order's version, ten digits with leading zeros: sorts as text. */
  sequence: string
  /** The order's id: events of one order stay in order. */
  partitionkey: string
  /** W3C Trace Context of the request that made the change. */
  traceparent?: string
  data: OrderEventData
}

export interface OrderEventData {
  order: {
    id: string
    number: string
    user_id: string
    status: OrderStatus
    items: OrderItem[]
    total: { amount: number; currency: string }
    client_reference: string | null
    shipping_address: ShippingAddress | null
    note: string | null
    /** Absent: none. */
    attributes?: Attributes
    version: number
    created_at: string
    updated_at: string
    status_history: StatusChange[]
    /** Both only of an order of which something besides the status was changed. */
    original_total?: { amount: number; currency: string }
    parcels?: Parcel[]
    /** Absent: none. */
    adjustments?: Adjustment[]
    /** Absent: nothing is known. */
    payment?: Payment
  }
  previous_status: OrderStatus | null
}

/**
 * Why no event can be made of a row that something other than the store has written, null when one can. Looks at what subscribers rely
 * on and the database does not hold, and names the place without saying what is there. Pure.
 */
export function findDefect({ items, status_history, created_at, updated_at }: OrderRecord): string | null {
  // An infinite timestamp is a number here.
  if (!isDate(created_at)) return 'created_at is no time'
  if (!isDate(updated_at)) return 'updated_at is no time'
  return findDefectInLists(items, status_history)
}

/**
 * Why a message of the topic is no event that subscribers can use; null when it is one. Every program that can write to the topic can put
 * anything there, so the reason names the member and never its value. Pure.
 */
export function findEventDefect(event: unknown): string | null {
  const data = isObject(event) ? event.data : null
  const order = isObject(data) ? data.order : null
  if (!isObject(event) || !isObject(data) || !isObject(order)) return 'it has no order'
  if (!isUuid(order.id)) return 'order.id is no UUID'
  if (!isUuid(order.user_id)) return 'order.user_id is no UUID'
  if (!isVersion(order.version)) return 'order.version is no version'
  if (event.id !== `${order.id}.${order.version}`) return 'id is not that of the order and its version'
  if (!(ORDER_EVENT_TYPES as readonly unknown[]).includes(event.type)) return 'type is no type of an order event'
  if (!isText(order.number)) return 'order.number is no text'
  if (!isStatus(order.status)) return 'order.status is no status'
  if (data.previous_status !== null && !isStatus(data.previous_status)) return 'previous_status is no status'
  if (!isMoney(order.total) || !isText(order.total.currency)) return 'order.total is no amount'
  if (!isTime(event.time)) return 'time is no time'
  if (order.adjustments !== undefined && !areAdjustments(order.adjustments)) return 'adjustments is no list of adjustments'
  // Of a new order all three are the same.
  if (order.created_at !== event.time && !isTime(order.created_at)) return 'created_at is no time'
  if (order.updated_at !== event.time && !isTime(order.updated_at)) return 'updated_at is no time'
  return findDefectInLists(order.items, order.status_history)
}

function findDefectInLists(items: unknown, status_history: unknown): string | null {
  if (!Array.isArray(items)) return 'items is no list'
  const line = items.findIndex((item) => !isOrderItem(item))
  if (line !== -1) return `items[${line}] is no line of an order`
  if (!Array.isArray(status_history)) return 'status_history is no list'
  const change = status_history.findIndex((entry) => !isStatusChange(entry))
  return change === -1 ? null : `status_history[${change}] is no change of status`
}

/** A UUID as the store writes it: the text form of RFC 9562 in small letters, as the source of a regular expression. */
export const UUID_PATTERN = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}'
const UUID = new RegExp(`^${UUID_PATTERN}$`)

function isUuid(value: unknown): boolean {
  return typeof value === 'string' && UUID.test(value)
}

/** As the database's `integer` and the lake's hold it. */
function isVersion(value: unknown): boolean {
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) < 2 ** 31
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value.isWellFormed()
}

function isStatus(value: unknown): boolean {
  return typeof value === 'string' && Object.hasOwn(EVENT_NAMES, value)
}

function isOrderItem(value: unknown): boolean {
  if (!isObject(value)) return false
  const { product_id, sku, name, unit_price, quantity, total } = value
  const areTexts = [product_id, sku, name].every((text) => typeof text === 'string')
  return areTexts && Number.isSafeInteger(quantity) && isMoney(unit_price) && isMoney(total)
}

function isMoney(value: unknown): value is { amount: number; currency: string } {
  return isObject(value) && Number.isSafeInteger(value.amount) && typeof value.currency === 'string'
}

function isStatusChange(value: unknown): boolean {
  if (!isObject(value)) return false
  const { status, at, reference, tracking, change } = value
  const hasReference = reference === undefined || isText(reference)
  const isMove = isStatus(status) && isTimeOfSomeForm(at) && hasReference && (tracking === undefined || isTracking(tracking))
  return isMove && (change === undefined || isChange(change))
}

function isChange(value: unknown): boolean {
  if (!isObject(value)) return false
  const { type, lines, amount, kind, label, provider, reference, state } = value
  const areLines = lines === undefined || (Array.isArray(lines) && lines.every(isLineQuantity))
  if (type === 'adjusted' && !(isText(kind) && isText(label) && Number.isSafeInteger(amount))) return false
  if (type === 'payment' && !(isText(provider) && isText(reference) && isText(state))) return false
  return isText(type) && areLines && (amount === undefined || Number.isSafeInteger(amount))
}

function isLineQuantity(value: unknown): boolean {
  return isObject(value) && isText(value.product_id) && Number.isSafeInteger(value.quantity)
}

function areAdjustments(value: unknown): boolean {
  return Array.isArray(value) && value.every((each) => isObject(each) && isText(each.kind) && isText(each.label) && isMoney(each.amount))
}

function isTracking(value: unknown): boolean {
  return isObject(value) && isText(value.carrier) && isText(value.number) && (value.url === undefined || isText(value.url))
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

/** The event of an order change: `record` is the row after it, `previous` the row before it, null for a new order. Pure. */
export function toOrderEvent(record: OrderRecord, previous: Pick<OrderRecord, 'status'> | null): OrderEvent {
  const attributes = record.attributes ?? null
  const { items, total, ...amended } = contentOf(record)
  return {
    specversion: '1.0',
    id: `${record.id}.${record.version}`,
    source: '/orders',
    type: isUpdate(record, previous) ? UPDATED : orderEventType(record.status),
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
        client_reference: record.client_reference,
        shipping_address: record.shipping_address,
        note: record.note,
        ...(attributes === null ? {} : { attributes }),
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

function isUpdate({ status, status_history }: OrderRecord, previous: Pick<OrderRecord, 'status'> | null): boolean {
  return previous?.status === status && status_history.at(-1)?.change !== undefined
}

/** What the history makes of the order. Of an order that only moved as a whole: what was placed, as in events of releases before. */
function contentOf({ items, total_amount, currency, status_history: history }: OrderRecord) {
  const total = { amount: Number(total_amount), currency }
  if (!isAmended(history)) return { items, total }
  const state = orderStateOf({ items, total, history })
  const { adjustments, payment } = state
  return {
    ...{ items: itemsWith(items, state.lines), total: state.total, original_total: total, parcels: state.parcels },
    ...(adjustments.length === 0 ? {} : { adjustments }),
    ...(payment === null ? {} : { payment }),
  }
}

/** Whether the change was made in another shop and moved in: subscribers tell nobody of it. Pure. */
export function isImported({ data: { order } }: OrderEvent): boolean {
  return order.status_history.at(-1)?.imported === true
}

/** Whether the history contains every version. Pure. */
export function hasWholeHistory({ status_history: history, version }: Pick<OrderRecord, 'status_history' | 'version'>): boolean {
  const last = history.at(-1)
  return last !== undefined && versionOf(last, history.length - 1) === version
}

/**
 * The event of each version of an order, from its present row: only what `status_history` contains ever changes. They equal the events that the
 * change stream published, except for the `traceparent` of older ones, which is not stored. Throws RangeError when the history does not contain
 * every version. Pure.
 */
export function toOrderEvents(record: OrderRecord): OrderEvent[] {
  const { status_history: history, version: newest } = record
  if (!hasWholeHistory(record))
    throw new RangeError(`order ${record.id} is at version ${newest} and its history has ${history.length} entries`)
  return history.map((change, index) => {
    const version = versionOf(change, index)
    const { status, at } = change
    const past = { ...record, status, version, status_history: history.slice(0, index + 1), updated_at: new Date(at), traceparent: null }
    return toOrderEvent(version === newest ? record : past, history[index - 1] ?? null)
  })
}

/**
 * The events of the versions before that of an event, as `toOrderEvents` makes them; none when its history does not have every version.
 * Pure.
 */
export function toEarlierEvents({ data: { order } }: OrderEvent): OrderEvent[] {
  const { items, total, created_at, updated_at, original_total: _total, parcels: _parcels, ...same } = order
  if (!hasWholeHistory(order)) return []
  const times = { created_at: new Date(created_at), updated_at: new Date(updated_at) }
  const placed = {
    items: items.map(asPlaced),
    total_amount: String(total.amount - amountOf(order.status_history)),
    currency: total.currency,
  }
  return toOrderEvents({ ...same, ...times, ...placed, traceparent: null }).slice(0, -1)
}

/** The id of the last of `toEarlierEvents`, null for none. To make them all takes long where the history is long. Pure. */
export function previousEventId({ data: { order } }: OrderEvent): string | null {
  const index = order.status_history.length - 2
  const previous = order.status_history[index]
  return previous === undefined || !hasWholeHistory(order) ? null : `${order.id}.${versionOf(previous, index)}`
}

function asPlaced({ shipped: _shipped, cancelled: _cancelled, returned: _returned, ...item }: OrderItem): OrderItem {
  return item
}

const CHANGES_WITH_MAIL: readonly string[] = ['shipped', 'lines_cancelled', 'returned']

/** Whether the customer gets a mail about the event: not about a change that only the store cares for. Pure. */
export function isMailed({ type, data: { order } }: OrderEvent): boolean {
  return type !== UPDATED || CHANGES_WITH_MAIL.includes(order.status_history.at(-1)?.change?.type ?? '')
}

/** What was done to the pieces of each line of an event's order, also where the event does not name them; or until an earlier change. Pure. */
export function linesOf({ data: { order } }: OrderEvent, history = order.status_history): LineState[] {
  const { items, total, original_total = total } = order
  return orderStateOf({ items, total: original_total, history }).lines
}

/** Whether a text is an absolute http or https URL, without a user's name and password. Pure. */
export function isWebAddress(text: string): boolean {
  const url = URL.parse(text)
  return url !== null && ['http:', 'https:'].includes(url.protocol) && url.username === '' && url.password === ''
}

import { isDate, isTime, isTimeOfSomeForm } from './event-time.ts'
import type { OrderItem, ShippingAddress, StatusChange } from './order.ts'
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

export type OrderEventType = `storefront.order.${(typeof EVENT_NAMES)[OrderStatus]}`

/** The type of the event for a move to `status`. */
export function orderEventType(status: OrderStatus): OrderEventType {
  return `storefront.order.${EVENT_NAMES[status]}`
}

/** Every type of order event. */
export const ORDER_EVENT_TYPES: readonly OrderEventType[] = Object.values(EVENT_NAMES).map((name) => `storefront.order.${name}` as const)

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
    version: number
    created_at: string
    updated_at: string
    status_history: StatusChange[]
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
  const { status, at, reference, tracking } = value
  const hasReference = reference === undefined || isText(reference)
  return isStatus(status) && isTimeOfSomeForm(at) && hasReference && (tracking === undefined || isTracking(tracking))
}

function isTracking(value: unknown): boolean {
  return isObject(value) && isText(value.carrier) && isText(value.number) && (value.url === undefined || isText(value.url))
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

/** The event of an order change: `record` is the row after it, `previous` the row before it, null for a new order. Pure. */
export function toOrderEvent(record: OrderRecord, previous: Pick<OrderRecord, 'status'> | null): OrderEvent {
  return {
    specversion: '1.0',
    id: `${record.id}.${record.version}`,
    source: '/orders',
    type: orderEventType(record.status),
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
        items: record.items,
        total: { amount: Number(record.total_amount), currency: record.currency },
        client_reference: record.client_reference,
        shipping_address: record.shipping_address,
        note: record.note,
        version: record.version,
        created_at: record.created_at.toISOString(),
        updated_at: record.updated_at.toISOString(),
        status_history: record.status_history,
      },
      previous_status: previous?.status ?? null,
    },
  }
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
  const { total, created_at, updated_at, ...same } = order
  if (!hasWholeHistory(order)) return []
  const times = { created_at: new Date(created_at), updated_at: new Date(updated_at) }
  return toOrderEvents({ ...same, ...times, total_amount: String(total.amount), currency: total.currency, traceparent: null }).slice(0, -1)
}

/** Whether a text is an absolute http or https URL, without a user's name and password. Pure. */
export function isWebAddress(text: string): boolean {
  const url = URL.parse(text)
  return url !== null && ['http:', 'https:'].includes(url.protocol) && url.username === '' && url.password === ''
}

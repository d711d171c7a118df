import { isDate, isTime, isTimeOfSomeForm } from '../event-time.ts'
import { ORDER_EVENT_TYPES, type OrderRecord } from './events.ts'
import { isStatus } from './order-status.ts'

/** Why a row cannot become an event, or null. Names the place, never its value. */
export function findDefect({ items, status_history, created_at, updated_at }: OrderRecord): string | null {
  // `pg` parses an infinite timestamp to a number.
  if (!isDate(created_at)) return 'created_at is no time'
  if (!isDate(updated_at)) return 'updated_at is no time'
  return findDefectInLists(items, status_history)
}

/** Any program that can write to the topic can send anything. The reason contains no value. */
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
  if (order.refunded !== undefined && order.refunded !== null && !isMoney(order.refunded)) return 'order.refunded is no amount'
  // A new order has the same time in all three members.
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

/** Source of a regular expression for a UUID in the store's spelling: RFC 9562 text in lower case. */
export const UUID_PATTERN = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}'
const UUID = new RegExp(`^${UUID_PATTERN}$`)

function isUuid(value: unknown): boolean {
  return typeof value === 'string' && UUID.test(value)
}

/** Whether the value fits into an `integer` of the database and the lake. */
function isVersion(value: unknown): boolean {
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) < 2 ** 31
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value.isWellFormed()
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
  const { type, lines, amount, kind, label, provider, reference, state, refund, amended, removed, added } = value
  const areLines = [lines, removed].every((units) => units === undefined || (Array.isArray(units) && units.every(isLineQuantity)))
  if (type === 'adjusted' && !(isText(kind) && isText(label) && Number.isSafeInteger(amount))) return false
  if (type === 'payment' && !(isText(provider) && isText(reference) && isText(state))) return false
  if (refund !== undefined && !isRefund(refund)) return false
  if (type === 'amended' && !(Array.isArray(amended) && amended.every(isText))) return false
  if (added !== undefined && !(Array.isArray(added) && added.every(isOrderItem))) return false
  return isText(type) && areLines && (amount === undefined || Number.isSafeInteger(amount))
}

function isRefund(value: unknown): boolean {
  if (!isObject(value)) return false
  const { amount, lines = [] } = value
  return Number.isSafeInteger(amount) && Array.isArray(lines) && lines.every((line) => isObject(line) && isText(line.product_id))
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

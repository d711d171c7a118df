import { type Static, Type } from 'typebox'
import { AttributesSchema } from '../attributes.ts'
import { type Money, MoneySchema } from '../money.ts'
import { EXAMPLE_ORDER } from './examples.ts'
import { hasAttributes } from './line-attributes.ts'
import type { FormerValues } from './order-amendments.ts'
import { AdjustmentSchema, type OrderChange, OrderChangeSchema, OrderLineSchema, ParcelSchema, PaymentSchema } from './order-changes.ts'
import { type GivenMembers, pickGiven, SHOWN_PROPERTIES, type StoredRow, showGiven } from './order-columns.ts'
import { itemsWith, type OrderState, orderStateOf, transitionsOf } from './order-state.ts'
import { ORDER_STATUSES, type OrderStatus } from './order-status.ts'
import { ReferenceSchema, type Tracking, TrackingSchema } from './tracking.ts'

export const OrderStatusSchema = Type.Enum([...ORDER_STATUSES], { title: 'OrderStatus' })

const units = (what: string) => Type.Optional(Type.Integer({ description: `Units that were ${what}. Absent if there are none.` }))

const OrderItemSchema = Type.Object(
  {
    ...OrderLineSchema.properties,
    attributes: Type.Optional({
      ...AttributesSchema,
      description:
        'The attributes with which the line was ordered, such as an engraving. Absent if there are none, and after their erasure.',
    }),
    shipped: units('shipped, including those that were returned later'),
    cancelled: units('cancelled'),
    returned: units('returned'),
  },
  { title: 'OrderItem' },
)
export type OrderItem = Static<typeof OrderItemSchema>

const StatusChangeSchema = Type.Object(
  {
    status: OrderStatusSchema,
    at: Type.String({ format: 'date-time' }),
    actor: Type.Object({
      type: Type.Enum(['customer', 'admin', 'key', 'system'], { description: '`admin`: an operator of any role. `key`: an API key.' }),
      id: Type.Union([Type.String(), Type.Null()]),
    }),
    reason: Type.Union([Type.String(), Type.Null()]),
    reference: Type.Optional(ReferenceSchema),
    tracking: Type.Optional(TrackingSchema),
    change: Type.Optional(OrderChangeSchema),
    imported: Type.Optional(
      Type.Boolean({ description: 'The change was made in another shop and moved in: no mail and no webhook reports it.' }),
    ),
    version: Type.Optional(
      Type.Integer({
        description:
          'The version of the order after the change. Present only if it differs from the place in this list, for example after a restore.',
      }),
    ),
  },
  { title: 'StatusChange' },
)
export type StatusChange = Static<typeof StatusChangeSchema>

export const OrderSchema = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    number: Type.String({ description: 'The unique number that people use for the order.' }),
    status: OrderStatusSchema,
    allowed_transitions: Type.Array(OrderStatusSchema),
    items: Type.Array(OrderItemSchema),
    total: MoneySchema,
    ...SHOWN_PROPERTIES,
    email: Type.Optional(
      Type.String({
        description:
          "The address for the order's mails that an amendment has set. Absent if mails go to the address of the account or guest.",
      }),
    ),
    version: Type.Integer({
      description: 'Increases with each change: 1, 2, 3 … Numbers may be missing after the database was restored.',
    }),
    created_at: Type.String({ format: 'date-time' }),
    updated_at: Type.String({ format: 'date-time' }),
    status_history: Type.Array(StatusChangeSchema),
    original_total: MoneySchema,
    adjustments: Type.Array(AdjustmentSchema, { description: 'Charges and discounts besides the lines.' }),
    payment: Type.Union([PaymentSchema, Type.Null()], {
      description: 'The payment as the provider has reported it. Null if the provider has reported nothing.',
    }),
    refunded: Type.Union([Type.Object(MoneySchema.properties), Type.Null()], {
      description: 'The refunded amount. Null if a provider has reported a refund whose amount is unknown.',
    }),
    parcels: Type.Array(ParcelSchema, { description: 'What was shipped, parcel by parcel.' }),
  },
  { title: 'Order', examples: [EXAMPLE_ORDER] },
)
export type OrderView = Static<typeof OrderSchema>

export type OrderRow = Omit<StoredRow, 'items' | 'status_history'> & { items: OrderItem[]; status_history: StatusChange[] }

export interface Order extends GivenMembers {
  id: string
  number: string
  userId: string
  status: OrderStatus
  /** Items, with their attributes, and total as placed. `stateOf` applies the history. */
  items: OrderItem[]
  total: Money
  /** Replaces the account's address for mails. */
  email: string | null
  formerValues: FormerValues | null
  version: number
  statusHistory: StatusChange[]
  traceparent: string | null
  createdAt: Date
  updatedAt: Date
}

export const OrderNumber = (description: string) =>
  Type.String({ pattern: '^[0-9]{1,18}$', 'x-input': 'code', 'x-must': 'be the number of an order, such as 100042', description })

export function locationOf(baseUrl: string, orderId: string, isForOperators = false): string {
  return `${baseUrl}${isForOperators ? '/admin' : ''}/orders/${orderId}`
}

export function presentOrder(order: Order, cancellable: readonly OrderStatus[] = ORDER_STATUSES): OrderView {
  const { items, lines, parcels, adjustments, payment, refunded, total } = stateOf(order)
  return {
    id: order.id,
    number: order.number,
    status: order.status,
    allowed_transitions: transitionsOf(order.status, lines).filter((to) => to !== 'cancelled' || cancellable.includes(order.status)),
    items: itemsWith(items, lines),
    total,
    ...showGiven(order),
    ...(order.email === null ? {} : { email: order.email }),
    version: order.version,
    created_at: order.createdAt.toISOString(),
    updated_at: order.updatedAt.toISOString(),
    status_history: order.statusHistory,
    original_total: order.total,
    adjustments,
    payment,
    refunded,
    parcels,
  }
}

export function stateOf({ items, total, statusHistory: history }: Order): OrderState {
  return orderStateOf({ items, total, history })
}

/** The database assigns the number. */
export function newOrder(
  placed: Pick<Order, 'id' | 'userId' | 'items' | 'total' | keyof GivenMembers> & {
    actor: Actor
    traceparent: string
    now: Date
  },
): Order {
  const { id, userId, items, total, actor, traceparent, now } = placed
  return {
    id,
    number: '',
    userId,
    status: 'pending',
    items,
    total,
    ...pickGiven(placed),
    ...{ email: null, formerValues: null },
    version: 1,
    statusHistory: [{ status: 'pending', at: now.toISOString(), actor, reason: null }],
    traceparent,
    createdAt: now,
    updatedAt: now,
  }
}

/**
 * Lacks the number and the items, which `renderResponse` adds. The items can be large and are stored with the order.
 * Items with attributes stay in the template, because the order stores them in two columns.
 */
export function responseTemplateOf(order: Order, present: (order: Order) => OrderView): string {
  return JSON.stringify(present({ ...order, number: '', items: hasAttributes(order.items) ? order.items : [] }))
}

export function renderResponse(template: string, number: string, itemsJson: string): string {
  // These members follow ids and statuses, so the first match is the member.
  return replaceFirst(replaceFirst(template, NO_NUMBER, `"number":"${number}"`), NO_ITEMS, `"items":${itemsJson}`)
}

const NO_NUMBER = '"number":""'
const NO_ITEMS = '"items":[]'

function replaceFirst(text: string, part: string, replacement: string): string {
  const start = text.indexOf(part)
  return start === -1 ? text : text.slice(0, start) + replacement + text.slice(start + part.length)
}

/** The store itself acts without an id. */
export type Actor = StatusChange['actor']

export interface StatusMove {
  to: OrderStatus
  actor: Actor
  reason: string | null
  reference?: string | null
  tracking?: Tracking | null
  change?: OrderChange
  traceparent: string
}

/** Call `assertTransition` first. */
export function withStatus(order: Order, move: StatusMove, at: Date): Order {
  const { to: status, actor, reason, reference = null, tracking = null, change: parts, traceparent } = move
  const change: StatusChange = {
    status,
    at: at.toISOString(),
    actor: { type: actor.type, id: actor.id },
    reason,
    ...(reference === null ? {} : { reference }),
    ...(tracking === null ? {} : { tracking }),
    ...(parts === undefined ? {} : { change: parts }),
  }
  return { ...order, status, version: order.version + 1, statusHistory: [...order.statusHistory, change], traceparent, updatedAt: at }
}

import { type TObject, type TSchema, Type } from 'typebox'
import { openSchema } from '../http/open-schema.ts'
import { UUID_PATTERN } from './event-defects.ts'
import { AMENDED, orderEventType, UPDATED } from './events.ts'
import { OrderSchema, OrderStatusSchema } from './order.ts'
import { PaymentSchema } from './order-changes.ts'
import { allowedTransitions, ORDER_STATUSES, type OrderStatus, ruleOf } from './order-status.ts'

/** Additional properties are allowed at every depth, so the schemas accept events of later releases, too. */
export function orderEventSchemas(): Record<string, TObject> {
  const moves = ORDER_STATUSES.map((status) => [orderEventType(status), eventSchema(orderEventType(status), status)])
  return Object.fromEntries([...moves, ...[UPDATED, AMENDED].map((type) => [type, eventSchema(type, null)])])
}

/** CloudEvents 1.0 in JSON, with three extensions. Any status is allowed when `status` is null. */
function eventSchema(type: string, status: OrderStatus | null): TObject {
  return Type.Object(
    {
      specversion: Type.Literal('1.0'),
      id: Type.String({
        pattern: `^${UUID_PATTERN}\\.[1-9][0-9]*$`,
        description: '`<order id>.<version>`. The same at each delivery: dedupe by it.',
      }),
      source: Type.Literal('/orders'),
      type: Type.Literal(type),
      subject: Type.String({ format: 'uuid', description: "The order's id." }),
      time: Type.String({ format: 'date-time', description: 'When the change was made, UTC.' }),
      datacontenttype: Type.Literal('application/json'),
      sequence: Type.String({ pattern: '^[0-9]{10}$', description: "The order's version with leading zeros; sorts as text." }),
      partitionkey: Type.String({ format: 'uuid', description: "The order's id: events of one order come in order." }),
      traceparent: Type.Optional(
        Type.String({
          pattern: '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$',
          description: 'W3C Trace Context of the request that made the change.',
        }),
      ),
      data: Type.Object({ order: orderSchema(status), previous_status: previousStatus(status) }),
    },
    { $id: `urn:storefront:event:${type}`, title: type },
  )
}

function orderSchema(status: OrderStatus | null): TObject {
  const {
    allowed_transitions: _,
    email: _email,
    original_total,
    parcels,
    adjustments,
    payment: _payment,
    refunded,
    ...shown
  } = OrderSchema.properties
  const order = Type.Object({
    ...shown,
    user_id: Type.String({ format: 'uuid' }),
    status: status === null ? OrderStatusSchema : Type.Literal(status),
    // Both are absent while the order only moved as a whole.
    original_total: Type.Optional(original_total),
    parcels: Type.Optional(parcels),
    adjustments: Type.Optional(adjustments),
    payment: Type.Optional(PaymentSchema),
    refunded: Type.Optional(refunded),
  })
  return openSchema(order)
}

function previousStatus(status: OrderStatus | null): TSchema {
  if (status === null)
    return Type.Enum([...ORDER_STATUSES], { description: 'The status before the change. It is also the status after the change.' })
  const before = ORDER_STATUSES.filter((previous) => allowedTransitions(previous).includes(status) || leadsByParts(previous, status))
  const description = 'The status before the change, null for a new order.'
  return before.length === 0 ? Type.Null({ description }) : Type.Enum(before, { description })
}

/** Cancelling the rest ends an order as returned when every shipped unit was returned. */
function leadsByParts(previous: OrderStatus, status: OrderStatus): boolean {
  const { phase, parts } = ruleOf(previous)
  return phase === 'open' && parts.includes('returned') && ruleOf(status).moves === 'returned'
}

import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import type { AuditContext } from '../activity/record-activity.ts'
import { AttributesInput } from '../attributes.ts'
import type { ErrorCode } from '../errors.ts'
import type { Admission } from '../http/admission.ts'
import { traceparentOf } from '../http/trace-context.ts'
import { MoneySchema } from '../money.ts'
import { MAX_LINES, MAX_LINES_ATTRIBUTES_BYTES, MAX_QUANTITY, mergeLines } from './basket.ts'
import { EXAMPLE_NEW_ORDER } from './examples.ts'
import { givenAttributes } from './line-attributes.ts'
import { INPUT_PROPERTIES, toGiven } from './order-columns.ts'
import type { IdempotencyKey, PlacedOrder } from './placing/idempotency.ts'
import type { OrderBatcher } from './placing/order-batcher.ts'
import { repeatsOf } from './placing/repeats.ts'
import { assertDeliverable } from './postal-address.ts'

/** 1,000 indented lines with the longest note, addresses and attributes, all characters escaped. */
export const BASKET_LIMIT_BYTES = 262_144

const strict = { additionalProperties: false }

export const Items = Type.Array(
  Type.Object(
    {
      product_id: Type.String({ format: 'uuid' }),
      quantity: Type.Integer({ minimum: 1, maximum: MAX_QUANTITY }),
      attributes: Type.Optional(AttributesInput),
    },
    { title: 'NewOrderItem', ...strict },
  ),
  {
    minItems: 1,
    maxItems: MAX_LINES,
    description:
      'Lines of the same product are merged if their `attributes`, such as an engraving, are equal. A product has at most 10,000 units in all lines, and the attributes of ' +
      `all lines together have at most ${MAX_LINES_ATTRIBUTES_BYTES} bytes as JSON. They are erased with the addresses of the order, and the data lake does not have them.`,
  },
)
export const OrderCurrency = Type.String({
  pattern: '^[A-Z]{3}$',
  examples: ['EUR'],
  description:
    'The currency of the prices (ISO 4217), in which each product must be sold. By default the own price of each product applies.',
})
export const NewOrder = Type.Object(
  {
    items: Items,
    currency: Type.Optional(OrderCurrency),
    expected_total: Type.Optional(
      Type.Object(MoneySchema.properties, {
        ...strict,
        description: 'The total that the customer was shown. If the total differs, the order is refused with `price_changed`.',
      }),
    ),
    again: Type.Optional(
      Type.Boolean({ description: 'Places the order although it is the same as an earlier one: see `probably_placed_already`.' }),
    ),
    ...INPUT_PROPERTIES,
  },
  { title: 'NewOrder', ...strict, examples: [EXAMPLE_NEW_ORDER] },
)

export const KeyHeader = (description: string) => Type.Object({ 'idempotency-key': Type.Optional(Type.String({ description })) })

export const PLACING_REFUSALS = [
  'unknown_product',
  'currency_not_available',
  'mixed_currencies',
  'total_too_large',
  'account_blocked',
  'insufficient_stock',
  'purchase_limit',
  'too_many_pending_orders',
  'price_changed',
  'client_reference_taken',
  'request_in_progress',
  'probably_placed_already',
  'idempotency_key_reused',
  'idempotency_key_required',
] as const satisfies readonly ErrorCode[]

/** Throws `invalid_body` for an undeliverable address. `content` is the part that a retry has in common. */
export function readNewOrder({ again = false, ...body }: Static<typeof NewOrder>) {
  const { items: sent, currency = null, expected_total = null, attributes: asked, ...given } = body
  assertDeliverable(given.shipping_address, '#/shipping_address')
  assertDeliverable(given.billing_address, '#/billing_address')
  const attributes = givenAttributes(asked)
  const items = sent.map(({ attributes: ofLine, ...line }) => ({ ...line, ...(givenAttributes(ofLine) && { attributes: ofLine }) }))
  return {
    ...{ items, currency, expectedTotal: expected_total, isMeant: again },
    members: toGiven({ ...given, attributes }),
    content: { items, currency, expected_total, ...given, ...(attributes && { attributes }) },
  }
}

export interface PlacingOptions {
  batcher: Pick<OrderBatcher, 'place'>
  admission: Admission
  nameOf: (who: string) => string
  /** Time in which a person's same order is refused. 0 refuses nothing. */
  duplicateOrderSeconds: number
}

export interface OrderOwner {
  userId: string
  /** A guest's address. It is null for an account. */
  guestEmail: string | null
  /** The account that owns the guest. */
  ownerId: string | null
  isOfBlockedAddress: boolean
  stockHolder: string | null
  /** Present when an operator places the order. */
  auditContext?: AuditContext
}

export function placeNewOrder(
  { batcher, admission, nameOf, duplicateOrderSeconds }: PlacingOptions,
  request: FastifyRequest,
  { items, currency, expectedTotal, isMeant, members }: ReturnType<typeof readNewOrder>,
  { guestEmail, ownerId, ...owner }: OrderOwner,
  idempotencyKey: IdempotencyKey | null,
): Promise<PlacedOrder> {
  const basket = mergeLines(items)
  const isOfOperator = owner.auditContext !== undefined
  const repeatable = { userId: owner.userId, isOfOperator, guestEmail, ownerId, items: basket.orderLines, idempotencyKey, ...members }
  return batcher.place(
    {
      ...owner,
      ...{ basket, currency, expectedTotal, idempotencyKey },
      ...members,
      repeats: repeatsOf({ ...repeatable, duplicateSeconds: duplicateOrderSeconds, isMeant }, nameOf),
      traceparent: traceparentOf(request),
    },
    admission.quotaKey(request),
  )
}

export function sendPlaced(reply: FastifyReply, { json, isReplay }: PlacedOrder, location: string): FastifyReply {
  if (isReplay) reply.header('idempotency-replayed', 'true')
  return reply
    .code(201)
    .headers({ location })
    .type('application/json; charset=utf-8')
    .send(json as never)
}

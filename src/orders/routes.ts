import { Type } from 'typebox'
import type { Attributes } from '../attributes.ts'
import type { Pool } from '../db/pool.ts'
import { AppError } from '../errors.ts'
import type { Admission } from '../http/admission.ts'
import { callerOf } from '../http/caller.ts'
import { defineList, defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { readIfMatch } from '../http/if-match.ts'
import { PageOf } from '../http/pagination.ts'
import { traceparentOf } from '../http/trace-context.ts'
import { MoneySchema } from '../money.ts'
import { MAX_LINES, MAX_QUANTITY, mergeLines } from './basket.ts'
import { cancelOrder } from './cancel-order.ts'
import { EXAMPLE_NEW_ORDER } from './examples.ts'
import { listOrders, OrderQuery } from './list-orders.ts'
import { locationOf, OrderSchema, presentOrder } from './order.ts'
import { INPUT_PROPERTIES, toGiven } from './order-columns.ts'
import { NumberPosition, OrderLimit, pageText } from './order-page.ts'
import type { OrderStatus } from './order-status.ts'
import { getOrder } from './orders.ts'
import { readIdempotencyKey } from './placing/idempotency.ts'
import type { LockedRows } from './placing/locked-rows.ts'
import type { OrderBatcher } from './placing/order-batcher.ts'
import { QuoteSchema, quoteOrder } from './placing/quote-order.ts'
import { repeatsOf } from './placing/repeats.ts'
import { findGuestAddress, isUnproven } from './placing/unusual-owners.ts'
import { assertDeliverable } from './postal-address.ts'
import { type FindDeliveries, OrderDetailSchema, presentOrderDetail } from './timeline.ts'

/** 1,000 lines, indented, with the longest note and addresses, every character of them escaped. */
const BASKET_LIMIT_BYTES = 262_144

const strict = { additionalProperties: false }

const Items = Type.Array(
  Type.Object(
    { product_id: Type.String({ format: 'uuid' }), quantity: Type.Integer({ minimum: 1, maximum: MAX_QUANTITY }) },
    { title: 'NewOrderItem', ...strict },
  ),
  { minItems: 1, maxItems: MAX_LINES, description: 'Lines of the same product are merged. A merged line has at most 10,000 units.' },
)
const OrderCurrency = Type.String({
  pattern: '^[A-Z]{3}$',
  examples: ['EUR'],
  description: 'ISO 4217: the prices in this currency, which each product must have. By default the own prices of the products.',
})
const NewOrder = Type.Object(
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
export const OrderParams = Type.Object({ id: Type.String({ format: 'uuid', description: 'The id of the order.' }) })
export const IfMatch = Type.Object({
  'if-match': Type.Optional(Type.String({ description: 'The version of the order that the caller knows, such as `"3"`.' })),
})

/** The query of changes that operators and keys can preview. */
export const Preview = Type.Object(
  {
    preview: Type.Optional(
      Type.Boolean({
        description: 'Shows what the change would do, or why it would be refused, and changes nothing. Needs `orders:read`, too.',
      }),
    ),
  },
  { additionalProperties: false },
)

export interface OrderRoutesOptions {
  pool: Pool
  lockedRows: LockedRows
  batcher: Pick<OrderBatcher, 'place'>
  admission: Admission
  /** A name for a network or an account that shows neither. */
  nameOf: (who: string) => string
  /** Whether an account is created only after its address is proven. */
  isVerificationRequired: boolean
  /** Whether an order without an idempotency key is refused. */
  isIdempotencyKeyRequired: boolean
  /** The statuses in which customers cancel their orders. */
  cancellableStatuses: readonly OrderStatus[]
  /** Within this time the same order of a person is refused; 0 for never. */
  duplicateOrderSeconds: number
  baseUrl: string
  now: () => Date
  findDeliveries: FindDeliveries
}

/** The caller's orders. */
export function orderRoutes(server: HttpServer, options: OrderRoutesOptions): void {
  placingRoutes(server, options)
  readingRoutes(server, options)
}

function placingRoutes(server: HttpServer, options: OrderRoutesOptions): void {
  const { pool, lockedRows, batcher, admission, baseUrl, now } = options
  // Bounds accounts from before the proof was required. Where it is not, customers are not asked for one, and may pay
  // in their own time.
  const areAccountsBounded = options.isVerificationRequired && admission.isByNetwork
  defineRoute(
    server,
    'POST /orders',
    {
      access: 'caller',
      cost: 'order',
      bodyLimit: BASKET_LIMIT_BYTES,
      operationId: 'placeOrder',
      summary: 'Places an order',
      description:
        'The order gets the present prices and names of the catalogue. Either all lines are reserved or none. Send an `Idempotency-Key` and repeat the request with it when no answer arrives: it places one order. Without `billing_address` the invoice goes to `shipping_address`. `attributes` are never changed and, like `client_reference`, kept in the data lake: without personal data.',
      headers: Type.Object({
        'idempotency-key': Type.Optional(Type.String({ description: 'Makes a retry safe; kept for 24 hours.' })),
      }),
      body: NewOrder,
      answers: {
        201: [
          OrderSchema,
          'The order; `Location` leads to it. For a repeated `Idempotency-Key` the same answer again, with `Idempotency-Replayed: true`.',
        ],
      },
      refuses: [
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
      ],
    },
    async (request, reply) => {
      const { userId, role } = callerOf(request)
      const { items, currency = null, expected_total = null, attributes = {}, again = false, ...given } = request.body
      assertDeliverable(given.shipping_address, '#/shipping_address')
      assertDeliverable(given.billing_address, '#/billing_address')
      const quotaKey = admission.quotaKey(request)
      const members = toGiven({ ...given, attributes: isEmpty(attributes) ? null : attributes })
      const body = { items, currency, expected_total, ...given, ...(isEmpty(attributes) ? {} : { attributes }) }
      const idempotencyKey = readIdempotencyKey(request.headers['idempotency-key'], userId, body)
      if (idempotencyKey === null && options.isIdempotencyKeyRequired) {
        throw new AppError('idempotency_key_required', 'Send an Idempotency-Key with each order, the same with each retry of it.')
      }
      // One query at most for an order, in a place.
      const ask = <T>(query: (pool: Pool, userId: string) => Promise<T>) => admission.admit('token', request, () => query(pool, userId))
      const isBounded = role === 'guest' || (areAccountsBounded && role === 'customer' && (await ask(isUnproven)))
      const guest = role === 'guest' ? await ask(findGuestAddress) : null
      const basket = mergeLines(items)
      const repeatable = { userId, guestEmail: guest?.email ?? null, items: basket.lines, idempotencyKey, ...members }
      const placed = await batcher.place(
        {
          userId,
          basket,
          currency,
          expectedTotal: expected_total,
          ...members,
          idempotencyKey,
          repeats: repeatsOf({ ...repeatable, duplicateSeconds: options.duplicateOrderSeconds, isMeant: again }, options.nameOf),
          traceparent: traceparentOf(request),
          stockHolder: isBounded ? options.nameOf(quotaKey.at(-1) ?? userId) : null,
          isOfBlockedAddress: guest?.isBlocked === true,
        },
        quotaKey,
      )
      if (placed.isReplay) reply.header('idempotency-replayed', 'true')
      return reply
        .code(201)
        .headers({ location: locationOf(baseUrl, placed.orderId) })
        .type('application/json; charset=utf-8')
        .send(placed.json as never)
    },
  )

  defineRoute(
    server,
    'POST /orders/quote',
    {
      access: 'caller',
      cost: 'quote',
      bodyLimit: BASKET_LIMIT_BYTES,
      operationId: 'quoteOrder',
      summary: 'What an order would cost and whether there is enough stock; nothing is reserved',
      description: 'Uses the present prices and stock. `billing_address` and `vat_number` are checked, and change nothing.',
      body: Type.Object(
        {
          items: Items,
          currency: Type.Optional(OrderCurrency),
          billing_address: INPUT_PROPERTIES.billing_address,
          vat_number: INPUT_PROPERTIES.vat_number,
        },
        { title: 'QuoteRequest', ...strict, examples: [{ items: EXAMPLE_NEW_ORDER.items }] },
      ),
      answers: { 200: [QuoteSchema, 'What the order would be.'] },
      refuses: ['unknown_product', 'currency_not_available', 'mixed_currencies', 'total_too_large'],
    },
    ({ body: { items, currency = null, billing_address } }) => {
      assertDeliverable(billing_address, '#/billing_address')
      return quoteOrder(pool, mergeLines(items), currency)
    },
  )

  defineRoute(
    server,
    'POST /orders/:id/cancel',
    {
      access: 'caller',
      cost: 'change',
      operationId: 'cancelOrder',
      summary: "Cancels one of the caller's orders, while the shop lets its customers",
      description:
        'Possible while the order is pending, unless the shop has another rule. Later only the shop can cancel it. The stock is returned in the same transaction. With `If-Match`, cancels the order only at that version.',
      params: OrderParams,
      headers: IfMatch,
      answers: { 200: [OrderSchema, 'The cancelled order.'] },
      refuses: ['illegal_transition'],
    },
    async (request) => {
      const { userId } = callerOf(request)
      const versions = readIfMatch(request.headers['if-match'])
      const order = await cancelOrder(
        { pool, lockedRows },
        { userId, orderId: request.params.id, versions, cancellable: options.cancellableStatuses, traceparent: traceparentOf(request) },
        now(),
      )
      return presentOrder(order)
    },
  )
}

function isEmpty(attributes: Attributes): boolean {
  return Object.keys(attributes).length === 0
}

function readingRoutes(server: HttpServer, { pool, findDeliveries, cancellableStatuses }: OrderRoutesOptions): void {
  defineList(
    server,
    'GET /orders',
    {
      access: 'caller',
      cost: 'own',
      operationId: 'listOrders',
      summary: "The caller's orders, newest first by number, in pages",
      description: 'Pages: follow `next_cursor` until `has_more` is false.',
      filters: OrderQuery,
      limit: OrderLimit,
      page: PageOf(OrderSchema),
      answer: 'A page of the orders; it ends early when its orders have 1 MiB.',
      position: NumberPosition,
    },
    async (request, paging) => pageText(await listOrders(pool, callerOf(request).userId, request.query, paging, cancellableStatuses)),
  )

  defineRoute(
    server,
    'GET /orders/:id',
    {
      access: 'caller',
      cost: 'own',
      operationId: 'getOrder',
      summary: "One of the caller's orders, and the delivery status of each change",
      description:
        "Another customer's order is answered with 404, like one that does not exist. The timeline shows when each change was published, mailed and stored in the lake.",
      params: OrderParams,
      answers: { 200: [OrderDetailSchema, 'The order with its timeline.'] },
    },
    async (request) => {
      const { userId } = callerOf(request)
      const order = await getOrder(pool, userId, request.params.id)
      return presentOrderDetail(order, await findDeliveries(order), cancellableStatuses)
    },
  )
}

import { Type } from 'typebox'
import type { Pool } from '../db/pool.ts'
import { callerOf } from '../http/caller.ts'
import { defineList, defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { readIfMatch } from '../http/if-match.ts'
import { PageOf } from '../http/pagination.ts'
import { traceparentOf } from '../http/trace-context.ts'
import { cancelOrder } from './cancel-order.ts'
import { listOrders, OrderQuery } from './list-orders.ts'
import {
  BASKET_LIMIT_BYTES,
  KeyHeader,
  NewOrder,
  PLACING_REFUSALS,
  type PlacingOptions,
  placeNewOrder,
  readNewOrder,
  sendPlaced,
} from './new-order.ts'
import { locationOf, OrderSchema, presentOrder } from './order.ts'
import { NumberPosition, OrderLimit, pageText } from './order-page.ts'
import type { OrderStatus } from './order-status.ts'
import { getOrder } from './orders.ts'
import { keyRequired, readIdempotencyKey } from './placing/idempotency.ts'
import type { LockedRows } from './placing/locked-rows.ts'
import { defineQuote } from './placing/quote-order.ts'
import { findGuestAddress, isUnproven } from './placing/unusual-owners.ts'
import { type FindDeliveries, OrderDetailSchema, presentOrderDetail } from './timeline.ts'

export const OrderParams = Type.Object({ id: Type.String({ format: 'uuid', description: 'The id of the order.' }) })
export const IfMatch = Type.Object({
  'if-match': Type.Optional(Type.String({ description: 'The version of the order that the caller knows, such as `"3"`.' })),
})

export const Preview = Type.Object(
  {
    preview: Type.Optional(
      Type.Boolean({
        description:
          'With `true`, shows what the change would do or why it would be refused, and changes nothing. Needs the scope `orders:read`, too.',
      }),
    ),
  },
  { additionalProperties: false },
)

export interface OrderRoutesOptions extends PlacingOptions {
  pool: Pool
  lockedRows: LockedRows
  /** Whether an account is created only after the proof of its address. */
  isVerificationRequired: boolean
  isIdempotencyKeyRequired: boolean
  cancellableStatuses: readonly OrderStatus[]
  baseUrl: string
  now: () => Date
  findDeliveries: FindDeliveries
}

export function orderRoutes(server: HttpServer, options: OrderRoutesOptions): void {
  placingRoutes(server, options)
  cancellingRoutes(server, options)
  readingRoutes(server, options)
}

function placingRoutes(server: HttpServer, options: OrderRoutesOptions): void {
  const { pool, admission, baseUrl } = options
  // This bounds accounts that are older than the required proof. Shops without that requirement ask for no proof, and
  // their customers may pay later.
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
        'The order gets the current prices and names of the catalogue. Either all lines are reserved or none. Send an `Idempotency-Key`. If no answer arrives, repeat the request with the same key: only one order is placed. Without `billing_address` the invoice goes to `shipping_address`. `attributes` cannot be changed later. The data lake keeps them and `client_reference`, so they must not contain personal data.',
      headers: KeyHeader('Makes a retry safe. The key is kept for 24 hours.'),
      body: NewOrder,
      answers: {
        201: [
          OrderSchema,
          'The order. `Location` leads to it. A repeated `Idempotency-Key` gets the same answer with `Idempotency-Replayed: true`.',
        ],
      },
      refuses: PLACING_REFUSALS,
    },
    async (request, reply) => {
      const { userId, role } = callerOf(request)
      const order = readNewOrder(request.body)
      const idempotencyKey = readIdempotencyKey(request.headers['idempotency-key'], userId, order.content)
      if (idempotencyKey === null && options.isIdempotencyKeyRequired) throw keyRequired()
      // This queries at most once per order, in an admission slot.
      const ask = <T>(query: (pool: Pool, userId: string) => Promise<T>) => admission.admit('token', request, () => query(pool, userId))
      const isBounded = role === 'guest' || (areAccountsBounded && role === 'customer' && (await ask(isUnproven)))
      const guest = role === 'guest' ? await ask(findGuestAddress) : null
      const owner = {
        ...{ userId, guestEmail: guest?.email ?? null, ownerId: null, isOfBlockedAddress: guest?.isBlocked === true },
        stockHolder: isBounded ? options.nameOf(admission.quotaKey(request).at(-1) ?? userId) : null,
      }
      const placed = await placeNewOrder(options, request, order, owner, idempotencyKey)
      return sendPlaced(reply, placed, locationOf(baseUrl, placed.orderId))
    },
  )

  defineQuote(server, 'POST /orders/quote', { access: 'caller', cost: 'quote', operationId: 'quoteOrder', pool })
}

function cancellingRoutes(server: HttpServer, { pool, lockedRows, now, cancellableStatuses: cancellable }: OrderRoutesOptions): void {
  defineRoute(
    server,
    'POST /orders/:id/cancel',
    {
      access: 'caller',
      cost: 'change',
      operationId: 'cancelOrder',
      summary: "Cancels one of the caller's orders, if the shop allows it",
      description:
        'Possible while the order is pending, unless the shop has another rule. Later only the shop can cancel it. The units return to the stock in the same transaction. With `If-Match` the order is cancelled only if it still has that version.',
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
        { userId, orderId: request.params.id, versions, cancellable, traceparent: traceparentOf(request) },
        now(),
      )
      return presentOrder(order)
    },
  )
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
      answer: 'A page of the orders. It has fewer orders than `limit` if they reach 1 MiB.',
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

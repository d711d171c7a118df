import { Type } from 'typebox'
import type { Pool } from '../db/pool.ts'
import { type Authenticate, bearer, callerOf, requireCaller } from '../http/caller.ts'
import { nextLink, PageOf } from '../http/pagination.ts'
import { problemResponses } from '../http/problem.ts'
import type { HttpServer } from '../http/server.ts'
import { traceparentOf } from '../http/trace-context.ts'
import { cancelOrder } from './cancel-order.ts'
import { readIdempotencyKey } from './idempotency.ts'
import { OrderSchema, presentOrder, ShippingAddressSchema } from './order.ts'
import { getOrder, listOrders, OrderQuery } from './orders.ts'
import { MAX_LINES, MAX_QUANTITY, placeOrder } from './place-order.ts'

const strict = { additionalProperties: false }

const NewOrder = Type.Object(
  {
    items: Type.Array(
      Type.Object({ product_id: Type.String({ format: 'uuid' }), quantity: Type.Integer({ minimum: 1, maximum: MAX_QUANTITY }) }, strict),
      { minItems: 1, description: `Lines of the same product are merged; at most ${MAX_LINES} are left then.` },
    ),
    client_reference: Type.Optional(
      Type.String({ minLength: 1, maxLength: 100, description: "The client's own number; unique among the caller's orders." }),
    ),
    shipping_address: Type.Optional(ShippingAddressSchema),
    note: Type.Optional(Type.String({ minLength: 1, maxLength: 1_000 })),
  },
  strict,
)
const OrderParams = Type.Object({ id: Type.String({ format: 'uuid' }) })

export interface OrderRoutesOptions {
  pool: Pool
  authenticate: Authenticate
  baseUrl: string
  now: () => Date
}

/** The caller's orders. */
export function orderRoutes(server: HttpServer, { pool, authenticate, baseUrl, now }: OrderRoutesOptions): void {
  const shared = { tags: ['orders'], security: bearer }
  const onRequest = requireCaller(authenticate)

  server.post(
    '/orders',
    {
      onRequest,
      schema: {
        ...shared,
        summary: 'Places an order',
        headers: Type.Object({
          'idempotency-key': Type.Optional(Type.String({ description: 'Makes a retry safe; kept for 24 hours.' })),
        }),
        body: NewOrder,
        response: {
          201: OrderSchema,
          ...problemResponses(
            'malformed_json',
            'invalid_header',
            'unauthenticated',
            'invalid_token',
            'insufficient_stock',
            'client_reference_taken',
            'payload_too_large',
            'unsupported_media_type',
            'invalid_body',
            'unknown_product',
            'mixed_currencies',
            'total_too_large',
            'idempotency_key_reused',
          ),
        },
      },
    },
    async (request, reply) => {
      const { userId } = callerOf(request)
      const { items, client_reference = null, shipping_address = null, note = null } = request.body
      const idempotencyKey = readIdempotencyKey(request.headers['idempotency-key'], userId, request.body)
      const placed = await placeOrder(
        pool,
        {
          userId,
          items,
          clientReference: client_reference,
          shippingAddress: shipping_address,
          note,
          idempotencyKey,
          traceparent: traceparentOf(request),
        },
        now(),
      )
      if (placed.isReplay) reply.header('idempotency-replayed', 'true')
      return reply
        .code(201)
        .headers({ location: `${baseUrl}/orders/${placed.orderId}`, 'cache-control': 'no-store' })
        .type('application/json; charset=utf-8')
        .send(placed.json as never)
    },
  )

  server.get(
    '/orders',
    {
      onRequest,
      schema: {
        ...shared,
        summary: "The caller's orders, newest first, in pages",
        querystring: OrderQuery,
        response: { 200: PageOf(OrderSchema), ...problemResponses('invalid_query', 'invalid_cursor', 'unauthenticated', 'invalid_token') },
      },
    },
    async (request, reply) => {
      const { userId } = callerOf(request)
      const page = await listOrders(pool, userId, request.query)
      const link = nextLink(baseUrl, '/orders', request.query, page.next_cursor)
      if (link !== undefined) reply.header('link', link)
      return reply.header('cache-control', 'no-store').send(page)
    },
  )

  server.get(
    '/orders/:id',
    {
      onRequest,
      schema: {
        ...shared,
        summary: "One of the caller's orders",
        params: OrderParams,
        response: { 200: OrderSchema, ...problemResponses('unauthenticated', 'invalid_token', 'not_found') },
      },
    },
    async (request, reply) => {
      const { userId } = callerOf(request)
      const order = await getOrder(pool, userId, request.params.id)
      return reply.header('cache-control', 'no-store').send(presentOrder(order))
    },
  )

  server.post(
    '/orders/:id/cancel',
    {
      onRequest,
      schema: {
        ...shared,
        summary: "Cancels one of the caller's orders while it is pending or confirmed",
        params: OrderParams,
        response: { 200: OrderSchema, ...problemResponses('unauthenticated', 'invalid_token', 'not_found', 'illegal_transition') },
      },
    },
    async (request, reply) => {
      const { userId } = callerOf(request)
      const order = await cancelOrder(pool, userId, request.params.id, traceparentOf(request), now())
      return reply.header('cache-control', 'no-store').send(presentOrder(order))
    },
  )
}

import { Type } from 'typebox'
import { doingOf } from '../activity/record-activity.ts'
import type { Pool } from '../db/pool.ts'
import { AppError } from '../errors.ts'
import { actorOf } from '../http/caller.ts'
import type { HttpServer } from '../http/http-server.ts'
import { readIfMatch } from '../http/if-match.ts'
import { nextLink, PageOf } from '../http/pagination.ts'
import { OPERATOR_ONLY, okResponses, problemResponses } from '../http/problem.ts'
import { sendPolledText } from '../http/send-polled.ts'
import { traceparentOf } from '../http/trace-context.ts'
import { chargeRoutes } from './charge-routes.ts'
import { EXAMPLE_ADMIN_ORDER_DETAIL } from './examples.ts'
import { moveOrder } from './move-orders.ts'
import { orderNoteRoutes } from './note-routes.ts'
import { pageText } from './order-page.ts'
import { getAnyOrder } from './orders.ts'
import { partRoutes } from './part-routes.ts'
import type { LockedRows } from './placing/locked-rows.ts'
import { IfMatch, OrderParams } from './routes.ts'
import { AdminOrderSchema, type FindUserIds, OrderSearch, presentForAdmin, searchOrders } from './search-orders.ts'
import { type FindDeliveries, OrderDetailSchema, presentOrderDetail } from './timeline.ts'
import { MAX_TRANSITION_LINES, moveOrdersByLines, readTransition, Transition } from './transition-lines.ts'

export interface AdminOrderRoutesOptions {
  pool: Pool
  lockedRows: LockedRows
  baseUrl: string
  now: () => Date
  findDeliveries: FindDeliveries
  findUserIds: FindUserIds
}

const LINES_LIMIT_BYTES = 8 * 1_048_576
const NDJSON = 'application/x-ndjson'
const AdminOrderDetailSchema = Type.Object(
  { ...OrderDetailSchema.properties, user_id: AdminOrderSchema.properties.user_id },
  { title: 'AdminOrderDetail', examples: [EXAMPLE_ADMIN_ORDER_DETAIL] },
)

/** The orders of all customers, for operators. */
export function adminOrderRoutes(server: HttpServer, options: AdminOrderRoutesOptions): void {
  const { pool, lockedRows, baseUrl, now, findDeliveries, findUserIds } = options
  const moving = { pool, lockedRows }
  const shared = { tags: ['operations'] }

  server.get(
    '/admin/orders',
    {
      config: { access: 'orders:read' },
      schema: {
        operationId: 'searchOrders',
        description:
          'Filters combine with AND. Pages: follow `next_cursor` until `has_more` is false. Send the `ETag` as `If-None-Match` to poll.',
        ...shared,
        summary: 'All orders, newest first by number, with `from` or `to` by time, in pages',
        querystring: OrderSearch,
        response: {
          200: { ...PageOf(AdminOrderSchema), description: 'A page of the orders; it ends early when its orders have 1 MiB.' },
          ...problemResponses(...OPERATOR_ONLY, 'invalid_query', 'invalid_cursor'),
        },
      },
    },
    async (request, reply) => {
      const page = await searchOrders(pool, findUserIds, request.query)
      const link = nextLink(baseUrl, '/admin/orders', request.query, page.next_cursor)
      if (link !== undefined) reply.header('link', link)
      return sendPolledText(request, reply, pageText(page))
    },
  )

  server.get(
    '/admin/orders/:id',
    {
      config: { access: 'orders:read' },
      schema: {
        operationId: 'getAnyOrder',
        description:
          'The timeline shows when each change was published, mailed and stored in the lake. Send the `ETag` as `If-None-Match` to poll.',
        ...shared,
        summary: 'Any order, and the delivery status of each change',
        params: OrderParams,
        response: okResponses(AdminOrderDetailSchema, 'The order with its timeline.', ...OPERATOR_ONLY, 'not_found'),
      },
    },
    async (request, reply) => {
      const order = await getAnyOrder(pool, request.params.id)
      const detail = presentOrderDetail(order, await findDeliveries(order))
      // Without an entity tag: `If-Match` of a move takes the version.
      return reply.send({ ...detail, user_id: order.userId })
    },
  )

  server.post(
    '/admin/orders/:id/transitions',
    {
      config: { access: 'orders:move' },
      schema: {
        operationId: 'moveOrder',
        ...shared,
        summary: 'Moves an order to another status',
        description:
          'With a `reference` a move can be repeated: the same `to` with the same `reference` again changes nothing and answers with the order ' +
          'as it is now, whatever `If-Match` says, and with `Idempotency-Replayed: true`.',
        params: OrderParams,
        headers: IfMatch,
        body: Transition,
        response: {
          200: {
            ...AdminOrderSchema,
            description: 'The order after the move; with `Idempotency-Replayed: true` as it is now, when the move was made before.',
          },
          ...problemResponses(
            ...OPERATOR_ONLY,
            'malformed_json',
            'invalid_header',
            'not_found',
            'illegal_transition',
            'precondition_failed',
            'payload_too_large',
            'unsupported_media_type',
            'invalid_body',
          ),
        },
      },
    },
    async (request, reply) => {
      const { order, isRepeat } = await moveOrder(
        { ...moving, doing: doingOf(request) },
        {
          orderId: request.params.id,
          ...readTransition(request.body),
          actor: actorOf(request),
          versions: readIfMatch(request.headers['if-match']),
          traceparent: traceparentOf(request),
        },
        now(),
      )
      if (isRepeat) reply.header('idempotency-replayed', 'true')
      return reply.send(presentForAdmin(order))
    },
  )

  partRoutes(server, moving, now)
  chargeRoutes(server, moving, now)
  orderNoteRoutes(server, { pool, baseUrl })

  // A separate scope: only this route accepts NDJSON.
  server.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser(NDJSON, { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
    scope.post(
      '/admin/orders/transitions',
      {
        config: { access: 'orders:move' },
        bodyLimit: LINES_LIMIT_BYTES,
        schema: {
          operationId: 'moveOrders',
          ...shared,
          summary: 'Moves many orders, one per line',
          description:
            `The body is NDJSON of at most ${MAX_TRANSITION_LINES} lines, each \`{order_id, to, reason?, reference?, tracking?, restock?, version?}\`. The answer ` +
            'is NDJSON with a line for each: `{line, order_id, ok: true, status, version}`, with `repeated: true` when the move was made before ' +
            'under the same reference, or `{line, order_id, ok: false, code, detail}`.',
          consumes: [NDJSON],
          produces: [NDJSON],
          response: {
            200: { description: 'One JSON object a line.', content: { [NDJSON]: { schema: Type.String() } } },
            ...problemResponses(...OPERATOR_ONLY, 'payload_too_large', 'unsupported_media_type', 'invalid_body'),
          },
        },
      },
      async (request, reply) => {
        const actor = actorOf(request)
        const { id, log, body } = request
        if (!Buffer.isBuffer(body)) throw new AppError('unsupported_media_type', `Send the moves as ${NDJSON}.`)
        const results = await moveOrdersByLines(
          { ...moving, doing: doingOf(request) },
          body,
          { id, log, actor, traceparent: traceparentOf(request) },
          now,
        )
        return reply.type(NDJSON).send(results.map((result) => `${JSON.stringify(result)}\n`).join('') as never)
      },
    )
  })
}

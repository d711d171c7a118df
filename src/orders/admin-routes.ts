import { Type } from 'typebox'
import { auditContextOf } from '../activity/record-activity.ts'
import { AppError } from '../errors.ts'
import { actorOf } from '../http/caller.ts'
import { defineList, defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { PageOf } from '../http/pagination.ts'
import { traceparentOf } from '../http/trace-context.ts'
import { type AdminPlacingOptions, adminPlacingRoutes } from './admin-placing-routes.ts'
import { type AmendmentOptions, amendmentRoutes } from './amendment-routes.ts'
import { answerMove } from './answer-move.ts'
import { chargeRoutes } from './charge-routes.ts'
import { EXAMPLE_ADMIN_ORDER_DETAIL } from './examples.ts'
import { orderNoteRoutes } from './note-routes.ts'
import { OrderLimit, OrderPosition, pageText } from './order-page.ts'
import { getAnyOrder } from './orders.ts'
import { partRoutes } from './part-routes.ts'
import type { LockedRows } from './placing/locked-rows.ts'
import { IfMatch, OrderParams, Preview } from './routes.ts'
import { AdminOrderSchema, forOperators, type OrderFinders, OrderSearch, permittedFinders, searchOrders } from './search-orders.ts'
import { type FindDeliveries, OrderDetailSchema, presentOrderDetail } from './timeline.ts'
import { MAX_TRANSITION_LINES, moveOrdersByLines, readTransition, Transition } from './transition-lines.ts'

export interface AdminOrderRoutesOptions extends AdminPlacingOptions {
  lockedRows: LockedRows
  findDeliveries: FindDeliveries
  finders: OrderFinders
  amendments: AmendmentOptions
}

const LINES_LIMIT_BYTES = 8 * 1_048_576
const NDJSON = 'application/x-ndjson'
const AdminOrderDetailSchema = Type.Object(
  { ...AdminOrderSchema.properties, ...OrderDetailSchema.properties },
  { title: 'AdminOrderDetail', examples: [EXAMPLE_ADMIN_ORDER_DETAIL] },
)

export function adminOrderRoutes(server: HttpServer, options: AdminOrderRoutesOptions): void {
  const { pool, lockedRows, now, findDeliveries, finders, amendments } = options
  const context = { pool, lockedRows, now }
  defineList(
    server,
    'GET /admin/orders',
    {
      access: 'orders:read',
      operationId: 'searchOrders',
      summary: 'All orders in pages, newest first: sorted by number, or by time with `from` or `to`',
      description:
        'Filters combine with AND. Pages: follow `next_cursor` until `has_more` is false. Send the `ETag` as `If-None-Match` to poll. With `q` the ' +
        'orders are always sorted by number. If `q` is combined with other filters, a page may have few orders or none although more pages follow.',
      filters: OrderSearch,
      limit: OrderLimit,
      page: PageOf(AdminOrderSchema),
      answer: 'A page of the orders. It has fewer orders than `limit` if they reach 1 MiB.',
      position: OrderPosition,
    },
    async (request, paging) => pageText(await searchOrders(pool, permittedFinders(finders, request), request.query, paging)),
  )

  defineRoute(
    server,
    'GET /admin/orders/:id',
    {
      access: 'orders:read',
      operationId: 'getAnyOrder',
      summary: 'Any order, and the delivery status of each change',
      description:
        'The timeline shows when each change was published, mailed and stored in the lake. Send the `ETag` as `If-None-Match` to poll.',
      params: OrderParams,
      answers: { 200: [AdminOrderDetailSchema, 'The order with its timeline.'] },
    },
    async (request) => {
      const order = await getAnyOrder(pool, request.params.id)
      const detail = presentOrderDetail(order, await findDeliveries(order))
      // The route sets no entity tag, because `If-Match` of a transition takes the version.
      return { ...detail, ...forOperators(order) }
    },
  )

  defineRoute(
    server,
    'POST /admin/orders/:id/transitions',
    {
      access: 'orders:move',
      operationId: 'moveOrder',
      summary: 'Moves an order to another status',
      description:
        'With a `reference` the request can be repeated: the same `to` with the same `reference` changes nothing. The answer is then the current ' +
        'order with `Idempotency-Replayed: true`, even if `If-Match` no longer holds.',
      params: OrderParams,
      query: Preview,
      headers: IfMatch,
      body: Transition,
      answers: {
        200: [
          AdminOrderSchema,
          'The order after the transition. With `Idempotency-Replayed: true` the transition was made before, and this is the current order.',
        ],
      },
      refuses: ['illegal_transition'],
    },
    (request, reply) => answerMove(context, request, reply, readTransition(request.body)),
  )

  adminPlacingRoutes(server, options)
  partRoutes(server, context)
  chargeRoutes(server, context)
  amendmentRoutes(server, { ...context, ...amendments })
  orderNoteRoutes(server, pool)

  // This route has a separate scope, because no other route accepts NDJSON.
  server.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser(NDJSON, { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
    defineRoute(
      scope,
      'POST /admin/orders/transitions',
      {
        access: 'orders:move',
        bodyLimit: LINES_LIMIT_BYTES,
        operationId: 'moveOrders',
        summary: 'Changes the status of many orders, one per line',
        description:
          `The body is NDJSON of at most ${MAX_TRANSITION_LINES} lines, each \`{order_id, to, reason?, reference?, tracking?, restock?, version?}\`. The answer ` +
          'is NDJSON with a line for each: `{line, order_id, ok: true, status, version}`, with `repeated: true` if the transition was made before ' +
          'with the same reference, or `{line, order_id, ok: false, code, detail}`.',
        consumes: [NDJSON],
        produces: [NDJSON],
        answers: { 200: [{ content: { [NDJSON]: { schema: Type.String() } } }, 'One JSON object per line.'] },
        refuses: ['payload_too_large', 'invalid_body'],
      },
      async (request, reply) => {
        const actor = actorOf(request)
        const { id, log, body } = request
        if (!Buffer.isBuffer(body)) throw new AppError('unsupported_media_type', `Send the moves as ${NDJSON}.`)
        const results = await moveOrdersByLines(
          { pool, lockedRows, auditContext: auditContextOf(request) },
          body,
          { id, log, actor, traceparent: traceparentOf(request) },
          now,
        )
        return reply.type(NDJSON).send(results.map((result) => `${JSON.stringify(result)}\n`).join('') as never)
      },
    )
  })
}

import { type Static, type TObject, Type } from 'typebox'
import { defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { type AdminTransitionContext, answerMove } from './answer-move.ts'
import { MAX_LINES, MAX_QUANTITY } from './basket.ts'
import { EXAMPLE_LINES_CANCELLED, EXAMPLE_RETURN, EXAMPLE_SHIPMENT } from './examples.ts'
import { assertNamedOnce, LinePlace } from './named-lines.ts'
import type { LineQuantity } from './order-changes.ts'
import type { RequestedChange } from './plan-change.ts'
import { IfMatch, OrderParams, Preview } from './routes.ts'
import { AdminOrderSchema } from './search-orders.ts'
import { ReferenceSchema, TrackingSchema } from './tracking.ts'
import { assertTracking, Reason } from './transition-lines.ts'

const Lines = Type.Array(
  Type.Object(
    { product_id: Type.String({ format: 'uuid' }), quantity: Type.Integer({ minimum: 1, maximum: MAX_QUANTITY }), line: LinePlace },
    { title: 'OrderPart', additionalProperties: false },
  ),
  { minItems: 1, maxItems: MAX_LINES, description: 'Name each product once, or each of its lines once. By default all remaining units.' },
)
const common = {
  lines: Type.Optional(Lines),
  reason: Type.Optional(Type.Union([Reason, Type.Null()])),
  reference: Type.Optional(
    Type.Union([ReferenceSchema, Type.Null()], {
      description: 'A change of this kind with the same reference is made only once.',
    }),
  ),
}
const strict = { additionalProperties: false }
const NewShipment = Type.Object(
  { ...common, tracking: Type.Optional(Type.Union([TrackingSchema, Type.Null()])) },
  { title: 'NewShipment', ...strict, examples: [EXAMPLE_SHIPMENT] },
)
const NewCancellation = Type.Object(common, { title: 'NewCancellation', ...strict, examples: [EXAMPLE_LINES_CANCELLED] })
const NewReturn = Type.Object(
  { ...common, restock: Type.Boolean({ description: 'Whether the goods can be sold again.' }) },
  { title: 'NewReturn', ...strict, examples: [EXAMPLE_RETURN] },
)

const REPEATS =
  'A repeated request with the same `reference` changes nothing. The answer is then the current order with `Idempotency-Replayed: true`, even if `If-Match` no longer ' +
  'holds. A different request with that `reference` is refused with `change_reference_taken`.'

interface PartRoute<Body extends TObject> {
  path: 'shipments' | 'cancellations' | 'returns'
  operationId: string
  summary: string
  description: string
  body: Body
  read: (body: Static<Body>) => RequestedChange
}

export function partRoutes(server: HttpServer, context: AdminTransitionContext): void {
  partRoute(server, context, {
    path: 'shipments',
    operationId: 'shipLines',
    summary: 'Ships a part of an order, or the rest of it, as one parcel',
    description: 'The order must be confirmed, and stays confirmed until its last open unit is shipped.',
    body: NewShipment,
    read: ({ lines }) => ({ type: 'shipped', lines: readLines(lines) }),
  })
  partRoute(server, context, {
    path: 'cancellations',
    operationId: 'cancelLines',
    summary: 'Cancels a part of an order that is not shipped yet, or the rest of it',
    description:
      'The units return to the stock, and the total falls. When no unit is open, the order becomes `shipped`. It becomes `cancelled` if nothing was ' +
      'shipped, or `returned` if all shipped units were returned.',
    body: NewCancellation,
    read: ({ lines }) => ({ type: 'lines_cancelled', lines: readLines(lines) }),
  })
  partRoute(server, context, {
    path: 'returns',
    operationId: 'returnLines',
    summary: 'Takes back a part of what was shipped, or all of it',
    description: 'The order becomes `returned` when all shipped units are back and no unit is open. The total stays.',
    body: NewReturn,
    read: ({ lines, restock }) => ({ type: 'returned', lines: readLines(lines), restock }),
  })
}

function partRoute<Body extends TObject>(server: HttpServer, context: AdminTransitionContext, route: PartRoute<Body>): void {
  const { path, operationId, summary, description, body, read } = route
  defineRoute(
    server,
    `POST /admin/orders/:id/${path}`,
    {
      access: 'orders:move',
      operationId,
      summary,
      description: `${description} ${REPEATS}`,
      params: OrderParams,
      query: Preview,
      headers: IfMatch,
      body: body as TObject,
      answers: {
        200: [
          AdminOrderSchema,
          'The order after the change. With `Idempotency-Replayed: true` the change was made before, and this is the current order.',
        ],
      },
      refuses: ['illegal_transition', 'quantity_exceeded', 'too_many_changes', 'total_negative', 'change_reference_taken'],
    },
    async (request, reply) => {
      const sent = request.body as Static<typeof NewShipment> & Static<typeof NewReturn>
      const { reason = null, reference = null, tracking = null } = sent
      assertTracking('shipped', tracking)
      return answerMove(context, request, reply, { change: read(sent as Static<Body>), reason, reference, tracking })
    },
  )
}

function readLines(lines: readonly LineQuantity[] | undefined): LineQuantity[] | null {
  if (lines === undefined) return null
  assertNamedOnce(lines)
  return [...lines]
}

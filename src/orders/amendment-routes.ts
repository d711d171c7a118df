import { Type } from 'typebox'
import { assertMayUse } from '../http/access.ts'
import { defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { invalidBody } from '../http/problem.ts'
import { type AdminTransitionContext, makeMove } from './answer-move.ts'
import { EXAMPLE_AMENDMENT, EXAMPLE_NEW_AMENDMENT } from './examples.ts'
import { amendmentMails } from './plan-amendment.ts'
import { assertDeliverable, ShippingAddressSchema } from './postal-address.ts'
import { IfMatch, OrderParams } from './routes.ts'
import { AdminOrderSchema, presentForAdmin } from './search-orders.ts'
import { ReferenceSchema, TrackingSchema } from './tracking.ts'
import { assertTracking, Reason } from './transition-lines.ts'

const strict = { additionalProperties: false }

const NewAmendment = Type.Object(
  {
    shipping_address: Type.Optional(ShippingAddressSchema),
    email: Type.Optional(
      Type.Union([Type.String({ minLength: 1, maxLength: 254, 'x-input': 'verbatim' }), Type.Null()], {
        description:
          "Where the order's mails go from now on, instead of the address of its account or guest, which stays. Null: to that address again.",
      }),
    ),
    parcel: Type.Optional(
      Type.Object(
        {
          version: Type.Integer({ minimum: 1, maximum: 2_147_483_647, description: 'The `version` of the parcel.' }),
          tracking: TrackingSchema,
        },
        { title: 'ParcelAmendment', ...strict },
      ),
    ),
    reason: Type.Optional(Type.Union([Reason, Type.Null()])),
    reference: Type.Optional(
      Type.Union([ReferenceSchema, Type.Null()], {
        description: 'An amendment with the same reference is made once, however often it is sent.',
      }),
    ),
  },
  { title: 'NewAmendment', minProperties: 1, ...strict, examples: [EXAMPLE_NEW_AMENDMENT] },
)

const AmendmentSchema = Type.Object(
  {
    order: AdminOrderSchema,
    is_preview: Type.Boolean({ description: 'Whether the order was left as it was.' }),
    mails: Type.Array(
      Type.Object({
        kind: Type.Enum(['amended', 'readdressed'], { description: '`readdressed` does not name the new address.' }),
        to: Type.Enum(['customer', 'former_address']),
      }),
      { description: 'The mails about it. Empty when nothing was changed, and without an address.' },
    ),
  },
  { title: 'Amendment', examples: [EXAMPLE_AMENDMENT] },
)

export interface AmendmentContext extends AdminTransitionContext {
  /** The canonical form of an e-mail address. Throws `invalid_body`. */
  parseEmail: (address: string) => string
  /** The e-mail address of the account or guest; null for none. */
  findReaderEmail: (userId: string) => Promise<string | null>
}

/** Corrections of orders. */
export function amendmentRoutes(server: HttpServer, { parseEmail, findReaderEmail, ...context }: AmendmentContext): void {
  defineRoute(
    server,
    'POST /admin/orders/:id/amendments',
    {
      access: 'orders:amend',
      operationId: 'amendOrder',
      summary: 'Corrects the delivery address or the e-mail address of an order, or the tracking of a parcel',
      description:
        'The address can be corrected until everything is shipped, the rest until the order is cancelled or returned. The customer gets a mail; with a new ' +
        'e-mail address the former one gets a notice, too. With `preview=true`, which needs `orders:read`, too, the answer is the same, and nothing is changed or sent. What ' +
        'the order has already changes nothing, and neither does the same request with the same `reference` again: the answer is the current order, ' +
        'whatever `If-Match` says, with `Idempotency-Replayed: true`.',
      params: OrderParams,
      query: Type.Object({ preview: Type.Optional(Type.Boolean({ description: 'Only shows what it would do.' })) }, strict),
      headers: IfMatch,
      body: NewAmendment,
      answers: { 200: [AmendmentSchema, 'The order after the amendment, and what follows from it.'] },
      refuses: ['too_late_to_amend', 'too_many_changes', 'change_reference_taken', 'order_erased'],
    },
    async (request, reply) => {
      const { shipping_address, email, parcel, reason = null, reference = null } = request.body
      if (shipping_address === undefined && email === undefined && parcel === undefined)
        throw invalidBody('#', 'names nothing to amend: give shipping_address, email or parcel')
      assertDeliverable(shipping_address, '#/shipping_address')
      assertTracking('shipped', parcel?.tracking ?? null, '#/parcel/tracking')
      const { preview: isPreview = false } = request.query
      // It would show the order without a trace.
      if (isPreview) assertMayUse(request, 'orders:read')
      const change = {
        type: 'amended' as const,
        ...(shipping_address === undefined ? {} : { shipping_address }),
        ...(email === undefined ? {} : { email: email === null ? null : parseEmail(email) }),
        ...(parcel === undefined ? {} : { parcel }),
      }
      const { order, isRepeat } = await makeMove(context, request, reply, { change, reason, reference, isPreview })
      return {
        order: presentForAdmin(order),
        is_preview: isPreview,
        mails: isRepeat ? [] : amendmentMails(order, await findReaderEmail(order.userId)),
      }
    },
  )
}

import { type Static, Type } from 'typebox'
import type { ErrorCode } from '../errors.ts'
import { defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { invalidBody } from '../http/problem.ts'
import { SignedMoneySchema } from '../money.ts'
import { type AdminTransitionContext, makeMove } from './answer-move.ts'
import { MAX_LINES, MAX_QUANTITY } from './basket.ts'
import { EXAMPLE_AMENDMENT, EXAMPLE_NEW_AMENDMENT } from './examples.ts'
import { assertNamedOnce } from './named-lines.ts'
import type { Order } from './order.ts'
import { dueOf } from './order-charges.ts'
import { ruleOf } from './order-status.ts'
import { amendmentMails } from './plan-amendment.ts'
import type { RequestedLine } from './plan-lines.ts'
import { assertDeliverable, ShippingAddressSchema } from './postal-address.ts'
import { IfMatch, OrderParams, Preview } from './routes.ts'
import { AdminOrderSchema, presentForAdmin } from './search-orders.ts'
import { ReferenceSchema, TrackingSchema } from './tracking.ts'
import { assertTracking, Reason } from './transition-lines.ts'
import { VatNumberInput } from './vat-number.ts'

const strict = { additionalProperties: false }

const NewAmendment = Type.Object(
  {
    shipping_address: Type.Optional(ShippingAddressSchema),
    billing_address: Type.Optional(
      Type.Union([ShippingAddressSchema, Type.Null()], { description: 'Null removes it: the invoice then goes to the delivery address.' }),
    ),
    vat_number: Type.Optional(Type.Union([VatNumberInput, Type.Null()], { description: 'Null removes the number.' })),
    email: Type.Optional(
      Type.Union([Type.String({ minLength: 1, maxLength: 254, 'x-input': 'verbatim' }), Type.Null()], {
        description:
          'The address for mails about the order from now on. The address of the account or guest stays the same. With null, mails go to that address again.',
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
    lines: Type.Optional(
      Type.Array(
        Type.Object(
          {
            product_id: Type.String({ format: 'uuid' }),
            quantity: Type.Integer({
              minimum: 0,
              maximum: MAX_QUANTITY,
              description: 'The units that the order will have, including shipped ones. 0 removes the product.',
            }),
            price: Type.Optional(
              Type.Enum(['now', 'then'], {
                description:
                  "The price of added units: the product's current price (`now`, the default), or the price of the product's first line in the order (`then`).",
              }),
            ),
          },
          { title: 'LineAmendment', ...strict },
        ),
        { minItems: 1, maxItems: MAX_LINES, description: 'Name each product once. Other products stay as they are.' },
      ),
    ),
    reason: Type.Optional(Type.Union([Reason, Type.Null()])),
    reference: Type.Optional(
      Type.Union([ReferenceSchema, Type.Null()], {
        description: 'An amendment with the same reference is made only once.',
      }),
    ),
  },
  { title: 'NewAmendment', minProperties: 1, ...strict, examples: [EXAMPLE_NEW_AMENDMENT] },
)

const AmendmentSchema = Type.Object(
  {
    order: AdminOrderSchema,
    is_preview: Type.Boolean({ description: 'True for a preview, in which nothing was changed.' }),
    amount: Type.Object(SignedMoneySchema.properties, {
      description: 'The amount that the amendment adds to the total. Negative if the total falls.',
    }),
    due: Type.Union([Type.Object(SignedMoneySchema.properties), Type.Null()], {
      description:
        'What the customer owes after the amendment. A negative amount must be paid back. A `paid` payment covers the total of the order at the time when the payment ' +
        'was `authorized`, or when it was `paid` if no authorization was reported, less its refunds. Null if the order has ended. Also null if the store cannot know what is owed: ' +
        'a partial refund was reported without its amount, the payment was made when nothing was owed, the total fell between authorization and capture, ' +
        'more was refunded than was owed back, or units were returned and something was refunded.',
    }),
    stock: Type.Array(
      Type.Object({
        product_id: Type.String({ format: 'uuid' }),
        quantity: Type.Integer({ description: 'The units that return to the stock. Negative if units are taken from the stock.' }),
      }),
      { description: 'The products whose units were added or removed, also if their stock is not tracked.' },
    ),
    mails: Type.Array(
      Type.Object({
        kind: Type.Enum(['amended', 'readdressed'], { description: 'A `readdressed` mail does not contain the new address.' }),
        to: Type.Enum(['customer', 'former_address']),
      }),
      { description: 'The mails about the amendment. Empty if nothing was changed, or if there is no address.' },
    ),
  },
  { title: 'Amendment', examples: [EXAMPLE_AMENDMENT] },
)

export interface AmendmentOptions {
  /** The canonical form of an e-mail address. Throws `invalid_body`. */
  parseEmail: (address: string) => string
  findReaderEmail: (userId: string) => Promise<string | null>
  maxQuantityPerProductAndUser: number | null
}

export function amendmentRoutes(
  server: HttpServer,
  { parseEmail, findReaderEmail, ...context }: AdminTransitionContext & AmendmentOptions,
): void {
  defineRoute(
    server,
    'POST /admin/orders/:id/amendments',
    {
      access: 'orders:amend',
      operationId: 'amendOrder',
      summary: 'Corrects the addresses, the VAT number, the e-mail address or the lines of an order, or the tracking of a parcel',
      description:
        'Delivery address and lines can be corrected until everything is shipped, the rest until the order is cancelled or returned. Added units are ' +
        'taken from the stock, removed units return to it, and purchase limits apply. Adjustments, such as tax and discounts, stay. The customer gets a mail. If the ' +
        'e-mail address changes, the former address gets a notice, too. With `preview=true` the answer is the same, but nothing is changed or sent, and stock above 20 units is rounded up. ' +
        'Values that the order already has change nothing, and neither does a repeated request with the same `reference`. The answer is then the current order with ' +
        '`Idempotency-Replayed: true`, even if `If-Match` no longer holds.',
      params: OrderParams,
      query: Preview,
      headers: IfMatch,
      body: NewAmendment,
      answers: { 200: [AmendmentSchema, 'The order after the amendment, and what follows from it.'] },
      refuses: [
        ...['too_late_to_amend', 'too_many_changes', 'change_reference_taken', 'order_erased'],
        ...['illegal_transition', 'insufficient_stock', 'purchase_limit', 'unknown_product', 'currency_not_available'],
        ...['total_negative', 'total_too_large'],
      ] as ErrorCode[],
    },
    async (request, reply) => {
      const { reason = null, reference = null, ...amended } = request.body
      const { shipping_address, billing_address, vat_number, email, parcel, lines } = amended
      if (Object.keys(amended).length === 0)
        throw invalidBody('#', 'names nothing to amend: give shipping_address, billing_address, vat_number, email, parcel or lines')
      assertNamedOnce(lines ?? [])
      assertDeliverable(shipping_address, '#/shipping_address')
      assertDeliverable(billing_address, '#/billing_address')
      assertTracking('shipped', parcel?.tracking ?? null, '#/parcel/tracking')
      const { preview: isPreview = false } = request.query
      const change = {
        type: 'amended' as const,
        ...(shipping_address === undefined ? {} : { shipping_address }),
        ...(billing_address === undefined ? {} : { billing_address }),
        ...(vat_number === undefined ? {} : { vat_number }),
        ...(email === undefined ? {} : { email: email === null ? null : parseEmail(email) }),
        ...(parcel === undefined ? {} : { parcel }),
        ...(lines === undefined ? {} : { lines: lines.map(toRequestedLine) }),
      }
      const { order, isRepeat } = await makeMove(context, request, reply, { change, reason, reference })
      return {
        order: presentForAdmin(order),
        is_preview: isPreview,
        ...followUpOf(order, isRepeat),
        mails: isRepeat ? [] : amendmentMails(order, await findReaderEmail(order.userId)),
      }
    },
  )
}

function toRequestedLine({
  product_id,
  quantity,
  price = 'now',
}: NonNullable<Static<typeof NewAmendment>['lines']>[number]): RequestedLine {
  return { product_id: product_id.toLowerCase(), quantity, price }
}

function followUpOf({ status, statusHistory, total: { amount: placed, currency } }: Order, isRepeat: boolean) {
  const change = isRepeat ? undefined : statusHistory.at(-1)?.change
  const { removed = [], added = [], amount = 0 } = change?.type === 'amended' ? change : {}
  const due = ruleOf(status).phase === 'ended' ? null : dueOf(statusHistory, placed)
  return {
    amount: { amount, currency },
    due: due === null ? null : { amount: due, currency },
    stock: [
      ...removed.map(({ product_id, quantity }) => ({ product_id, quantity })),
      ...added.map(({ product_id, quantity }) => ({ product_id, quantity: -quantity })),
    ],
  }
}

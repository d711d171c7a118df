import { Type } from 'typebox'
import { defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { invalidBody } from '../http/problem.ts'
import { MoneySchema, SignedMoneySchema } from '../money.ts'
import { type AdminTransitionContext, answerMove } from './answer-move.ts'
import { MAX_LINES, MAX_QUANTITY } from './basket.ts'
import { EXAMPLE_NEW_ADJUSTMENT, EXAMPLE_NEW_REFUND, EXAMPLE_PAYMENT_REPORT } from './examples.ts'
import { assertNamedOnce, LinePlace } from './named-lines.ts'
import { ADJUSTMENT_KINDS, type AdjustmentKind, findWrongSign, ONE_LINE, PAYMENT_STATES } from './order-changes.ts'
import { IfMatch, OrderParams, Preview } from './routes.ts'
import { AdminOrderSchema } from './search-orders.ts'
import { ReferenceSchema } from './tracking.ts'
import { Reason } from './transition-lines.ts'

const strict = { additionalProperties: false }
const oneLine = (maxLength: number, description: string) =>
  Type.String({ minLength: 1, maxLength, pattern: ONE_LINE, 'x-must': 'be one line of text', description })

const NewAdjustment = Type.Object(
  {
    kind: Type.Enum([...ADJUSTMENT_KINDS]),
    label: oneLine(100, 'Plain text for the customer, in answers and mails.'),
    amount: Type.Object(SignedMoneySchema.properties, {
      ...strict,
      description: "The amount in the order's currency. A discount must be below 0. Every other charge must be 0 or more.",
    }),
    reference: Type.Optional(
      Type.Union([ReferenceSchema, Type.Null()], {
        description: 'An adjustment with the same reference is made only once.',
      }),
    ),
  },
  { title: 'NewAdjustment', ...strict, examples: [EXAMPLE_NEW_ADJUSTMENT] },
)
const PaymentReport = Type.Object(
  {
    provider: Type.String({
      pattern: '^[a-z0-9][a-z0-9_.-]{0,49}$',
      'x-must': 'be a short name in lower case, such as stripe',
      description: 'A name that the shop chooses, such as `stripe`.',
    }),
    reference: oneLine(200, "The provider's id of the payment. The customer can see it."),
    state: Type.Enum([...PAYMENT_STATES]),
  },
  { title: 'PaymentReport', ...strict, examples: [EXAMPLE_PAYMENT_REPORT] },
)
const NewRefund = Type.Object(
  {
    amount: Type.Object(
      {
        ...MoneySchema.properties,
        amount: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description: 'Minor units of the currency.' }),
      },
      { ...strict, description: 'What was paid back, in the currency of the order.' },
    ),
    reference: Type.String({
      ...ReferenceSchema,
      description: 'The id of the refund. The customer can see it. A refund with the same reference is recorded only once.',
    }),
    reason: Type.Optional(Type.Union([Reason, Type.Null()])),
    payment: Type.Optional(
      Type.Object(
        { provider: PaymentReport.properties.provider, reference: PaymentReport.properties.reference },
        {
          title: 'PaymentName',
          ...strict,
          description: 'The payment that was refunded. By default the only payment that can still be refunded.',
        },
      ),
    ),
    lines: Type.Optional(
      Type.Array(
        Type.Object(
          {
            product_id: Type.String({ format: 'uuid' }),
            line: LinePlace,
            quantity: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_QUANTITY, description: 'Units, at most those of the order.' })),
            amount: Type.Optional(Type.Object(MoneySchema.properties, strict)),
          },
          { title: 'NewRefundLine', minProperties: 2, ...strict },
        ),
        {
          minItems: 1,
          maxItems: MAX_LINES,
          description:
            'The lines that the refund is for. Name each product once, or each of its lines once. The amounts of the lines are at most that of the refund.',
        },
      ),
    ),
  },
  { title: 'NewRefund', ...strict, examples: [EXAMPLE_NEW_REFUND] },
)
const AdjustmentParams = Type.Object({
  ...OrderParams.properties,
  version: Type.String({
    pattern: '^[1-9][0-9]{0,8}$',
    'x-must': 'be a version, such as 2',
    description: 'The `version` of the adjustment.',
  }),
})
export function chargeRoutes(server: HttpServer, context: AdminTransitionContext): void {
  defineRoute(
    server,
    'POST /admin/orders/:id/adjustments',
    {
      access: 'orders:adjust',
      operationId: 'addAdjustment',
      summary: 'Charges shipping, a tax or a fee, or grants a discount',
      description:
        'Changes the total by the amount. The total is never below 0. Possible until the order is cancelled or returned. An adjustment alone sends no mail: ' +
        'later mails about the order show it. A repeated request with the same `reference` changes nothing. The answer is then ' +
        'the current order with `Idempotency-Replayed: true`, even if `If-Match` no longer holds.',
      params: OrderParams,
      query: Preview,
      headers: IfMatch,
      body: NewAdjustment,
      answers: { 200: [AdminOrderSchema, 'The order with its new total.'] },
      refuses: [
        'too_many_changes',
        'illegal_transition',
        'total_negative',
        'total_too_large',
        'mixed_currencies',
        'change_reference_taken',
      ],
    },
    async (request, reply) => {
      const { kind, label, amount, reference = null } = request.body
      assertSign(kind, amount.amount)
      return answerMove(context, request, reply, { change: { type: 'adjusted', kind, label: label.trim(), ...amount }, reference })
    },
  )

  defineRoute(
    server,
    'DELETE /admin/orders/:id/adjustments/:version',
    {
      access: 'orders:adjust',
      operationId: 'voidAdjustment',
      summary: 'Voids an adjustment of an order',
      description:
        'The history keeps the adjustment and its removal. Voiding it again changes nothing and is answered with `Idempotency-Replayed: true`.',
      params: AdjustmentParams,
      query: Preview,
      headers: IfMatch,
      answers: { 200: [AdminOrderSchema, 'The order with its new total.'] },
      refuses: ['too_many_changes', 'illegal_transition', 'total_negative', 'total_too_large'],
    },
    async (request, reply) => {
      return answerMove(context, request, reply, { change: { type: 'adjustment_voided', adjustment: Number(request.params.version) } })
    },
  )

  defineRoute(
    server,
    'PUT /admin/orders/:id/payment',
    {
      access: 'orders:adjust',
      operationId: 'reportPayment',
      summary: 'Records what a payment provider has reported about the payment of an order',
      description:
        'The integration of a payment provider calls it. States follow each other as listed. A state that the payment has had or has passed changes nothing and is answered ' +
        'with `Idempotency-Replayed: true`, so reports may arrive twice and in any order. The history keeps all payments of an order. `payment` ' +
        'is the newest one that holds money (`paid`, `partially_refunded`). Without one, it is an `authorized` payment that only refunded ones follow, or else the newest. ' +
        'The status of the order does not change: ' +
        'send `POST /admin/orders/{id}/transitions` with `{"to": "confirmed"}` to confirm it. A pending order whose payment is `authorized`, `paid` or ' +
        '`partially_refunded` does not expire.',
      params: OrderParams,
      query: Preview,
      body: PaymentReport,
      answers: { 200: [AdminOrderSchema, 'The order with its payment.'] },
      refuses: ['too_many_changes'],
    },
    async (request, reply) => {
      return answerMove(context, request, reply, { change: { type: 'payment', ...request.body } })
    },
  )

  defineRoute(
    server,
    'POST /admin/orders/:id/refunds',
    {
      access: 'orders:adjust',
      operationId: 'refundOrder',
      summary: 'Records a refund of a payment of an order',
      description:
        'The store moves no money. Refunds cannot exceed what was paid: `refund_exceeded` has what is left. The payment becomes `partially_refunded` or `refunded`, ' +
        'and a later report of that state by the provider changes nothing. Possible in every status. The total of the order stays the same. A refund alone sends no ' +
        'mail: later mails about the order show it. A repeated request with the same `reference` changes nothing. The answer is then the current order with ' +
        '`Idempotency-Replayed: true`, even if `If-Match` no longer holds.',
      params: OrderParams,
      query: Preview,
      headers: IfMatch,
      body: NewRefund,
      answers: { 200: [AdminOrderSchema, 'The order with its payment.'] },
      refuses: ['too_many_changes', 'refund_exceeded', 'mixed_currencies', 'change_reference_taken'],
    },
    async (request, reply) => {
      const { amount, reference, reason = null, payment = null, lines = [] } = request.body
      assertNamedOnce(lines)
      return answerMove(context, request, reply, { change: { type: 'refunded', payment, amount, lines }, reference, reason })
    },
  )
}

/** A schema cannot express that the sign depends on the kind. */
function assertSign(kind: AdjustmentKind, amount: number): void {
  const detail = findWrongSign(kind, amount)
  if (detail !== null) throw invalidBody('#/amount/amount', detail)
}

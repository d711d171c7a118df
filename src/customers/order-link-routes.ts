import { Type } from 'typebox'
import { clientOf } from '../auth/client.ts'
import { AppError } from '../errors.ts'
import { servePage } from '../http/browser-page.ts'
import { defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { traceparentOf } from '../http/trace-context.ts'
import { cancelOrder } from '../orders/cancel-order.ts'
import type { LockedRows } from '../orders/placing/locked-rows.ts'
import { EXAMPLE_ORDER_LINK } from './examples.ts'
import { assertPostalCode, getLinkedOrder, type LinkedOrderContext, LinkedOrderSchema, presentLinkedOrder } from './linked-order.ts'

const strict = { additionalProperties: false }
// The schema has no pattern, so a mistyped token gets the same answer as every other wrong token.
const Token = Type.String({
  minLength: 1,
  maxLength: 200,
  'x-input': 'verbatim',
  description: "The fragment of a mail's link, without `#`.",
})
const Link = Type.Object({ token: Token }, { title: 'OrderLink', examples: [EXAMPLE_ORDER_LINK], ...strict })
const LinkWithCode = Type.Object(
  { token: Token, postal_code: Type.Optional(Type.String({ minLength: 1, maxLength: 20, description: 'Shows the address.' })) },
  { title: 'OrderByLink', examples: [{ ...EXAMPLE_ORDER_LINK, postal_code: 'SW1Y 4JH' }], ...strict },
)
const REFUSES = ['invalid_order_link', 'rate_limited'] as const

/** "Where is my order?": routes and a page that show an order by the link in its mails, without a session. */
export function orderLinkRoutes(server: HttpServer, context: LinkedOrderContext & { lockedRows: LockedRows }): void {
  const { pool, lockedRows, cancellableStatuses, now } = context

  defineRoute(
    server,
    'POST /orders/by-link',
    {
      access: 'public',
      cost: 'own',
      operationId: 'getOrderByLink',
      summary: 'An order, by the link in a mail about it',
      description:
        'For a customer who has the mail but no session. A link is valid for 90 days, and ends when the e-mail or delivery address of the order changes. The address is shown only after its postal code was sent. A link allows 5 wrong postal codes a day and 20 in total.',
      body: LinkWithCode,
      answers: { 200: [LinkedOrderSchema, 'The order.'] },
      refuses: [...REFUSES, 'wrong_postal_code'],
    },
    async (request) => {
      const { token, postal_code: postalCode = null } = request.body
      const client = clientOf(request)
      const found = await getLinkedOrder(context, token, client)
      if (postalCode !== null) await assertPostalCode(context, found, postalCode, client)
      return presentLinkedOrder(context, found, postalCode)
    },
  )

  defineRoute(
    server,
    'POST /orders/by-link/cancel',
    {
      access: 'public',
      cost: 'change',
      operationId: 'cancelOrderByLink',
      summary: 'Cancels an order by the link in a mail about it, if the shop allows it in the status of the order',
      description: 'Like `POST /orders/{id}/cancel` by the customer. The stock is returned in the same transaction.',
      body: Link,
      answers: { 200: [LinkedOrderSchema, 'The cancelled order.'] },
      refuses: [...REFUSES, 'illegal_transition', 'precondition_failed'],
    },
    async (request) => {
      const cancel = async () => {
        const { order, reader } = await getLinkedOrder(context, request.body.token, clientOf(request))
        const [versions, traceparent] = [new Set([String(order.version)]), traceparentOf(request)]
        const cancellation = { userId: reader.id, orderId: order.id, versions, cancellable: cancellableStatuses, traceparent }
        return presentLinkedOrder(context, { reader, order: await cancelOrder({ pool, lockedRows }, cancellation, now()) }, null)
      }
      try {
        return await cancel()
      } catch (error) {
        if (!(error instanceof AppError && error.code === 'precondition_failed')) throw error
        // The order has changed since it was read, so the link may have ended. The second attempt checks it again.
        return await cancel()
      }
    },
  )

  servePage(server, {
    path: '/order',
    folder: new URL('page/', import.meta.url),
    policy: ["style-src 'self'", "img-src 'self' data:"],
  })
}

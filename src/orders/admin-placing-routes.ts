import { Type } from 'typebox'
import { auditContextOf } from '../activity/record-activity.ts'
import type { Pool } from '../db/pool.ts'
import { AppError } from '../errors.ts'
import { defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { invalidBody } from '../http/problem.ts'
import { LANGUAGES, type Language } from '../language.ts'
import { EXAMPLE_NEW_CUSTOMER_ORDER } from './examples.ts'
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
import { locationOf } from './order.ts'
import { keyRequired, readIdempotencyKey } from './placing/idempotency.ts'
import { defineQuote } from './placing/quote-order.ts'
import { findOperatorOrder } from './placing/repeats.ts'
import { findCustomer } from './placing/unusual-owners.ts'
import { AdminOrderSchema } from './search-orders.ts'

const NewCustomerOrder = Type.Object(
  {
    customer_id: Type.Optional(Type.String({ format: 'uuid', description: 'The account of a customer, or a guest.' })),
    email: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 254,
        'x-input': 'verbatim',
        description: 'The address of a guest. A customer whose account has proven the address gets the order, too.',
      }),
    ),
    language: Type.Optional(
      Type.Enum([...LANGUAGES], {
        description:
          "The language of the guest's mails. By default an existing guest keeps its language. If an account has proven the address, the account's language applies.",
      }),
    ),
    ...NewOrder.properties,
  },
  { title: 'NewCustomerOrder', additionalProperties: false, examples: [EXAMPLE_NEW_CUSTOMER_ORDER] },
)

export interface AdminPlacingOptions extends PlacingOptions {
  pool: Pool
  baseUrl: string
  now: () => Date
  /** The canonical form of an e-mail address. Throws `invalid_body`. */
  parseEmail: (address: string) => string
  /** Returns the id of the guest who owns the orders that operators place for an address. */
  ensureGuest: (pool: Pool, guest: { email: string; language: Language | null; now: Date }) => Promise<string>
}

export function adminPlacingRoutes(server: HttpServer, options: AdminPlacingOptions): void {
  const { pool, baseUrl, now, nameOf, parseEmail, ensureGuest } = options
  defineQuote(server, 'POST /admin/orders/quote', { access: 'orders:place', operationId: 'quoteOrderForCustomer', pool })
  defineRoute(
    server,
    'POST /admin/orders',
    {
      access: 'orders:place',
      bodyLimit: BASKET_LIMIT_BYTES,
      operationId: 'placeOrderForCustomer',
      summary: 'Places an order for a customer, or for a guest with an e-mail address',
      description:
        'For a customer on the phone: send either `customer_id` or `email`. Prices, stock, purchase limits and mails are the same as if the customer had placed the order. ' +
        'Its history names who placed it. All orders for one address belong to one guest and share its limits. They do not count towards the stock share of guests, and expire like ' +
        'the orders of an account. The `Idempotency-Key` is required and is shared by ' +
        'all operators and keys: only one order is placed, even if a colleague repeats the request. `POST /admin/orders/quote` shows the total before.',
      headers: KeyHeader('Required. Makes a retry safe. The key is kept for 24 hours.'),
      body: NewCustomerOrder,
      answers: {
        201: [
          AdminOrderSchema,
          'The order. `Location` leads to it. A repeated `Idempotency-Key` gets the same answer with `Idempotency-Replayed: true`.',
        ],
      },
      refuses: PLACING_REFUSALS,
    },
    async (request, reply) => {
      const { customer_id, email: typed, language = null, ...body } = request.body
      if ((customer_id === undefined) === (typed === undefined)) throw invalidBody('#', 'needs either customer_id or email')
      if (language !== null && typed === undefined) throw invalidBody('#/language', 'is that of a guest, so it needs email')
      const email = typed === undefined ? null : parseEmail(typed)
      const order = readNewOrder(body)
      const customerId = customer_id?.toLowerCase() ?? null
      const content = { ...order.content, customer_id: customerId, email, language }
      const key = readIdempotencyKey(request.headers['idempotency-key'], '', content)
      if (key === null) throw keyRequired()
      // A retry gets its order even if the customer has been blocked since.
      const earlier = await findOperatorOrder(pool, key, nameOf)
      if (earlier !== null) return sendPlaced(reply, earlier, locationOf(baseUrl, earlier.orderId, true))
      const orderingId = email === null ? customerId : await ensureGuest(pool, { email, language, now: now() })
      const customer = await findCustomer(pool, orderingId)
      if (customer === null) throw invalidBody(email === null ? '#/customer_id' : '#/email', 'names no customer: the account may be erased')
      if (customer.isBlocked) throw new AppError('account_blocked', 'The customer is blocked. Unblock the account first.')
      const { userId, guestEmail, ownerId } = customer
      const owner = { userId, guestEmail, ownerId, isOfBlockedAddress: false, stockHolder: null, auditContext: auditContextOf(request) }
      const placed = await placeNewOrder(options, request, order, owner, { ...key, userId })
      return sendPlaced(reply, placed, locationOf(baseUrl, placed.orderId, true))
    },
  )
}

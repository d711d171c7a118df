import { type Static, type TObject, type TProperties, Type } from 'typebox'
import { AttributesSchema } from '../attributes.ts'
import type { ErrorCode } from '../errors.ts'
import { MoneySchema, SignedMoneySchema } from '../money.ts'

const Id = Type.String({ format: 'uuid' })
const EarlierOrderId = Type.Optional(Type.String({ description: 'The id of the earlier order. Absent if another guest placed it.' }))
const Count = Type.Integer({ minimum: 0 })
const Shortages = Type.Array(
  Type.Object({
    product_id: Id,
    requested: Type.Integer(),
    available: Type.Integer({ description: 'The units that are available. At most 20, even if there are more.' }),
  }),
  {
    description: 'Every product that has too few units.',
  },
)
const OrderVersion = Type.Integer({ description: 'The current version of the order.' })

/** docs/shop/errors.md has the same table. A problem with another member is a bug, which `assertProblem` detects. */
export const PROBLEM_MEMBERS = {
  forbidden: { required_scope: Type.Optional(Type.String({ description: 'The scope that the role or API key lacks.' })) },
  second_factor_required: {
    challenge: Type.String({ description: 'Send it to `POST /auth/second-factor`.' }),
    expires_in: Type.Integer({ description: 'The lifetime of the challenge in seconds.' }),
    methods: Type.Array(Type.Enum(['passkey', 'totp', 'recovery_code'])),
    passkey_options: Type.Union([Type.Object({}, { additionalProperties: true }), Type.Null()], {
      description: 'The options for `navigator.credentials.get`. Null if the account has no passkey.',
    }),
  },
  invalid_second_factor: {
    methods: Type.Optional(
      Type.Array(Type.Enum(['password', 'passkey', 'totp', 'recovery_code']), {
        description: 'The methods that count. Present only for a step-up.',
      }),
    ),
  },
  insufficient_stock: {
    shortages: Shortages,
    available: Type.Optional(Type.Integer({ description: 'The units in stock. Present only for a stock adjustment.' })),
  },
  unknown_product: { shortages: Type.Optional(Shortages) },
  purchase_limit: {
    limits: Type.Array(Type.Object({ product_id: Id, requested: Type.Integer(), bought: Count, limit: Count }), {
      description: 'In units.',
    }),
    shortages: Type.Optional(Shortages),
  },
  price_changed: {
    items: Type.Array(
      Type.Object({
        product_id: Id,
        sku: Type.String(),
        name: Type.String(),
        category: Type.String(),
        unit_price: MoneySchema,
        quantity: Type.Integer(),
        total: MoneySchema,
        attributes: Type.Optional({ ...AttributesSchema, description: 'As in the request.' }),
      }),
      { description: 'The current lines with their prices.' },
    ),
    total: MoneySchema,
  },
  total_negative: { total: SignedMoneySchema },
  refund_exceeded: { left: MoneySchema },
  too_many_pending_orders: { pending: Count, limit: Count },
  too_many_addresses: { limit: Count },
  precondition_failed: {
    current_version: Type.Optional(OrderVersion),
    version: Type.Optional(Type.Integer({ description: 'The current version of the stock.' })),
    available: Type.Optional(
      Type.Union([Type.Integer(), Type.Null()], { description: 'The units in stock. Null if the stock is not tracked.' }),
    ),
  },
  change_reference_taken: { current_version: OrderVersion },
  illegal_transition: {
    current_status: Type.String({ description: 'The current status of the order.' }),
    allowed_transitions: Type.Array(Type.String(), { description: 'The statuses to which the order can change now.' }),
    current_reference: Type.Optional(
      Type.Union([Type.String(), Type.Null()], {
        description: 'The reference of the transition that set this status. Present only if the request had a different reference.',
      }),
    ),
  },
  too_late_to_amend: { current_status: Type.String({ description: 'The current status of the order.' }) },
  quantity_exceeded: {
    exceeded: Type.Array(
      Type.Object({
        product_id: Id,
        line: Type.Optional(Type.Integer({ description: 'The line that the request named.' })),
        requested: Type.Integer(),
        available: Type.Integer(),
      }),
    ),
  },
  adjustment_reference_taken: {
    adjustment: Type.Object({}, { additionalProperties: true, description: 'The adjustment that has the reference.' }),
  },
  client_reference_taken: { order_id: EarlierOrderId },
  probably_placed_already: { order_id: EarlierOrderId },
  request_in_progress: { run_id: Type.Optional(Type.String({ description: 'The id of the run. Present only for `POST /admin/audits`.' })) },
  webhook_exists: {
    webhook_id: Type.String({ format: 'uuid', description: 'The id of the endpoint that has this URL and these events.' }),
  },
  currency_not_available: {
    currencies: Type.Optional(
      Type.Array(Type.String(), { description: 'The currencies in which the product is sold. Present only in answers about one product.' }),
    ),
  },
} satisfies Partial<Record<ErrorCode, TProperties>>

const product_id = '01997a5e-4b1c-7d3a-9f60-2c8a1b0e7d45'
const price = { amount: 1_999, currency: 'EUR' }
const total = { amount: 3_998, currency: 'EUR' }

type Members = { [Code in keyof typeof PROBLEM_MEMBERS]: Static<TObject<(typeof PROBLEM_MEMBERS)[Code]>> }
type Needed = { [Code in keyof Members]: object extends Members[Code] ? never : Code }[keyof Members]

export const MEMBER_EXAMPLES: Pick<Members, Needed> & Partial<Record<ErrorCode, object>> = {
  second_factor_required: { challenge: 'Yx3kq0Zc', expires_in: 300, methods: ['totp', 'recovery_code'], passkey_options: null },
  insufficient_stock: { shortages: [{ product_id, requested: 3, available: 1 }] },
  purchase_limit: { limits: [{ product_id, requested: 2, bought: 1, limit: 2 }] },
  price_changed: {
    items: [{ product_id, sku: 'MUG-1', name: 'Mug', category: 'kitchen', unit_price: price, quantity: 2, total }],
    total,
  },
  total_negative: { total: { amount: -100, currency: 'EUR' } },
  refund_exceeded: { left: { amount: 1_000, currency: 'EUR' } },
  too_many_pending_orders: { pending: 10_000, limit: 10_000 },
  too_many_addresses: { limit: 50 },
  change_reference_taken: { current_version: 3 },
  illegal_transition: { current_status: 'cancelled', allowed_transitions: [] },
  too_late_to_amend: { current_status: 'shipped' },
  quantity_exceeded: { exceeded: [{ product_id, requested: 3, available: 1 }] },
  adjustment_reference_taken: {
    adjustment: { reference: 'goods-receipt-4711', delta: 24, before: 3, after: 27 },
  },
  client_reference_taken: { order_id: '01997a5e-4b1c-7d3a-9f60-2c8a1b0e7d46' },
  probably_placed_already: { order_id: '01997a5e-4b1c-7d3a-9f60-2c8a1b0e7d46' },
  webhook_exists: { webhook_id: '01997a5e-4b1c-7d3a-9f60-2c8a1b0e7d47' },
}

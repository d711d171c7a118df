import { type Static, Type } from 'typebox'
import { MoneySchema, SignedMoneySchema } from '../money.ts'
import type { OrderStatus } from './order-status.ts'
import { ReferenceSchema, type Tracking, TrackingSchema } from './tracking.ts'

/** Pattern of labels and references: no control characters, and at least one non-blank character. */
export const ONE_LINE = '^[^\\u0000-\\u001f\\u007f-\\u009f]*[^\\u0000-\\u001f\\u007f-\\u009f\\s][^\\u0000-\\u001f\\u007f-\\u009f]*$'

export const LineQuantitySchema = Type.Object(
  {
    product_id: Type.String({ format: 'uuid' }),
    quantity: Type.Integer({ description: 'Units, at least 1.' }),
    line: Type.Optional(
      Type.Integer({
        description:
          "The place of the units' line in `items`, from 0. Absent if the request named none: the first lines of the product count first.",
      }),
    ),
  },
  { title: 'LineQuantity' },
)
export type LineQuantity = Static<typeof LineQuantitySchema>

export const OrderLineSchema = Type.Object(
  {
    product_id: Type.String({ format: 'uuid' }),
    sku: Type.String(),
    name: Type.String(),
    category: Type.Optional(Type.String({ description: 'Absent in orders that earlier releases placed without it.' })),
    unit_price: MoneySchema,
    quantity: Type.Integer(),
    total: MoneySchema,
  },
  { title: 'OrderLine' },
)
export type OrderLine = Static<typeof OrderLineSchema>

export interface ShippedChange {
  type: 'shipped'
  lines: LineQuantity[]
}

export interface LinesCancelledChange {
  type: 'lines_cancelled'
  lines: LineQuantity[]
  /** Absent when the last lines are cancelled, because the order then keeps its total. */
  amount?: number
}

export interface ReturnedChange {
  type: 'returned'
  lines: LineQuantity[]
  restock: boolean
}

export const ADJUSTMENT_KINDS = ['shipping', 'discount', 'tax', 'fee'] as const
export type AdjustmentKind = (typeof ADJUSTMENT_KINDS)[number]

export function findWrongSign(kind: AdjustmentKind, amount: number): string | null {
  if (kind === 'discount') return amount < 0 ? null : 'a discount is below 0'
  return amount >= 0 ? null : 'only a discount is below 0'
}

export interface AdjustedChange {
  type: 'adjusted'
  kind: AdjustmentKind
  label: string
  /** Minor units. A discount is below 0. */
  amount: number
}

export interface AdjustmentVoidedChange {
  type: 'adjustment_voided'
  adjustment: number
  amount: number
}

/** The sequence of a payment's states. `authorized` may also follow `failed`: see `isPaymentKnown`. */
export const PAYMENT_STATES = ['pending', 'authorized', 'failed', 'paid', 'partially_refunded', 'refunded'] as const
export type PaymentState = (typeof PAYMENT_STATES)[number]

export interface PaymentChange {
  type: 'payment'
  provider: string
  reference: string
  state: PaymentState
  /** Present when the shop recorded the refund. A provider's report has no amount. */
  refund?: Refund
}

export interface RefundLine {
  product_id: string
  line?: number
  quantity?: number
  amount?: number
}

export interface Refund {
  /** Minor units, above 0. */
  amount: number
  lines?: RefundLine[]
}

export const AMENDABLE = ['shipping_address', 'billing_address', 'vat_number', 'email', 'tracking', 'lines'] as const
export type Amendable = (typeof AMENDABLE)[number]

/** The entry contains new tracking, and the order's columns contain personal values. */
export interface AmendedChange {
  type: 'amended'
  amended: Amendable[]
  /** The version that shipped the parcel whose tracking changes. */
  parcel?: number
  /** Several lines of one product lose units from the last line on. Present with `lines`, like the next two members. */
  removed?: LineQuantity[]
  added?: OrderLine[]
  amount?: number
}

export type OrderChange =
  | ShippedChange
  | LinesCancelledChange
  | ReturnedChange
  | AdjustedChange
  | AdjustmentVoidedChange
  | PaymentChange
  | AmendedChange

export interface HistoryEntry {
  status: OrderStatus
  at: string
  reference?: string
  tracking?: Tracking
  change?: OrderChange
  version?: number
}

/** The list of types is open: later releases add types, and a consumer's copy of the schema must accept them. */
export const OrderChangeSchema = Type.Unsafe<OrderChange>(
  Type.Object(
    {
      type: Type.String({
        description:
          '`shipped`, `lines_cancelled`, `returned`, `adjusted`, `adjustment_voided`, `payment` or `amended`. Later releases may add types.',
      }),
      lines: Type.Optional(Type.Array(LineQuantitySchema, { description: 'The units that were shipped, cancelled or returned.' })),
      amount: Type.Optional(
        Type.Integer({
          description: "What the change adds to the order's total, in minor units. Negative if the total falls. Absent if it stays.",
        }),
      ),
      restock: Type.Optional(Type.Boolean({ description: 'For `returned`: whether the goods can be sold again.' })),
      kind: Type.Optional(Type.String({ description: 'For `adjusted`: the kind of the adjustment.' })),
      label: Type.Optional(Type.String({ description: 'For `adjusted`: the text that the customer sees.' })),
      adjustment: Type.Optional(Type.Integer({ description: 'For `adjustment_voided`: the `version` of the adjustment.' })),
      provider: Type.Optional(Type.String({ description: 'For `payment`: the name of the provider.' })),
      reference: Type.Optional(Type.String({ description: "For `payment`: the provider's id of the payment." })),
      state: Type.Optional(Type.String({ description: 'For `payment`: the new state.' })),
      refund: Type.Optional(
        Type.Object(
          {
            amount: Type.Integer({ description: 'What was paid back, in minor units.' }),
            lines: Type.Optional(
              Type.Array(
                Type.Object(
                  {
                    product_id: Type.String({ format: 'uuid' }),
                    line: Type.Optional(Type.Integer({ description: 'The place of the line in `items`, from 0.' })),
                    quantity: Type.Optional(Type.Integer()),
                    amount: Type.Optional(Type.Integer({ description: 'Minor units.' })),
                  },
                  { title: 'RefundLine' },
                ),
                { description: 'The lines that the refund is for.' },
              ),
            ),
          },
          {
            title: 'Refund',
            description: 'For `payment`: a refund that the shop has recorded. Its reference is the reference of the entry.',
          },
        ),
      ),
      amended: Type.Optional(
        Type.Array(Type.String(), {
          description:
            'For `amended`: what was corrected, such as `shipping_address`, `billing_address`, `vat_number`, `email`, `tracking` or `lines`. Later releases may add names.',
        }),
      ),
      parcel: Type.Optional(
        Type.Integer({
          description: 'For `amended`: the version of the parcel whose tracking was corrected. The entry has the new tracking.',
        }),
      ),
      removed: Type.Optional(
        Type.Array(LineQuantitySchema, { description: 'For `amended`: the units that were removed. They count as cancelled.' }),
      ),
      added: Type.Optional(
        Type.Array(OrderLineSchema, { description: "For `amended`: the lines that were added. They follow the order's other `items`." }),
      ),
    },
    { title: 'OrderChange', description: 'What was changed besides the status. Absent if only the status of the whole order was changed.' },
  ),
)

export const ParcelSchema = Type.Object(
  {
    version: Type.Integer({ description: 'The version of the order after the shipment. It identifies the parcel within the order.' }),
    shipped_at: Type.String({ format: 'date-time' }),
    reference: Type.Optional(ReferenceSchema),
    tracking: Type.Optional(TrackingSchema),
    lines: Type.Array(LineQuantitySchema),
  },
  { title: 'Parcel' },
)
export type Parcel = Static<typeof ParcelSchema>

export const AdjustmentSchema = Type.Object(
  {
    version: Type.Integer({ description: 'The version of the order after the adjustment. It identifies the adjustment within the order.' }),
    kind: Type.Enum([...ADJUSTMENT_KINDS]),
    label: Type.String({ description: 'The text that the customer sees.' }),
    amount: SignedMoneySchema,
    made_at: Type.String({ format: 'date-time' }),
    reference: Type.Optional(ReferenceSchema),
  },
  { title: 'Adjustment' },
)
export type Adjustment = Static<typeof AdjustmentSchema>

export const PaymentSchema = Type.Object(
  {
    provider: Type.String(),
    reference: Type.String({ description: "The provider's id of the payment." }),
    state: Type.Enum([...PAYMENT_STATES]),
    changed_at: Type.String({ format: 'date-time' }),
  },
  { title: 'Payment' },
)
export type Payment = Static<typeof PaymentSchema>

export const RefundableSchema = Type.Object(
  {
    provider: Type.String(),
    reference: Type.String({ description: "The provider's id of the payment." }),
    left: Type.Object(MoneySchema.properties, { description: 'The amount that can still be refunded.' }),
  },
  { title: 'RefundablePayment' },
)
export type RefundablePayment = Static<typeof RefundableSchema>

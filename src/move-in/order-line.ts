import { type Static, Type } from 'typebox'
import { Compile } from 'typebox/schema'
import { readMajorUnits } from '../../client/src/currency.ts'
import { InvalidLine } from '../catalogue/import/imported-product.ts'
import { toIdentifier } from '../http/normalize-input.ts'
import { countCodePoints } from '../http/text-length.ts'
import { ADJUSTMENT_KINDS, type AdjustmentKind, findWrongSign, ONE_LINE } from '../orders/order-changes.ts'
import { allowedTransitions, ORDER_STATUSES, type OrderStatus, ruleOf } from '../orders/order-status.ts'
import { type ShippingAddress, ShippingAddressSchema } from '../orders/postal-address.ts'
import { ReferenceSchema, type Tracking, TrackingSchema } from '../orders/tracking.ts'
import { VatNumberInput } from '../orders/vat-number.ts'
import { findOtherAmount } from '../source-amounts.ts'
import { ExternalId, readEmail } from './customer-line.ts'
import { checkLine, readTime } from './json-lines.ts'
import { UNREADABLE } from './tally.ts'

/** The limit of a new order, because an event contains all its lines. */
const MAX_LINES = 1_000
const MAX_QUANTITY = 1_000_000_000
const MAX_CHANGES = 20
/** With the longest texts this number makes a history of 180 KiB. `change-limits.ts` allows 512. */
const MAX_ADJUSTMENTS = 50
const MAX_ORDER_NUMBER = 999_999_999_999_999
const text = (maxLength: number) => Type.String({ minLength: 1, maxLength })
const orNull = (schema: ReturnType<typeof text>) => Type.Optional(Type.Union([schema, Type.Null()]))
const Amount = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })

const OrderLine = Type.Object(
  {
    external_id: ExternalId,
    number: Type.Union([Type.Integer({ minimum: 1, maximum: MAX_ORDER_NUMBER }), text(50)]),
    reference: orNull(text(100)),
    customer: Type.Object(
      { external_id: Type.Optional(ExternalId), email: Type.Optional(text(320)) },
      { additionalProperties: false, minProperties: 1 },
    ),
    currency: Type.String({ pattern: '^[A-Z]{3}$' }),
    lines: Type.Array(
      Type.Object(
        {
          sku: Type.Optional(Type.String({ maxLength: 200 })),
          name: text(500),
          category: Type.Optional(text(200)),
          unit_price: Amount,
          quantity: Type.Integer({ minimum: 1, maximum: MAX_QUANTITY }),
        },
        { additionalProperties: false },
      ),
      { minItems: 1, maxItems: MAX_LINES },
    ),
    adjustments: Type.Optional(
      Type.Array(
        Type.Object(
          {
            kind: Type.Enum([...ADJUSTMENT_KINDS]),
            // A mail shows the label on one line. The API has the same limits.
            label: Type.String({ minLength: 1, maxLength: 200, pattern: ONE_LINE }),
            amount: Type.Integer({ minimum: -Number.MAX_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }),
          },
          { additionalProperties: false },
        ),
        { maxItems: MAX_ADJUSTMENTS },
      ),
    ),
    total: Amount,
    source_total: Type.Optional(Type.String({ minLength: 1, maxLength: 60 })),
    shipping_address: Type.Optional(Type.Union([ShippingAddressSchema, Type.Null()])),
    billing_address: Type.Optional(Type.Union([ShippingAddressSchema, Type.Null()])),
    vat_number: Type.Optional(Type.Union([VatNumberInput, Type.Null()])),
    note: orNull(text(1_000)),
    history: Type.Array(
      Type.Object(
        {
          status: Type.Enum([...ORDER_STATUSES]),
          at: Type.String({ maxLength: 40 }),
          reason: orNull(text(500)),
          reference: Type.Optional(ReferenceSchema),
          tracking: Type.Optional(TrackingSchema),
        },
        { additionalProperties: false },
      ),
      { minItems: 1, maxItems: MAX_CHANGES },
    ),
  },
  { additionalProperties: false },
)
type OrderLine = Static<typeof OrderLine>
const check = Compile(countCodePoints(OrderLine))

export interface ImportedOrderLine {
  sku: string
  name: string
  category?: string
  unit_price: number
  quantity: number
}

export interface ImportedAdjustment {
  kind: AdjustmentKind
  label: string
  amount: number
}

export interface ImportedChange {
  status: OrderStatus
  at: string
  reason: string | null
  reference?: string
  tracking?: Tracking
}

export interface ImportedOrder {
  externalId: string
  /** The order's number. With null, the order gets the store's next number. */
  number: number | null
  /** The number as written, if it is more than the digits. */
  reference: string | null
  customer: { externalId: string | null; email: string | null }
  currency: string
  lines: ImportedOrderLine[]
  adjustments: ImportedAdjustment[]
  total: number
  shippingAddress: ShippingAddress | null
  billingAddress: ShippingAddress | null
  vatNumber: string | null
  note: string | null
  /** The changes from `pending` to the present status, the oldest first. */
  history: ImportedChange[]
}

/** Reads an order's line. Throws InvalidLine. */
export function readOrder(value: unknown, now: Date): ImportedOrder {
  const line = checkLine<OrderLine>(check, withPlainVatNumber(value))
  const { number, text: written } = readNumber(line.number)
  const { external_id: externalId = null, email } = line.customer
  assertSigns(line.adjustments ?? [])
  const order: ImportedOrder = {
    externalId: line.external_id,
    number,
    reference: line.reference ?? written,
    customer: { externalId, email: email === undefined ? null : readEmail(email) },
    currency: line.currency,
    lines: line.lines.map(({ sku = '', ...rest }) => ({ sku, ...rest })),
    // Charges precede discounts, so no version of the order has a negative total.
    adjustments: (line.adjustments ?? [])
      .filter(({ amount }) => amount !== 0)
      .toSorted((a, b) => Math.sign(b.amount) - Math.sign(a.amount)),
    total: line.total,
    shippingAddress: line.shipping_address ?? null,
    billingAddress: line.billing_address ?? null,
    vatNumber: line.vat_number ?? null,
    note: line.note ?? null,
    history: line.history.map(({ at, reason = null, ...change }, index) => ({
      ...change,
      at: readTime(at, `history.${index}.at`, now).toISOString(),
      reason,
    })),
  }
  assertHistory(order.history)
  assertTotal(order)
  const other =
    line.source_total === undefined ? null : findOtherAmount('total', line.source_total, { amount: order.total, currency: order.currency })
  if (other !== null) throw new InvalidLine(other)
  return order
}

/** Normalizes the VAT number in the same way as `POST /orders`, however the file writes it. */
function withPlainVatNumber(value: unknown): unknown {
  const { vat_number } = (value ?? {}) as { vat_number?: unknown }
  return typeof vat_number === 'string' ? { ...(value as object), vat_number: toIdentifier(vat_number) } : value
}

const NUMBER = /^\D{0,20}?(\d{1,15})$/

/**
 * Reads a number: `#1001` is 1001. `#1002-A` and `INV-2025-7` have no unique digits, so these orders get a new number.
 */
function readNumber(given: number | string): { number: number | null; text: string | null } {
  if (typeof given === 'number') return { number: given, text: null }
  const number = Number(NUMBER.exec(given)?.[1] ?? 0)
  if (number >= 1) return { number, text: String(number) === given ? null : given }
  return { number: null, text: given }
}

function assertHistory(history: readonly ImportedChange[]): void {
  if (history[0]?.status !== 'pending') throw new InvalidLine('history must begin with pending')
  for (const [index, change] of history.entries()) {
    const before = history[index - 1]
    if (before === undefined) continue
    if (!allowedTransitions(before.status).includes(change.status)) {
      throw new InvalidLine(`history.${index}: an order that is ${before.status} cannot become ${change.status}`)
    }
    if (change.at < before.at) throw new InvalidLine(`history.${index}.at is before the change before it`)
    if (change.tracking !== undefined && ruleOf(change.status).moves !== 'shipped')
      throw new InvalidLine(`history.${index}: only shipped has tracking`)
  }
}

/** Skips adjustments of 0, which are left out whatever their kind. */
function assertSigns(adjustments: readonly ImportedAdjustment[]): void {
  for (const [index, { kind, amount }] of adjustments.entries()) {
    const fault = amount === 0 ? null : findWrongSign(kind, amount)
    if (fault !== null) throw new InvalidLine(`adjustments.${index}.amount: ${fault}`)
  }
}

function assertTotal({ lines, adjustments, total, currency }: ImportedOrder): void {
  const ofLines = lines.reduce((amount, { unit_price, quantity }) => amount + BigInt(unit_price) * BigInt(quantity), 0n)
  // Charges come before discounts, so this is the most expensive version.
  const most = adjustments.reduce((amount, adjustment) => amount + BigInt(Math.max(0, adjustment.amount)), ofLines)
  if (most > BigInt(Number.MAX_SAFE_INTEGER)) throw new InvalidLine('lines and charges add up to more than an order can cost')
  const sum = adjustments.reduce((amount, adjustment) => amount + BigInt(adjustment.amount), ofLines)
  if (sum === BigInt(total)) return
  throw new InvalidLine(`total is ${total}, and lines and adjustments add up to ${sum} (minor units of ${currency})`)
}

/** The group and amount of a refused line, which the report must include. */
export function groupOf(value: unknown): { group: string; amount: bigint } {
  const { currency, total, source_total: text, history } = (value ?? {}) as Record<string, unknown>
  const last = Array.isArray(history) ? (history.at(-1) as { status?: unknown } | null) : null
  const isKnown = typeof currency === 'string' && /^[A-Z]{3}$/.test(currency) && ORDER_STATUSES.some((status) => status === last?.status)
  if (!isKnown || !Number.isSafeInteger(total)) return { group: UNREADABLE, amount: 0n }
  // The other shop's text counts, because the converter that made the line may be wrong.
  const amount = typeof text === 'string' ? (readMajorUnits(text, currency) ?? BigInt(total as number)) : BigInt(total as number)
  return { group: `${currency} ${last?.status}`, amount }
}

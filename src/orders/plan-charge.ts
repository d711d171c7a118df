import { formatMajorUnits } from '../../client/src/currency.ts'
import { AppError, notFound } from '../errors.ts'
import { assertFewChanges, changeReferenceTaken } from './change-limits.ts'
import { type Order, stateOf } from './order.ts'
import type { Adjustment, AdjustmentKind, OrderChange, PaymentChange } from './order-changes.ts'
import { isPaymentKnown } from './order-charges.ts'
import { ruleOf } from './order-status.ts'
import { isRefundMade, planRefund, type RequestedRefund } from './plan-refund.ts'

export type RequestedCharge =
  | { type: 'adjusted'; kind: AdjustmentKind; label: string; amount: number; currency: string }
  | { type: 'adjustment_voided'; adjustment: number }
  | PaymentChange
  | RequestedRefund

export function planCharge(order: Order, requested: RequestedCharge): OrderChange {
  if (requested.type === 'refunded') return planRefund(order, requested)
  assertFewChanges(order, requested.type)
  if (requested.type === 'payment') {
    const { type, provider, reference, state } = requested
    return { type, provider, reference, state }
  }
  assertAdjustable(order)
  const change = requested.type === 'adjusted' ? adjust(order, requested) : voidAdjustment(order, requested.adjustment)
  assertTotalAfter(order, change.amount)
  return change
}

function adjust(order: Order, { type, kind, label, amount, currency }: Extract<RequestedCharge, { type: 'adjusted' }>) {
  const { total, adjustments } = stateOf(order)
  if (currency !== total.currency) {
    throw new AppError('mixed_currencies', `The order is in ${total.currency}.`, {
      errors: [{ pointer: '#/amount/currency', detail: `is not ${total.currency}` }],
    })
  }
  assertSumOfKind(adjustments, kind, amount)
  return { type, kind, label, amount }
}

/** The lake cannot hold a larger sum exactly, and discounts can hide such sums in a small total. */
function assertSumOfKind(adjustments: readonly Adjustment[], kind: AdjustmentKind, added: number): void {
  const made = adjustments.filter((adjustment) => adjustment.kind === kind)
  const sum = made.reduce((total, { amount }) => total + BigInt(amount.amount), BigInt(added))
  if (sum > BigInt(Number.MAX_SAFE_INTEGER) || sum < BigInt(Number.MIN_SAFE_INTEGER)) {
    throw new AppError('total_too_large', `All amounts of the kind ${kind} together are too large.`)
  }
}

function voidAdjustment(order: Order, version: number) {
  const adjustment = stateOf(order).adjustments.find((made) => made.version === version)
  if (adjustment === undefined) throw notFound('adjustment')
  // Subtraction avoids -0, which JSON cannot express.
  return { type: 'adjustment_voided' as const, adjustment: version, amount: 0 - adjustment.amount.amount }
}

function assertAdjustable({ status }: Order): void {
  // An ended order takes only payments and refunds.
  if (ruleOf(status).phase !== 'ended') return
  throw new AppError('illegal_transition', `The charges of an order that is ${status} cannot be changed.`, {
    members: { current_status: status, allowed_transitions: [] },
  })
}

export function assertTotalAfter(order: Order, amount: number): void {
  const { total } = stateOf(order)
  const next = total.amount + amount
  if (next < 0) {
    throw new AppError('total_negative', `The total of the order is ${formatMajorUnits(total)} ${total.currency}, and would be negative.`, {
      members: { total },
    })
  }
  if (!Number.isSafeInteger(next)) throw new AppError('total_too_large', 'The total of the order is too large.')
}

/** Whether the order has an adjustment with this reference, its void, or the same or a later payment state. */
export function isChargeMade(order: Order, requested: RequestedCharge, reference: string | null): boolean {
  if (requested.type === 'payment') return isPaymentKnown(order.statusHistory, requested)
  if (requested.type === 'refunded') return isRefundMade(order, requested, reference)
  const { statusHistory } = order
  if (requested.type === 'adjustment_voided') {
    return statusHistory.some(({ change }) => change?.type === 'adjustment_voided' && change.adjustment === requested.adjustment)
  }
  if (reference === null) return false
  const entry = statusHistory.find(({ change, reference: made }) => change?.type === 'adjusted' && made === reference)
  if (entry?.change?.type !== 'adjusted') return false
  const { kind, label, amount } = entry.change
  if (kind === requested.kind && label === requested.label && amount === requested.amount) return true
  throw changeReferenceTaken(order, 'adjustment')
}

export function isCharge<T extends { type: string }>(change: T | RequestedCharge): change is RequestedCharge {
  return ['adjusted', 'adjustment_voided', 'payment', 'refunded'].includes(change.type)
}

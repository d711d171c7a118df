import { formatMajorUnits } from '../currency.ts'
import { AppError, notFound } from '../errors.ts'
import { assertFewChanges, changeReferenceTaken } from './change-limits.ts'
import { type Order, stateOf } from './order.ts'
import type { Adjustment, AdjustmentKind, OrderChange, PaymentChange } from './order-changes.ts'
import { isPaymentKnown } from './order-charges.ts'
import { ruleOf } from './order-status.ts'
import { isRefundMade, planRefund, type RequestedRefund } from './plan-refund.ts'

/** A requested change of what is charged for an order, or of how it is paid. Its status stays. */
export type RequestedCharge =
  | { type: 'adjusted'; kind: AdjustmentKind; label: string; amount: number; currency: string }
  | { type: 'adjustment_voided'; adjustment: number }
  | PaymentChange
  | RequestedRefund

/**
 * The entry for the history. Throws `illegal_transition`, `mixed_currencies`, `not_found` for an unknown adjustment, `total_negative`,
 * `total_too_large`, `too_many_changes`, or what `planRefund` throws. Pure.
 */
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

/** Throws `total_too_large` when the lake could not have the exact sum of a kind, though discounts keep the total small. */
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
  // Subtraction avoids -0, which has no place in JSON.
  return { type: 'adjustment_voided' as const, adjustment: version, amount: 0 - adjustment.amount.amount }
}

function assertAdjustable({ status }: Order): void {
  // An order that has ended is only paid or paid back.
  if (ruleOf(status).phase !== 'ended') return
  throw new AppError('illegal_transition', `What is charged for an order that is ${status} cannot be changed.`, {
    members: { current_status: status, allowed_transitions: [] },
  })
}

/** Throws `total_negative` or `total_too_large` when a change of the total by `amount` leads out of its range. Pure. */
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

/**
 * Whether the order has this change: the same reference of an adjustment, its void, or a state of the payment that comes no earlier. Throws
 * `change_reference_taken` when the reference belongs to another adjustment or refund. Pure.
 */
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

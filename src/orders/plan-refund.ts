import { formatMajorUnits } from '../../client/src/currency.ts'
import { canonicalJson } from '../encoding.ts'
import { AppError } from '../errors.ts'
import { invalidBody } from '../http/problem.ts'
import type { Money } from '../money.ts'
import { assertFewChanges, changeReferenceTaken } from './change-limits.ts'
import { assertOfOrder } from './named-lines.ts'
import { type Order, stateOf } from './order.ts'
import type { PaymentChange, Refund, RefundablePayment, RefundLine } from './order-changes.ts'
import { paymentKey } from './order-charges.ts'

type PaymentName = Pick<PaymentChange, 'provider' | 'reference'>

/** The shop pays the refund and records it here. */
export interface RequestedRefund {
  type: 'refunded'
  /** The payment to refund. Null selects the only payment with a refundable rest. */
  payment: PaymentName | null
  amount: Money
  /** At most one line per product, or per line of the order. */
  lines: readonly RequestedRefundLine[]
}

export interface RequestedRefundLine {
  product_id: string
  line?: number
  quantity?: number
  amount?: Money
}

/** The payment's next state. Throws `refund_exceeded`, `mixed_currencies`, `too_many_changes` or `invalid_body`. */
export function planRefund(order: Order, requested: RequestedRefund): PaymentChange {
  assertFewChanges(order, 'refunded')
  assertCurrency(order, requested)
  assertLines(order, requested)
  const { provider, reference, left } = choosePayment(order, requested.payment)
  const { amount } = requested.amount
  if (amount > left.amount) throw exceeded(left)
  return {
    type: 'payment',
    provider,
    reference,
    state: amount === left.amount ? 'refunded' : 'partially_refunded',
    refund: toRefund(requested),
  }
}

/** Throws `change_reference_taken` when another refund has the reference. */
export function isRefundMade(order: Order, requested: RequestedRefund, reference: string | null): boolean {
  const made = order.statusHistory.find(
    ({ change, reference: each }) => change?.type === 'payment' && change.refund !== undefined && each === reference,
  )
  if (made?.change?.type !== 'payment') return false
  const isSamePayment = requested.payment === null || paymentKey(requested.payment) === paymentKey(made.change)
  const isSameCurrency = moneysOf(requested).every(([, { currency }]) => currency === order.total.currency)
  if (isSamePayment && isSameCurrency && canonicalJson(made.change.refund) === canonicalJson(toRefund(requested))) return true
  throw changeReferenceTaken(order, 'refund')
}

/** Sorts lines by product, so requests for the same refund are equal. */
function toRefund({ amount: { amount }, lines }: RequestedRefund): Refund {
  if (lines.length === 0) return { amount }
  const named = lines.map(
    ({ product_id, line, quantity, amount: money }): RefundLine => ({
      product_id: product_id.toLowerCase(),
      ...(line === undefined ? {} : { line }),
      ...(quantity === undefined ? {} : { quantity }),
      ...(money === undefined ? {} : { amount: money.amount }),
    }),
  )
  const byLine = (a: RefundLine, b: RefundLine) => (a.line ?? 0) - (b.line ?? 0)
  return { amount, lines: named.sort((a, b) => (a.product_id === b.product_id ? byLine(a, b) : a.product_id < b.product_id ? -1 : 1)) }
}

function choosePayment(order: Order, named: PaymentName | null): RefundablePayment {
  const { refundable } = stateOf(order)
  const found = named === null ? refundable : refundable.filter((payment) => paymentKey(payment) === paymentKey(named))
  const [payment, other] = found
  if (other !== undefined) {
    const names = found.map(({ provider, reference }) => `${provider} ${reference}`).join(', ')
    throw invalidBody('#/payment', `must name one of the payments: ${names}`)
  }
  if (payment !== undefined) return payment
  const isKnown =
    named === null || order.statusHistory.some(({ change }) => change?.type === 'payment' && paymentKey(change) === paymentKey(named))
  if (!isKnown) throw invalidBody('#/payment', 'is no payment of the order')
  throw exceeded({ amount: 0, currency: order.total.currency })
}

function exceeded(left: Money): AppError {
  const detail =
    left.amount === 0
      ? 'Nothing is left to refund: the payment is not paid, or was refunded.'
      : `At most ${formatMajorUnits(left)} ${left.currency} of the payment is left to refund.`
  return new AppError('refund_exceeded', detail, { members: { left } })
}

function moneysOf({ amount, lines }: RequestedRefund): [pointer: string, money: Money][] {
  return [
    ['#/amount', amount],
    ...lines.flatMap(({ amount: money }, index): [string, Money][] => (money ? [[`#/lines/${index}/amount`, money]] : [])),
  ]
}

function assertCurrency({ total: { currency } }: Order, requested: RequestedRefund): void {
  const [wrong] = moneysOf(requested).filter(([, money]) => money.currency !== currency)
  if (wrong === undefined) return
  throw new AppError('mixed_currencies', `The order is in ${currency}.`, {
    errors: [{ pointer: `${wrong[0]}/currency`, detail: `is not ${currency}` }],
  })
}

function assertLines(order: Order, { amount, lines }: RequestedRefund): void {
  const { items } = stateOf(order)
  assertOfOrder(items, lines)
  const ordered = new Map<string, number>()
  for (const { product_id, quantity } of items) ordered.set(product_id, (ordered.get(product_id) ?? 0) + quantity)
  for (const [index, { product_id, line, quantity, amount: money }] of lines.entries()) {
    if (quantity === undefined && money === undefined) throw invalidBody(`#/lines/${index}`, 'must have quantity or amount')
    const units = (line === undefined ? ordered.get(product_id.toLowerCase()) : items[line]?.quantity) ?? 0
    if (quantity !== undefined && quantity > units) throw invalidBody(`#/lines/${index}/quantity`, `is more than the ${units} of the order`)
  }
  const sum = lines.reduce((total, { amount: money }) => total + (money?.amount ?? 0), 0)
  if (sum > amount.amount) throw invalidBody('#/lines', 'add up to more than the refund')
}

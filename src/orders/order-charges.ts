import type { Money } from '../money.ts'
import type { Adjustment, HistoryEntry, Payment, PaymentChange, PaymentState, RefundablePayment, RefundLine } from './order-changes.ts'
import { versionOf } from './order-status.ts'

/** The adjustments that are not voided, oldest first. */
export function adjustmentsOf(history: readonly HistoryEntry[], currency: string): Adjustment[] {
  const made = new Map<number, Adjustment>()
  for (const [index, { at, change, reference, version }] of history.entries()) {
    if (change?.type === 'adjusted') {
      const { kind, label, amount } = change
      const adjustment = { version: versionOf({ version }, index), kind, label, amount: { amount, currency }, made_at: at }
      made.set(adjustment.version, { ...adjustment, ...(reference === undefined ? {} : { reference }) })
    } else if (change?.type === 'adjustment_voided') made.delete(change.adjustment)
  }
  return [...made.values()]
}

/** States in which the shop has money. An attempt at another payment does not replace such a payment. */
const HOLDING: readonly PaymentState[] = ['paid', 'partially_refunded']

/**
 * The newest payment that holds money, or else an authorized one that only refunded ones follow, or else the newest.
 */
export function paymentOf(history: readonly HistoryEntry[]): Payment | null {
  const payments = new Map<string, Payment>()
  for (const { at, change } of history) {
    if (change?.type !== 'payment') continue
    const { provider, reference, state } = change
    const key = paymentKey(change)
    // The payment that changed last becomes the last entry.
    payments.delete(key)
    payments.set(key, { provider, reference, state, changed_at: at })
  }
  const all = [...payments.values()]
  const open = all.findLast(({ state }) => state !== 'refunded')
  const newest = open?.state === 'authorized' ? open : all.at(-1)
  return all.findLast(({ state }) => HOLDING.includes(state)) ?? newest ?? null
}

/** Known amounts of a payment, in minor units. */
interface PaymentMoney {
  authorizedTotal?: number
  /** It is null when the amount is unknown, and absent before the payment is paid. */
  covered?: number | null
  /** Upper bound of the refundable rest. Absent before the payment is paid. */
  left?: number
  /** The order total when it was paid, less the shop's refunds. Absent when unpaid or unknown. */
  paidTotal?: number
}

interface PaymentEntry extends Pick<PaymentChange, 'provider' | 'reference' | 'state'> {
  version: number
  at: string
  /** Minor units. Absent when the entry has no amount or it is unknown. */
  amount?: number
  refund_reference?: string
  lines?: RefundLine[]
}

/**
 * Amounts are in minor units. A payment covers the total at its authorization, or else when paid, less other payments
 * and refunds. `covered` is null when a report without an amount leaves it unknown. `beyond` is the sum of refunds
 * above what the shop owed, which no other payment covers.
 */
export function followPayments(history: readonly HistoryEntry[], placedAmount: number, isPublished = false) {
  const payments = new Map<string, PaymentMoney & Pick<PaymentChange, 'provider' | 'reference'>>()
  const sumCovered = () => sumKnown([...payments.values()].map(({ covered = 0 }) => covered))
  const isRecorded = hasRefunds(history)
  const hasAmendedLines = history.some(({ change }) => change?.type === 'amended' && change.amount !== undefined)
  const restOf = ({ covered, paidTotal }: PaymentMoney) => {
    if (isRecorded) return covered ?? paidTotal
    if (hasAmendedLines) return covered ?? undefined
    // Published lake rows of these orders have the whole total when it was paid.
    return isPublished ? paidTotal : (covered ?? paidTotal)
  }
  const entries: PaymentEntry[] = []
  let [total, beyond] = [placedAmount, 0]
  for (const [index, { at, change, version, reference: refund_reference = '' }] of history.entries()) {
    if (change !== undefined && 'amount' in change) total += change.amount ?? 0
    if (change?.type !== 'payment') continue
    const { provider, reference, state, refund } = change
    const key = paymentKey(change)
    const before: PaymentMoney = payments.get(key) ?? {}
    const amount = refund?.amount ?? (state === 'refunded' ? restOf(before) : undefined)
    if (amount !== undefined && (refund !== undefined || beyond > 0)) {
      const ownCover = (before.covered ?? null) === null ? amount : 0
      const paid = [...payments.values()].reduce((sum, { covered }) => sum + (covered ?? 0), beyond + ownCover)
      beyond += Math.min(amount, Math.max(0, amount + total - paid))
    }
    entries.push({
      ...{ version: versionOf({ version }, index), provider, reference, state, at },
      ...(amount === undefined ? {} : { amount }),
      ...(refund === undefined ? {} : { refund_reference, ...(refund.lines && { lines: refund.lines }) }),
    })
    const covered = sumCovered()
    const earlier = covered === null || (covered === 0 && beyond > 0) ? null : covered + beyond
    payments.set(key, { provider, reference, ...moneyAfter(change, before, { total, earlier }) })
  }
  return { entries, total, covered: sumCovered(), beyond, payments: [...payments.values()] }
}

/** `order` has its total, and the amount that all payments covered before their refunds. */
function moneyAfter(
  { state, refund }: PaymentChange,
  before: PaymentMoney,
  order: { total: number; earlier: number | null },
): PaymentMoney {
  const { authorizedTotal = order.total, ...known } = before
  const { covered = null, left = authorizedTotal } = known
  switch (state) {
    case 'pending':
      return before
    case 'authorized':
      return { ...known, authorizedTotal: order.total }
    case 'failed':
      return known
    case 'paid': {
      const cover = coverOf(order.total, authorizedTotal, order.earlier)
      return { covered: cover, left: cover ?? authorizedTotal, paidTotal: order.total }
    }
    case 'partially_refunded': {
      if (refund === undefined) return { covered: null, left }
      const rest = left - refund.amount
      const paidTotal = known.paidTotal === undefined ? undefined : Math.max(0, known.paidTotal - refund.amount)
      return { covered: covered === null ? null : rest, left: rest, paidTotal }
    }
    case 'refunded':
      return { ...known, covered: 0, left: 0 }
  }
}

/** Returns all refunds, or null when an amount is unknown, and the refundable rest of each paid payment. */
export function refundsOf(history: readonly HistoryEntry[], { amount: placedAmount, currency }: Money) {
  const { entries, payments } = followPayments(history, placedAmount)
  const refunds = entries.filter(({ state }) => state === 'partially_refunded' || state === 'refunded')
  const sum = sumKnown(refunds.map(({ amount = null }) => amount))
  return {
    refunded: sum !== null && Number.isSafeInteger(sum) ? { amount: sum, currency } : null,
    refundable: payments.flatMap(({ provider, reference, left = 0 }): RefundablePayment[] =>
      left > 0 ? [{ provider, reference, left: { amount: left, currency } }] : [],
    ),
  }
}

function sumKnown(amounts: readonly (number | null)[]): number | null {
  return amounts.reduce((sum, amount) => (sum === null || amount === null ? null : sum + amount), 0)
}

function coverOf(total: number, authorizedTotal: number, earlier: number | null): number | null {
  if (earlier === null || authorizedTotal > total) return null
  return earlier > 0 && authorizedTotal <= earlier ? null : authorizedTotal - earlier
}

/**
 * Minor units. Below 0 the shop owes it. It is null when unknown, after refunds beyond what was owed, and after a
 * refund with returned units, whose price stays in the total.
 */
export function dueOf(history: readonly HistoryEntry[], placedAmount: number): number | null {
  const { total, covered, beyond } = followPayments(history, placedAmount)
  const isForReturn = hasRefunds(history) && history.some(({ change }) => change?.type === 'returned')
  return covered === null || beyond > 0 || isForReturn ? null : total - covered
}

export function hasRefunds(history: readonly HistoryEntry[]): boolean {
  return history.some(({ change }) => change?.type === 'payment' && change.refund !== undefined)
}

/** The database function `order_holds_money` is the same rule. */
export function isMoneyHeld(payment: Payment | null): boolean {
  return payment !== null && (payment.state === 'authorized' || HOLDING.includes(payment.state))
}

/** A failed payment may be authorized, and an authorized one may fail, so both have the same number. */
const STAGES: Readonly<Record<PaymentState, number>> = { pending: 0, authorized: 1, failed: 1, paid: 2, partially_refunded: 3, refunded: 4 }

export function isPaymentKnown(history: readonly HistoryEntry[], message: Omit<PaymentChange, 'type'>): boolean {
  const key = paymentKey(message)
  return history.some(
    ({ change }) =>
      change?.type === 'payment' &&
      paymentKey(change) === key &&
      (change.state === message.state || STAGES[change.state] > STAGES[message.state]),
  )
}

export function paymentKey({ provider, reference }: Pick<PaymentChange, 'provider' | 'reference'>): string {
  return JSON.stringify([provider, reference])
}

import type { Money } from '../money.ts'
import type { Adjustment, HistoryEntry, Payment, PaymentChange, PaymentState, RefundablePayment, RefundLine } from './order-changes.ts'
import { versionOf } from './order-status.ts'

/** What is charged besides the lines and was not voided, the oldest first. Pure. */
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

/** States in which the shop has the customer's money: another payment that is only tried does not take their place. */
const HOLDING: readonly PaymentState[] = ['paid', 'partially_refunded']

/**
 * The payment that is shown: the newest that holds money, else the authorized one that only refunded ones follow, else
 * the newest. Null: none is known. Pure.
 */
export function paymentOf(history: readonly HistoryEntry[]): Payment | null {
  const payments = new Map<string, Payment>()
  for (const { at, change } of history) {
    if (change?.type !== 'payment') continue
    const { provider, reference, state } = change
    const key = paymentKey(change)
    // The one that was changed last is the last.
    payments.delete(key)
    payments.set(key, { provider, reference, state, changed_at: at })
  }
  const all = [...payments.values()]
  const open = all.findLast(({ state }) => state !== 'refunded')
  const newest = open?.state === 'authorized' ? open : all.at(-1)
  return all.findLast(({ state }) => HOLDING.includes(state)) ?? newest ?? null
}

/** What is known of the money of a payment, in minor units. */
interface PaymentMoney {
  /** The total of the order when it was authorized. */
  authorizedTotal?: number
  /** It is null where it is unknown, and absent while it is not paid. */
  covered?: number | null
  /** The most that can be left to pay back. Absent while it is not paid. */
  left?: number
  /** What the order cost when it was paid, less refunds of the shop. Absent: it is not paid, or that is unknown. */
  paidTotal?: number
}

/** A provider's report, or a refund of the shop. */
interface PaymentEntry extends Pick<PaymentChange, 'provider' | 'reference' | 'state'> {
  /** That of the order. */
  version: number
  at: string
  /** What was paid back with it, in minor units. Absent: nothing, or it is unknown. */
  amount?: number
  /** The reference of a refund of the shop. */
  refund_reference?: string
  lines?: RefundLine[]
}

/**
 * Reports of providers and refunds of the shop, the oldest first, and what the payments cover now, in minor units. A
 * payment that is paid covers the order as it was when it was authorized, or else when it was paid, less what others
 * cover and what was refunded. Null: a report has no amount, so what one covers is not known after a partial refund that
 * was only reported, when nothing was left to cover, when the total fell between authorization and capture, or when all
 * was paid back before. `beyond`: what the shop refunded beyond what it owed. No other payment covers that. Pure.
 */
export function followPayments(history: readonly HistoryEntry[], placedAmount: number, isPublished = false) {
  const payments = new Map<string, PaymentMoney & Pick<PaymentChange, 'provider' | 'reference'>>()
  const sumCovered = () => sumKnown([...payments.values()].map(({ covered = 0 }) => covered))
  const isRecorded = hasRefunds(history)
  const hasAmendedLines = history.some(({ change }) => change?.type === 'amended' && change.amount !== undefined)
  const restOf = ({ covered, paidTotal }: PaymentMoney) => {
    if (isRecorded) return covered ?? paidTotal
    if (hasAmendedLines) return covered ?? undefined
    // Lake rows of these orders are published with the whole total of the time of the payment.
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

/** `order`: its total, and what all payments covered before their refunds. */
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

/** What was paid back of all payments, null where some amount is unknown, and what is left of those that are paid. Pure. */
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

/** The sum is null where one of them is. */
function sumKnown(amounts: readonly (number | null)[]): number | null {
  return amounts.reduce((sum, amount) => (sum === null || amount === null ? null : sum + amount), 0)
}

function coverOf(total: number, authorizedTotal: number, earlier: number | null): number | null {
  if (earlier === null || authorizedTotal > total) return null
  return earlier > 0 && authorizedTotal <= earlier ? null : authorizedTotal - earlier
}

/**
 * What the customer still owes for the order, in minor units; below 0 what is to be paid back; null: unknown, also after
 * a refund beyond what was owed back, and after one when units came back, whose price stays in the total. Pure.
 */
export function dueOf(history: readonly HistoryEntry[], placedAmount: number): number | null {
  const { total, covered, beyond } = followPayments(history, placedAmount)
  const isForReturn = hasRefunds(history) && history.some(({ change }) => change?.type === 'returned')
  return covered === null || beyond > 0 || isForReturn ? null : total - covered
}

/** Whether the shop has recorded a refund with its amount. Pure. */
export function hasRefunds(history: readonly HistoryEntry[]): boolean {
  return history.some(({ change }) => change?.type === 'payment' && change.refund !== undefined)
}

/** Whether the customer has paid, or the money is reserved: `order_holds_money` of the database is the same. Pure. */
export function isMoneyHeld(payment: Payment | null): boolean {
  return payment !== null && (payment.state === 'authorized' || HOLDING.includes(payment.state))
}

/** A payment has several attempts: one that failed may be followed by one that is authorized, and an authorization may fail. */
const STAGES: Readonly<Record<PaymentState, number>> = { pending: 0, authorized: 1, failed: 1, paid: 2, partially_refunded: 3, refunded: 4 }

/** Whether a message about a payment brings nothing new: the payment has had this state, or one of a later stage. Pure. */
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

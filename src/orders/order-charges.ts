import type { Adjustment, HistoryEntry, Payment, PaymentChange, PaymentState } from './order-changes.ts'
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

/** The payment that is shown: the newest that holds money, else the newest. Null: none is known. Pure. */
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
  return all.findLast(({ state }) => HOLDING.includes(state)) ?? all.at(-1) ?? null
}

interface PaymentCover {
  /** Minor units; null: unknown. Absent while it is not paid. */
  covered?: number | null
  /** What the order cost when it was paid. Absent when it is not paid, or refunded in part. */
  paidTotal?: number
}

/** A provider's report, and what its payment covered before it. */
interface PaymentReport extends PaymentCover, Omit<PaymentChange, 'type'> {
  /** That of the order. */
  version: number
  at: string
}

/**
 * The reports of providers, the oldest first, and what all payments cover now, in minor units. A payment that is paid
 * covers the order as it was when it was authorized, or else when it was paid, less what others cover. Null: a report
 * has no amount, so what one covers is not known after a partial refund, when nothing was left to cover, or when the
 * total fell between authorization and capture. Pure.
 */
export function followPayments(history: readonly HistoryEntry[], placedAmount: number) {
  const payments = new Map<string, PaymentCover & { authorizedTotal?: number }>()
  const sumCovered = () =>
    [...payments.values()].reduce<number | null>((sum, { covered = 0 }) => (sum === null || covered === null ? null : sum + covered), 0)
  const reports: PaymentReport[] = []
  let total = placedAmount
  for (const [index, { at, change, version }] of history.entries()) {
    if (change !== undefined && 'amount' in change) total += change.amount ?? 0
    if (change?.type !== 'payment') continue
    const { provider, reference, state } = change
    const key = paymentKey(change)
    const { authorizedTotal = total, ...known } = payments.get(key) ?? {}
    reports.push({ version: versionOf({ version }, index), provider, reference, state, at, ...known })
    if (state === 'authorized') payments.set(key, { ...known, authorizedTotal: total })
    if (state === 'failed') payments.set(key, known)
    if (state === 'paid') payments.set(key, { covered: coverOf(total, authorizedTotal, sumCovered()), paidTotal: total })
    if (state === 'partially_refunded') payments.set(key, { covered: null })
    if (state === 'refunded') payments.set(key, { ...known, covered: 0 })
  }
  return { reports, total, covered: sumCovered() }
}

function coverOf(total: number, authorizedTotal: number, earlier: number | null): number | null {
  if (earlier === null || authorizedTotal > total) return null
  return earlier > 0 && authorizedTotal <= earlier ? null : authorizedTotal - earlier
}

/** What the customer still owes for the order, in minor units; below 0 what is to be paid back; null: unknown. Pure. */
export function dueOf(history: readonly HistoryEntry[], placedAmount: number): number | null {
  const { total, covered } = followPayments(history, placedAmount)
  return covered === null ? null : total - covered
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

function paymentKey({ provider, reference }: Pick<PaymentChange, 'provider' | 'reference'>): string {
  return JSON.stringify([provider, reference])
}

import type { HistoryEntry, OrderLine } from '../orders/order-changes.ts'
import { followPayments } from '../orders/order-charges.ts'
import { type LineState, type OrderState, orderStateOf } from '../orders/order-state.ts'
import { type OrderStatus, ruleOf } from '../orders/order-status.ts'

export interface NetAmountSource {
  status: OrderStatus
  currency: string
  items: readonly OrderLine[]
  /** Total as placed, in minor units. */
  total_amount: number
  status_history: readonly HistoryEntry[]
}

/**
 * What an order is worth now, in minor units: its total less returned units, or less refunds beyond what the shop owed
 * if these are greater. A return and its refund count once. The result is 0 for an order that has ended or is refunded.
 */
export function netAmountOf({ status, currency, items: placed, total_amount, status_history: history }: NetAmountSource): number {
  if (ruleOf(status).phase === 'ended') return 0
  const { entries, payments, beyond, covered } = followPayments(history, total_amount)
  const isRefunded = entries.some(({ state }) => state === 'refunded')
  // Another attempt that has failed or is pending is no payment.
  const isPaidAgain = payments.some(({ left, authorizedTotal }) => (left === undefined ? authorizedTotal !== undefined : left > 0))
  if (isRefunded && !isPaidAgain) return 0
  const state = orderStateOf({ items: placed, total: { amount: total_amount, currency }, history })
  const total = state.total.amount
  const kept = total - returnedAmount(state)
  const held = isRefunded ? payments.reduce((sum, { left, authorizedTotal = 0 }) => sum + (left ?? authorizedTotal), 0) : covered
  // The total may have fallen by the refunded amount after the refund.
  const settled = beyond > 0 && held !== null ? Math.min(kept, held) : 0
  return Math.max(0, settled, Math.min(kept, total - beyond))
}

/** The part of the total that the returned units have. A discount lowers the price of each unit by the same share. */
function returnedAmount({ items, lines, total }: Pick<OrderState, 'items' | 'lines' | 'total'>): number {
  const sumOf = (unitsOf: (line: LineState) => number) =>
    lines.reduce((sum, line, index) => sum + unitsOf(line) * (items[index]?.unit_price.amount ?? 0), 0)
  const goods = sumOf(({ ordered, cancelled }) => ordered - cancelled)
  const returned = sumOf((line) => line.returned)
  return goods > total.amount ? Math.round((returned * total.amount) / goods) : returned
}

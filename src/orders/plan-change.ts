import { AppError } from '../errors.ts'
import { assertFewChanges, changeReferenceTaken } from './change-limits.ts'
import { assertOfOrder } from './named-lines.ts'
import { type Actor, type Order, type StatusChange, stateOf } from './order.ts'
import type { AMENDABLE_MEMBERS } from './order-amendments.ts'
import type { LineQuantity, OrderChange } from './order-changes.ts'
import {
  countMovable,
  groupByProduct,
  hasPartMoves,
  type LineState,
  movableUnits,
  moveUnits,
  type OrderState,
  orderStateOf,
  partsMovedBy,
  transitionsOf,
} from './order-state.ts'
import { allowedTransitions, type OrderStatus, type PartMove, ruleOf } from './order-status.ts'
import { assertTotalAfter } from './plan-charge.ts'
import type { Tracking } from './tracking.ts'

/** All movable units when `lines` is null. */
export type RequestedChange =
  | { type: 'shipped' | 'lines_cancelled'; lines: readonly LineQuantity[] | null }
  | { type: 'returned'; lines: readonly LineQuantity[] | null; restock: boolean }

export interface PlannedChange {
  to: OrderStatus
  change: OrderChange | undefined
  restockedLines: readonly LineQuantity[]
  takenLines?: readonly LineQuantity[]
  tracking?: Tracking
  values?: Partial<Pick<Order, (typeof AMENDABLE_MEMBERS)[keyof typeof AMENDABLE_MEMBERS] | 'formerValues'>>
  /** Whether a history that is too long refuses the change. Changes that end the order or its payment always pass. */
  isBySize: boolean
}

const MOVES: Record<RequestedChange['type'], PartMove> = { shipped: 'shipped', lines_cancelled: 'cancelled', returned: 'returned' }

/** The history needs no units until units have moved separately. Throws `illegal_transition`. */
export function planTransition(
  order: Order,
  to: OrderStatus,
  { restock = false, actor }: { restock?: boolean; actor: Actor },
): PlannedChange {
  const allowed = transitionsOf(order.status, stateOf(order).lines)
  if (!allowed.includes(to) && allowedTransitions(order.status).includes(to)) throw refuseWholeCancellation(order, actor, allowed)
  assertTransition(order.status, to, allowed)
  const { moves } = ruleOf(to)
  if (moves !== null && hasPartMoves(order.statusHistory)) {
    if (moves === 'returned') return planChange(order, { type: moves, lines: null, restock })
    return planChange(order, { type: moves === 'cancelled' ? 'lines_cancelled' : moves, lines: null })
  }
  const restockedLines = moves === 'cancelled' || (moves === 'returned' && restock) ? order.items : []
  return { to, change: undefined, restockedLines, isBySize: false }
}

/** Throws `illegal_transition`, `quantity_exceeded`, `too_many_changes`, or `invalid_body` for an unknown product. */
export function planChange(order: Order, requested: RequestedChange): PlannedChange {
  const { items, lines } = stateOf(order)
  const move = MOVES[requested.type]
  const all = movableUnits(items, lines, move)
  if (!ruleOf(order.status).parts.includes(move) || all.length === 0) throw refuseChange(order, move, lines)
  const units = requested.lines === null ? all : toUnits({ items, lines }, requested.lines, move)
  // An order can have few changes that take the rest, so these are always possible.
  const isBySize = countUnits(units) < countUnits(all)
  if (isBySize) assertFewChanges(order, requested.type)
  const byProduct = groupByProduct(items, lines)
  let price = 0
  for (const each of units) price += moveUnits(byProduct, move, each)
  const to = statusAfter(order.status, lines)
  switch (requested.type) {
    case 'shipped':
      return { to, change: { type: 'shipped', lines: units }, restockedLines: [], isBySize }
    case 'lines_cancelled': {
      // An order that is cancelled as a whole keeps its total. Its status shows that nothing is due.
      const amount = to === 'cancelled' ? {} : { amount: -price }
      // With a discount the remaining units may cost less than 0.
      assertTotalAfter(order, amount.amount ?? 0)
      return { to, change: { type: 'lines_cancelled', lines: units, ...amount }, restockedLines: units, isBySize }
    }
    case 'returned': {
      const { restock } = requested
      return { to, change: { type: 'returned', lines: units, restock }, restockedLines: restock ? units : [], isBySize }
    }
  }
}

export function assertTransition(from: OrderStatus, to: OrderStatus, allowed = allowedTransitions(from)): void {
  if (allowed.includes(to)) return
  throw new AppError('illegal_transition', `An order that is ${from} cannot become ${to}.`, {
    members: { current_status: from, allowed_transitions: allowed },
  })
}

function countUnits(lines: readonly LineQuantity[]): number {
  return lines.reduce((sum, { quantity }) => sum + quantity, 0)
}

function statusAfter(status: OrderStatus, lines: readonly LineState[]): OrderStatus {
  const count = (kind: PartMove) => lines.reduce((sum, line) => sum + countMovable(line, kind), 0)
  if (count('shipped') > 0) return status
  if (!lines.some(({ shipped }) => shipped > 0)) return 'cancelled'
  if (count('returned') === 0) return 'returned'
  return ruleOf(status).phase === 'open' ? 'shipped' : status
}

/** Sorted like the order's lines, so requests for the same units are equal. */
function toUnits(
  { items, lines }: Pick<OrderState, 'items' | 'lines'>,
  requested: readonly LineQuantity[],
  move: PartMove,
): LineQuantity[] {
  assertOfOrder(items, requested)
  const left = new Map(movableUnits(items, lines, move).map(({ product_id, quantity }) => [product_id, quantity]))
  const wanted = requested.map(
    ({ product_id, quantity, line }): LineQuantity => ({
      ...{ product_id: product_id.toLowerCase(), quantity },
      ...(line === undefined ? {} : { line }),
    }),
  )
  const exceeded = wanted.flatMap(({ quantity: asked, ...named }) => {
    const state = named.line === undefined ? undefined : lines[named.line]
    const available = state === undefined ? (left.get(named.product_id) ?? 0) : countMovable(state, move)
    return asked > available ? [{ ...named, requested: asked, available }] : []
  })
  if (exceeded.length > 0) {
    throw new AppError('quantity_exceeded', 'The order has fewer units with which this is possible.', {
      members: { exceeded },
    })
  }
  const places = new Map(items.map(({ product_id }, place) => [product_id, place] as const).reverse())
  const placeOf = ({ product_id, line = 0 }: LineQuantity) => [places.get(product_id) ?? 0, line] as const
  return wanted.sort((a, b) => placeOf(a)[0] - placeOf(b)[0] || placeOf(a)[1] - placeOf(b)[1])
}

function refuseWholeCancellation({ id, status }: Order, actor: Actor, allowed: readonly OrderStatus[]): AppError {
  const fact = 'A part of the order is shipped, so it cannot be cancelled as a whole.'
  const remedy = actor.type === 'customer' ? '' : ` The rest is cancelled by POST /admin/orders/${id}/cancellations.`
  return new AppError('illegal_transition', fact + remedy, { members: { current_status: status, allowed_transitions: allowed } })
}

function refuseChange({ status }: Order, move: PartMove, lines: readonly LineState[]): AppError {
  return new AppError('illegal_transition', `No unit of an order that is ${status} can be ${move} now.`, {
    members: { current_status: status, allowed_transitions: transitionsOf(status, lines) },
  })
}

/** Whether this request, or a move of the whole order, has made the change. Throws `change_reference_taken`. */
export function isChangeMade(order: Order, requested: RequestedChange, reference: string, tracking: Tracking | null): boolean {
  const { items, total, statusHistory } = order
  const move = MOVES[requested.type]
  const index = statusHistory.findIndex((entry, at) => entry.reference === reference && partsMovedBy(statusHistory, at) === move)
  const entry = statusHistory[index]
  if (entry === undefined) return false
  const before = orderStateOf({ items, total, history: statusHistory.slice(0, index) })
  const possible = movableUnits(before.items, before.lines, move)
  const made = entry.change !== undefined && 'lines' in entry.change ? entry.change.lines : possible
  const isSame = textOf(made) === textOf(requested.lines ?? possible) && isSameDetail(entry, requested, tracking)
  if (!isSame) throw changeReferenceTaken(order, 'change of this kind')
  return true
}

function isSameDetail({ change, tracking: made }: StatusChange, requested: RequestedChange, tracking: Tracking | null): boolean {
  // A return of the whole order does not record whether the goods were restocked.
  const isSameRestock = requested.type !== 'returned' || change?.type !== 'returned' || change.restock === requested.restock
  const isSameParcel = made?.carrier === tracking?.carrier && made?.number === tracking?.number && made?.url === tracking?.url
  return isSameRestock && isSameParcel
}

function textOf(lines: readonly LineQuantity[]): string {
  return lines
    .map(({ product_id, quantity, line = '' }) => `${product_id.toLowerCase()} ${quantity} ${line}`)
    .sort()
    .join()
}

import { type AuditContext, recordActivities } from '../activity/record-activity.ts'
import { moveStock, type StockLine } from '../catalogue/stock.ts'
import { isTimeout } from '../db/failures.ts'
import type { Pool, Transaction } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import { AppError, notFound } from '../errors.ts'
import { type AmendmentOffer, readOffer } from './amendment-offer.ts'
import { assertHistoryFits } from './change-limits.ts'
import { type Order, type StatusMove, stateOf, withStatus } from './order.ts'
import type { OrderChange } from './order-changes.ts'
import { isMoneyHeld } from './order-charges.ts'
import { assertErasable } from './order-notes.ts'
import { transitionsOf } from './order-state.ts'
import type { OrderStatus } from './order-status.ts'
import { findOrdersForUpdate, updateOrderStatuses } from './orders.ts'
import { type LockedRows, type Rows, rowsAreLocked } from './placing/locked-rows.ts'
import { hasPersonalData, isAmendmentMade, planAmendment, type RequestedAmendment } from './plan-amendment.ts'
import { isChangeMade, type PlannedChange, planChange, planTransition, type RequestedChange } from './plan-change.ts'
import { isCharge, isChargeMade, planCharge, type RequestedCharge } from './plan-charge.ts'

export type Move = MoveDetails &
  ({ to: OrderStatus; change?: never } | { change: RequestedChange | RequestedCharge | RequestedAmendment; to?: never })

interface MoveDetails extends Omit<StatusMove, 'to' | 'change'> {
  orderId: string
  ownerId?: string
  from?: OrderStatus
  cancellable?: readonly OrderStatus[]
  /** Refuses orders whose payment is authorized or paid when the order is locked. */
  unlessMoneyIsHeld?: boolean
  /** Order versions that may move, from `If-Match`. Null allows any version. */
  versions?: ReadonlySet<string> | null
  /** Whether returned goods can be sold again (only with `to`). Cancelled goods always can. */
  restock?: boolean
  isPreview?: boolean
}

type Decision = MoveOutcome & { restockedLines?: readonly StockLine[]; takenLines?: readonly StockLine[] }

/** `repeated` means that an earlier move with the same reference did this. The order is the current one. */
export type MoveOutcome = { kind: 'moved' | 'repeated'; order: Order } | { kind: 'refused'; error: unknown }

export interface TransitionContext {
  pool: Pool
  lockedRows: LockedRows
  /** Units of one product that one customer can buy, for amendments that add units. Unlimited when absent or null. */
  maxQuantityPerProductAndUser?: number | null
  /** Absent for moves by customers and the scheduler, which are not recorded. */
  auditContext?: AuditContext
}

const LOCK_WAIT_MS = 2_000

/** Throws `not_found`, `precondition_failed`, `illegal_transition` or `unavailable`. */
export async function moveOrder(context: TransitionContext, move: Move, now: Date): Promise<{ order: Order; isRepeat: boolean }> {
  const [outcome] = await moveOrders(context, [move], now)
  if (outcome === undefined) throw new Error('a move was left without an outcome')
  if (outcome.kind === 'refused') throw outcome.error
  return { order: outcome.order, isRepeat: outcome.kind === 'repeated' }
}

/**
 * Moves or refuses each order separately. Each order may be named once. Throws `unavailable` when rows stay locked for
 * longer than `lockWaitMs`. Holds no connection while it waits.
 */
export async function moveOrders(
  { pool, ...context }: TransitionContext,
  moves: readonly Move[],
  now: Date,
  lockWaitMs = LOCK_WAIT_MS,
): Promise<MoveOutcome[]> {
  const { lockedRows } = context
  const deadline = performance.now() + lockWaitMs
  for (;;) {
    const rows: Rows = { orders: moves.map(({ orderId }) => orderId.toLowerCase()) }
    try {
      return await inTransaction(
        pool,
        async (tx) => {
          const outcomes = await attempt(tx, { ...context, moves, now, rows })
          if (moves.some(({ isPreview }) => isPreview)) throw new Previewed(outcomes)
          return outcomes
        },
        { lockTimeoutMs: lockedRows.lockTimeoutMs },
      )
    } catch (error) {
      if (error instanceof Previewed) return error.outcomes
      if (!(error instanceof RowsLocked) && !isTimeout(error)) throw error
      if (!(error instanceof RowsLocked)) await lockedRows.find(rows)
      const leftMs = deadline - performance.now()
      if (leftMs <= 0 || !(await lockedRows.untilFree(rows, leftMs))) throw rowsAreLocked(error)
    }
  }
}

/** Ends the transaction, because waiting in it would delay others. */
class RowsLocked extends Error {
  override readonly name = 'RowsLocked'
}

class Previewed extends Error {
  override readonly name = 'Previewed'
  readonly outcomes: MoveOutcome[]

  constructor(outcomes: MoveOutcome[]) {
    super('the moves were only tried')
    this.outcomes = outcomes
  }
}

interface Attempt extends Omit<TransitionContext, 'pool'> {
  moves: readonly Move[]
  now: Date
  rows: Rows
}

async function attempt(
  tx: Transaction,
  { lockedRows, auditContext, maxQuantityPerProductAndUser = null, moves, now, rows }: Attempt,
): Promise<MoveOutcome[]> {
  if (lockedRows.hasAny(rows)) throw new RowsLocked()
  // An erasure locks in the same sequence: the account before the order.
  for (const { change, orderId } of moves) {
    if (change?.type === 'amended' && hasPersonalData(change)) await assertErasable(tx, orderId)
  }
  const orders = await findOrdersForUpdate(
    tx,
    moves.map((move) => move.orderId),
  )
  const outcomes: Decision[] = []
  for (const move of moves) {
    const order = orders.get(move.orderId.toLowerCase())
    const offer = await readOfferFor(tx, order, move, { lockedRows, rows, limit: maxQuantityPerProductAndUser })
    outcomes.push(decideMove(move, order, now, offer))
  }
  const moved = outcomes.flatMap((outcome) => (outcome.kind === 'moved' ? [outcome.order] : []))
  const restocked = outcomes.flatMap(({ restockedLines = [] }) => restockedLines)
  const taken = outcomes.flatMap(({ takenLines = [] }) => takenLines)
  rows.customers = [...new Set(moved.map(({ userId }) => userId))]
  rows.products = [...new Set([...restocked, ...taken].map((line) => line.product_id))]
  if (lockedRows.hasAny(rows)) throw new RowsLocked()
  // All code locks in this sequence, so deadlocks cannot occur: orders by id, the customers' counts by the update, and
  // stock by product id.
  const written = new Map((await updateOrderStatuses(tx, moved)).map((order) => [order.id, order]))
  // A preview judges rounded stock, so the real stock may be too small to take.
  if (rows.products.length > 0 && !moves.some(({ isPreview }) => isPreview)) await moveStock(tx, { restocked, taken })
  if (auditContext !== undefined) await recordMoves(tx, auditContext, orders, [...written.values()])
  return outcomes.map((outcome) =>
    outcome.kind === 'moved' ? { kind: 'moved', order: written.get(outcome.order.id) ?? outcome.order } : outcome,
  )
}

/** Undefined unless the move amends lines. */
async function readOfferFor(
  tx: Transaction,
  order: Order | undefined,
  { change, isPreview = false }: Move,
  { lockedRows, rows, limit }: Pick<Attempt, 'lockedRows' | 'rows'> & { limit: number | null },
): Promise<AmendmentOffer | undefined> {
  if (order === undefined || change?.type !== 'amended' || change.lines === undefined) return undefined
  rows.customers = [order.userId]
  rows.products = change.lines.map((line) => line.product_id)
  if (lockedRows.hasAny(rows)) throw new RowsLocked()
  return readOffer(tx, order.userId, change.lines, { limit, precision: isPreview ? 'rounded' : 'exact' })
}

export function decideMove(move: Move, order: Order | undefined, now: Date, offer?: AmendmentOffer): Decision {
  try {
    if (order === undefined || (move.ownerId !== undefined && order.userId !== move.ownerId)) throw notFound('order')
    // This check precedes the version check: a client that repeats a move has not received the new version.
    if (wasMade(order, move)) return { kind: 'repeated', order }
    assertVersion(order, move.versions ?? null)
    if (move.from !== undefined && order.status !== move.from) throw new AppError('illegal_transition', `The order is ${order.status} now.`)
    if (move.unlessMoneyIsHeld === true && isMoneyHeld(stateOf(order).payment))
      throw new AppError('illegal_transition', 'The order is paid now.')
    if (move.cancellable !== undefined) assertCancellable(order, move.cancellable)
    const { restockedLines, takenLines = [], isBySize, values, ...planned } = plan(order, move, offer)
    const moved = { ...withStatus(order, { ...move, ...planned }, now), ...values }
    if (isBySize) assertHistoryFits(moved)
    return { kind: 'moved', order: moved, restockedLines, takenLines }
  } catch (error) {
    return { kind: 'refused', error }
  }
}

function plan(order: Order, move: Move, offer: AmendmentOffer | undefined): PlannedChange {
  const { change } = move
  if (change?.type === 'amended') return planAmendment(order, change, offer)
  if (change !== undefined) {
    if (!isCharge(change)) return planChange(order, change)
    // A discount or fee must always be voidable, and a provider's report must always be accepted.
    return {
      to: order.status,
      change: planCharge(order, change),
      restockedLines: [],
      isBySize: ['adjusted', 'refunded'].includes(change.type),
    }
  }
  assertNotInStatus(order, move)
  return planTransition(order, move.to, move)
}

/** Whether the order has ever made this move with the same reference. Throws `change_reference_taken`. */
function wasMade(order: Order, { to, change, reference = null, tracking = null }: Move): boolean {
  if (change?.type === 'amended') return isAmendmentMade(order, change, reference)
  if (change !== undefined && isCharge(change)) return isChargeMade(order, change, reference)
  if (reference === null) return false
  if (change !== undefined) return isChangeMade(order, change, reference, tracking)
  const { statusHistory } = order
  return statusHistory.some((entry, at) => entry.reference === reference && entry.status === to && statusHistory[at - 1]?.status !== to)
}

function assertNotInStatus(order: Order, { to, reference = null }: Move): void {
  const { status, statusHistory } = order
  if (reference === null || status !== to) return
  // Later entries may have changed something else.
  const current = statusHistory.findLast((entry, at) => entry.status !== statusHistory[at - 1]?.status)?.reference ?? null
  const cause = current === null ? 'without a reference' : `with the reference ${current}`
  throw new AppError('illegal_transition', `The order became ${to} ${cause}.`, {
    members: { current_status: status, current_reference: current, allowed_transitions: transitionsOf(status, stateOf(order).lines) },
  })
}

function assertCancellable(order: Order, statuses: readonly OrderStatus[]): void {
  const { status } = order
  const allowed = transitionsOf(status, stateOf(order).lines)
  if (statuses.includes(status) || !allowed.includes('cancelled')) return
  throw new AppError('illegal_transition', `Only the shop can cancel a ${status} order. Ask the shop.`, {
    members: { current_status: status, allowed_transitions: allowed.filter((to) => to !== 'cancelled') },
  })
}

function assertVersion(order: Order, versions: ReadonlySet<string> | null): void {
  if (versions === null || versions.has(String(order.version))) return
  throw new AppError('precondition_failed', `The order is now ${order.status}, at version ${order.version}.`, {
    members: { current_version: order.version },
  })
}

/** Records no reasons, references and labels: they may name a person and stay in the order's history. */
async function recordMoves(
  tx: Transaction,
  auditContext: AuditContext,
  before: ReadonlyMap<string, Order>,
  moved: readonly Order[],
): Promise<void> {
  const changes = moved.map((order) => {
    const previous = before.get(order.id) ?? order
    const isTotalChanged = stateOf(previous).total.amount !== stateOf(order).total.amount
    const shown = (state: Order) => ({
      ...{ status: state.status, version: state.version },
      ...(isTotalChanged ? { total: stateOf(state).total } : {}),
    })
    const change = order.statusHistory.at(-1)?.change
    const after = { ...shown(order), ...(change === undefined ? {} : { change: summarize(change) }) }
    return { subjectType: 'order' as const, subjectId: order.id, before: shown(previous), after }
  })
  await recordActivities(tx, auditContext, changes)
}

function summarize(change: OrderChange): object {
  const { type } = change
  switch (type) {
    case 'adjusted':
      return { type, kind: change.kind }
    case 'adjustment_voided':
      return { type, adjustment: change.adjustment }
    case 'payment':
      return { type, provider: change.provider, state: change.state, ...(change.refund && { refunded: change.refund.amount }) }
    case 'amended':
      return { type, amended: change.amended }
    default:
      return { type, units: change.lines.reduce((sum, { quantity }) => sum + quantity, 0) }
  }
}

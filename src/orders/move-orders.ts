import { returnStock, type StockLine } from '../catalogue/stock.ts'
import { isTimeout } from '../db/failures.ts'
import type { Pool, Transaction } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import { AppError, notFound } from '../errors.ts'
import { type Order, type StatusMove, withStatus } from './order.ts'
import { allowedTransitions, assertTransition, type OrderStatus } from './order-status.ts'
import { findOrdersForUpdate, updateOrderStatuses } from './orders.ts'
import { type LockedRows, type Rows, rowsAreLocked } from './placing/locked-rows.ts'

/** A requested change of status. */
export interface Move extends StatusMove {
  orderId: string
  /** Only an order of this customer. */
  ownerId?: string
  /** Only an order in this status: for moves that were decided earlier. */
  from?: OrderStatus
  /** Only an order in one of these versions, as `If-Match` has them; null for any. */
  versions?: ReadonlySet<string> | null
  /** Whether goods that come back can be sold again. Cancelled ones always can: they never left. */
  restock?: boolean
}

/** `repeated`: the move was made before with the same reference, and nothing was changed. The order is the present one. */
export type MoveOutcome = { kind: 'moved' | 'repeated'; order: Order } | { kind: 'refused'; error: unknown }

export interface Moving {
  pool: Pool
  lockedRows: LockedRows
}

/** How long a move waits for locked rows. */
const LOCK_WAIT_MS = 2_000

/** Moves one order to another status. Throws `not_found`, `precondition_failed`, `illegal_transition` or `unavailable`. */
export async function moveOrder(moving: Moving, move: Move, now: Date): Promise<{ order: Order; isRepeat: boolean }> {
  const [outcome] = await moveOrders(moving, [move], now)
  if (outcome === undefined) throw new Error('a move was left without an outcome')
  if (outcome.kind === 'refused') throw outcome.error
  return { order: outcome.order, isRepeat: outcome.kind === 'repeated' }
}

/**
 * Moves orders, each named once, in one transaction; each is moved or refused on its own. Stock is returned in the same transaction.
 * Nothing is sent here: the pipeline reacts to the commit. Throws `unavailable` when rows stay locked for longer than `lockWaitMs`; no connection
 * is held while they are waited for.
 */
export async function moveOrders(
  { pool, lockedRows }: Moving,
  moves: readonly Move[],
  now: Date,
  lockWaitMs = LOCK_WAIT_MS,
): Promise<MoveOutcome[]> {
  const deadline = performance.now() + lockWaitMs
  for (;;) {
    const rows: Rows = { orders: moves.map(({ orderId }) => orderId.toLowerCase()) }
    try {
      return await inTransaction(pool, (tx) => attempt(tx, { lockedRows, moves, now, rows }), { lockTimeoutMs: lockedRows.lockTimeoutMs })
    } catch (error) {
      if (!(error instanceof RowsLocked) && !isTimeout(error)) throw error
      if (!(error instanceof RowsLocked)) await lockedRows.find(rows)
      const leftMs = deadline - performance.now()
      if (leftMs <= 0 || !(await lockedRows.untilFree(rows, leftMs))) throw rowsAreLocked(error)
    }
  }
}

/** Rows that a move needs are known to be locked: waiting for them in a transaction would hold up others. */
class RowsLocked extends Error {
  override readonly name = 'RowsLocked'
}

interface Attempt extends Pick<Moving, 'lockedRows'> {
  moves: readonly Move[]
  now: Date
  /** What the moves lock: their orders at first; the rest is added once it is known. */
  rows: Rows
}

async function attempt(tx: Transaction, { lockedRows, moves, now, rows }: Attempt): Promise<MoveOutcome[]> {
  if (lockedRows.hasAny(rows)) throw new RowsLocked()
  const orders = await findOrdersForUpdate(
    tx,
    moves.map((move) => move.orderId),
  )
  const outcomes = moves.map((move) => decide(move, orders.get(move.orderId.toLowerCase()), now))
  const moved = outcomes.flatMap((outcome) => (outcome.kind === 'moved' ? [outcome.order] : []))
  const lines = linesToReturn(moves, outcomes)
  rows.customers = [...new Set(moved.map(({ userId }) => userId))]
  rows.products = [...new Set(lines.map((line) => line.product_id))]
  if (lockedRows.hasAny(rows)) throw new RowsLocked()
  // The order of locks is the same everywhere, so no two deadlock: orders by id, their customers' counts by the update, stock by product id.
  const written = new Map((await updateOrderStatuses(tx, moved)).map((order) => [order.id, order]))
  if (lines.length > 0) await returnStock(tx, lines)
  return outcomes.map((outcome) =>
    outcome.kind === 'moved' ? { ...outcome, order: written.get(outcome.order.id) ?? outcome.order } : outcome,
  )
}

function decide(move: Move, order: Order | undefined, now: Date): MoveOutcome {
  try {
    if (order === undefined || (move.ownerId !== undefined && order.userId !== move.ownerId)) throw notFound('order')
    // Before the version: a client that repeats a move did not get the response with the new one.
    if (wasMade(order, move)) return { kind: 'repeated', order }
    assertVersion(order, move.versions ?? null)
    if (move.from !== undefined && order.status !== move.from) throw new AppError('illegal_transition', `The order is ${order.status} now.`)
    assertNotInStatus(order, move)
    assertTransition(order.status, move.to)
    return { kind: 'moved', order: withStatus(order, move, now) }
  } catch (error) {
    return { kind: 'refused', error }
  }
}

/** Whether the order made this move with the same reference at any time. */
function wasMade(order: Order, { to, reference = null }: Move): boolean {
  return reference !== null && order.statusHistory.some((change) => change.status === to && change.reference === reference)
}

/** Throws `illegal_transition`, with the reference of the move that was made, when the order already has the status. */
function assertNotInStatus({ status, statusHistory }: Order, { to, reference = null }: Move): void {
  if (reference === null || status !== to) return
  const current = statusHistory.at(-1)?.reference ?? null
  const cause = current === null ? 'without a reference' : `with the reference ${current}`
  throw new AppError('illegal_transition', `The order became ${to} ${cause}.`, {
    members: { current_status: status, current_reference: current, allowed_transitions: allowedTransitions(status) },
  })
}

function assertVersion(order: Order, versions: ReadonlySet<string> | null): void {
  if (versions === null || versions.has(String(order.version))) return
  throw new AppError('precondition_failed', `The order is at version ${order.version}.`, { members: { current_version: order.version } })
}

/** The lines whose goods can be sold again. */
function linesToReturn(moves: readonly Move[], outcomes: readonly MoveOutcome[]): StockLine[] {
  const goesBack = (index: number) => moves[index]?.to === 'cancelled' || (moves[index]?.to === 'returned' && moves[index].restock === true)
  return outcomes.flatMap((outcome, index) => (outcome.kind === 'moved' && goesBack(index) ? outcome.order.items : []))
}

import { returnStock } from '../catalogue/stock.ts'
import type { Pool, Transaction } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import { AppError, notFound } from '../errors.ts'
import { type Actor, type Order, withStatus } from './order.ts'
import { assertTransition, type OrderStatus } from './order-status.ts'
import { findOrdersForUpdate, updateOrderStatuses } from './orders.ts'

/** A change of status that somebody wants. */
export interface Move {
  orderId: string
  to: OrderStatus
  actor: Actor
  reason: string | null
  traceparent: string
  /** Only an order of this customer. */
  ownerId?: string
  /** Only an order in this status: for moves that were decided some time ago. */
  from?: OrderStatus
  /** Only an order in one of these versions, as `If-Match` has them; null for any. */
  versions?: ReadonlySet<string> | null
  /** Whether goods that come back can be sold again. Cancelled ones always can: they never left. */
  restock?: boolean
}

export type MoveOutcome = { kind: 'moved'; order: Order } | { kind: 'refused'; error: unknown }

/** Moves one order to another status. Throws `not_found`, `version_mismatch` or `illegal_transition`. */
export async function moveOrder(pool: Pool, move: Move, now: Date): Promise<Order> {
  const [outcome] = await moveOrders(pool, [move], now)
  if (outcome?.kind !== 'moved') throw outcome?.error ?? new Error('a move was left without an outcome')
  return outcome.order
}

/**
 * Moves orders, each named once, in one transaction; each is moved or refused on its own. Stock goes back in the same transaction.
 * Nothing is sent here: the pipeline reacts to the commit.
 */
export async function moveOrders(pool: Pool, moves: readonly Move[], now: Date): Promise<MoveOutcome[]> {
  return inTransaction(pool, async (tx) => {
    const orders = await findOrdersForUpdate(
      tx,
      moves.map((move) => move.orderId),
    )
    const outcomes = moves.map((move) => decide(move, orders.get(move.orderId.toLowerCase()), now))
    await write(tx, moves, outcomes)
    return outcomes
  })
}

function decide(move: Move, order: Order | undefined, now: Date): MoveOutcome {
  try {
    if (order === undefined || (move.ownerId !== undefined && order.userId !== move.ownerId)) throw notFound('order')
    assertVersion(order, move.versions ?? null)
    if (move.from !== undefined && order.status !== move.from) throw new AppError('illegal_transition', `The order is ${order.status} now.`)
    assertTransition(order.status, move.to)
    return { kind: 'moved', order: withStatus(order, move.to, move.actor, move.reason, move.traceparent, now) }
  } catch (error) {
    return { kind: 'refused', error }
  }
}

function assertVersion(order: Order, versions: ReadonlySet<string> | null): void {
  if (versions === null || versions.has(String(order.version))) return
  throw new AppError('version_mismatch', `The order is at version ${order.version}.`, { members: { current_version: order.version } })
}

// Orders are locked by id first and stock by product id then, as everywhere: two of these cannot deadlock.
async function write(tx: Transaction, moves: readonly Move[], outcomes: readonly MoveOutcome[]): Promise<void> {
  const moved = outcomes.flatMap((outcome) => (outcome.kind === 'moved' ? [outcome.order] : []))
  const goesBack = (index: number) => moves[index]?.to === 'cancelled' || (moves[index]?.to === 'returned' && moves[index].restock === true)
  const lines = outcomes.flatMap((outcome, index) => (outcome.kind === 'moved' && goesBack(index) ? outcome.order.items : []))
  if (lines.length > 0) await returnStock(tx, lines)
  await updateOrderStatuses(tx, moved)
}

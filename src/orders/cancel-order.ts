import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { AppError } from '../errors.ts'
import { moveOrder, type TransitionContext } from './move-orders.ts'
import type { Order } from './order.ts'
import type { OrderStatus } from './order-status.ts'

export interface Cancellation {
  userId: string
  orderId: string
  /** Versions that the customer may have seen. Null allows any version. */
  versions: ReadonlySet<string> | null
  cancellable: readonly OrderStatus[]
  traceparent: string
}

/** Cancels an order of an account, or of one of its guests, and returns the stock. Throws like `moveOrder`. */
export async function cancelOrder(context: TransitionContext, { userId, ...cancellation }: Cancellation, now: Date): Promise<Order> {
  const move = { ...cancellation, to: 'cancelled', actor: { type: 'customer', id: userId }, reason: null } as const
  try {
    return (await moveOrder(context, { ...move, ownerId: userId }, now)).order
  } catch (error) {
    if (!(error instanceof AppError && error.code === 'not_found')) throw error
    const guestId = await findGuest(context.pool, userId, cancellation.orderId)
    if (guestId === null) throw error
    return (await moveOrder(context, { ...move, ownerId: guestId }, now)).order
  }
}

/** A guest never moves to another account, so this needs no lock. */
async function findGuest(pool: Pool, ownerId: string, orderId: string): Promise<string | null> {
  const { rows } = await pool.query<{ id: string }>(
    sql`select users.id from orders join users on users.id = orders.user_id where orders.id = ${orderId} and users.owner_id = ${ownerId}`,
  )
  return rows[0]?.id ?? null
}

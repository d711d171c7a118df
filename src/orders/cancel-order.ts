import type { Pool } from '../db/pool.ts'
import { moveOrder } from './move-orders.ts'
import type { Order } from './order.ts'

export interface Cancellation {
  userId: string
  orderId: string
  /** The versions the customer may have seen; null for any. */
  versions: ReadonlySet<string> | null
  traceparent: string
}

/** Cancels a customer's own order and gives its stock back. Throws `not_found`, `version_mismatch` or `illegal_transition`. */
export async function cancelOrder(pool: Pool, { userId, ...cancellation }: Cancellation, now: Date): Promise<Order> {
  const move = { ...cancellation, to: 'cancelled', actor: { type: 'customer', userId }, ownerId: userId, reason: null } as const
  return (await moveOrder(pool, move, now)).order
}

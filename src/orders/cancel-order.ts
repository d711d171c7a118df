import { type Moving, moveOrder } from './move-orders.ts'
import type { Order } from './order.ts'

export interface Cancellation {
  userId: string
  orderId: string
  /** The versions the customer may have seen; null for any. */
  versions: ReadonlySet<string> | null
  traceparent: string
}

/** Cancels a customer's own order and gives its stock back. Throws as `moveOrder`. */
export async function cancelOrder(moving: Moving, { userId, ...cancellation }: Cancellation, now: Date): Promise<Order> {
  const move = { ...cancellation, to: 'cancelled', actor: { type: 'customer', userId }, ownerId: userId, reason: null } as const
  return (await moveOrder(moving, move, now)).order
}

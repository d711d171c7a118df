import { returnStock } from '../catalogue/stock.ts'
import type { Pool } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import { type Order, withStatus } from './order.ts'
import { assertTransition } from './order-status.ts'
import { getOrderForUpdate, updateOrderStatus } from './orders.ts'

/**
 * Cancels a customer's own order and gives its stock back, in one transaction. Nothing is sent here: the pipeline reacts to
 * the commit. Throws `not_found` or `illegal_transition`.
 */
export async function cancelOrder(pool: Pool, userId: string, orderId: string, traceparent: string, now: Date): Promise<Order> {
  return inTransaction(pool, async (tx) => {
    const order = await getOrderForUpdate(tx, userId, orderId)
    assertTransition(order.status, 'cancelled')
    const cancelled = withStatus(order, 'cancelled', { type: 'customer', userId }, null, traceparent, now)
    await returnStock(tx, order.items)
    await updateOrderStatus(tx, cancelled)
    return cancelled
  })
}

import { getOrderRecords } from '../audit/verify/read-orders.ts'
import type { Pool } from '../db/pool.ts'
import { findDefect } from '../orders/event-defects.ts'
import { hasWholeHistory, type OrderEvent, toOrderEvents } from '../orders/events.ts'

/** An event, made again from its order's row; null when the row is gone, or something other than the store has written it. */
export async function findOrderEvent(pool: Pool, orderId: string, eventId: string): Promise<OrderEvent | null> {
  const [record] = await getOrderRecords(pool, [orderId])
  if (record === undefined || findDefect(record) !== null || !hasWholeHistory(record)) return null
  return toOrderEvents(record).find(({ id }) => id === eventId) ?? null
}

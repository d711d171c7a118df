import { type Static, Type } from 'typebox'
import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { Paging } from '../http/pagination.ts'
import { presentOrder } from './order.ts'
import { type NumberPosition, type OrderPage, readOrderPage } from './order-page.ts'
import { ORDER_STATUSES, type OrderStatus } from './order-status.ts'
import { orderOwnersOf } from './orders.ts'

export const OrderQuery = Type.Object({
  status: Type.Optional(Type.Enum([...ORDER_STATUSES], { title: 'OrderStatus', description: 'Only orders with this status.' })),
})

export function listOrders(
  pool: Pool,
  userId: string,
  { status }: Static<typeof OrderQuery>,
  paging: Paging<Static<typeof NumberPosition>>,
  cancellable: readonly OrderStatus[],
): Promise<OrderPage> {
  return readOrderPage(pool, {
    paging,
    owners: orderOwnersOf(userId),
    conditions: status === undefined ? [] : [sql`status = ${status}`],
    sort: 'number',
    present: (order) => presentOrder(order, cancellable),
    // Each set of conditions has a prepared statement, because planning takes as long as running it.
    statementName: `list_orders${status === undefined ? '' : '_of_status'}${paging.after === undefined ? '' : '_after'}`,
  })
}

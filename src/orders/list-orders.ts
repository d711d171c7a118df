import { type Static, Type } from 'typebox'
import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { PageQuery } from '../http/pagination.ts'
import { presentOrder } from './order.ts'
import { type OrderPage, readOrderPage } from './order-page.ts'
import { ORDER_STATUSES } from './order-status.ts'
import { orderOwnersOf } from './orders.ts'

export const OrderQuery = Type.Object({
  status: Type.Optional(Type.Enum([...ORDER_STATUSES], { title: 'OrderStatus', description: 'Only orders with this status.' })),
})

/** A page of one customer's orders, newest first. Throws `invalid_cursor`. */
export function listOrders(pool: Pool, userId: string, query: Static<typeof OrderQuery> & PageQuery): Promise<OrderPage> {
  const { status, ...page } = query
  return readOrderPage(pool, {
    ...page,
    scope: ['orders', userId, status ?? null],
    owners: orderOwnersOf(userId),
    conditions: status === undefined ? [] : [sql`status = ${status}`],
    sort: 'number',
    present: presentOrder,
    // One prepared statement for each set of conditions: planning one takes as long as running it.
    statementName: `list_orders${status === undefined ? '' : '_of_status'}${page.cursor === undefined ? '' : '_after'}`,
  })
}

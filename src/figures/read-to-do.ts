import type { Pool } from '../db/pool.ts'
import { type Sql, sql } from '../db/sql.ts'
import type { OrderStatus } from '../orders/order-status.ts'
import { IS_UNPAID } from '../orders/unpaid-orders.ts'
import type { MailsToDo, OrdersToDo, StockToDo } from './figure-schemas.ts'

/** Counting stops at this number. */
const MOST_COUNTED = 1_000

/** Each count reads at most 1,000 entries of an index. */
export async function readOrdersToDo(pool: Pool): Promise<OrdersToDo> {
  const withStatus = (status: OrderStatus) => readWaiting(pool, sql`status = ${status}`, sql`created_at`)
  return {
    to_confirm: await withStatus('pending'),
    to_ship: await withStatus('confirmed'),
    unpaid: await readWaiting(pool, IS_UNPAID, sql`number`),
  }
}

/** `sort` is the last column of the index for the condition. */
async function readWaiting(pool: Pool, condition: Sql, sort: Sql): Promise<OrdersToDo['to_ship']> {
  const { rows } = await pool.query<{ count: number; oldest_at: Date | null }>(
    sql`select count(*)::integer as count, min(created_at) as oldest_at
    from (select created_at from orders where ${condition} order by ${sort} limit ${MOST_COUNTED}) as waiting`,
  )
  return { count: rows[0]?.count ?? 0, oldest_at: rows[0]?.oldest_at?.toISOString() ?? null }
}

export async function readMailsToDo(pool: Pool): Promise<MailsToDo> {
  const { rows } = await pool.query<MailsToDo>(
    sql`select count(*)::integer as failed from (select from email_deliveries where status = 'failed' limit ${MOST_COUNTED}) as failed`,
  )
  return rows[0] ?? { failed: 0 }
}

export async function readStockToDo(pool: Pool): Promise<StockToDo> {
  const { rows } = await pool.query<StockToDo>(
    sql`select count(*)::integer as sold_out
    from (select from products where not in_stock and archived_at is null limit ${MOST_COUNTED}) as sold`,
  )
  return rows[0] ?? { sold_out: 0 }
}

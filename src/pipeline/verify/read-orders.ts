import type { Pool } from '../../db/pool.ts'
import type { OrderRecord } from '../../orders/events.ts'
import { FACTS_IN_ORDERS } from './facts.ts'
import type { Ledger } from './ledger.ts'

const PAGE_SIZE = 5_000
const BEFORE_ALL = '00000000-0000-0000-0000-000000000000'

export interface OrderFilter {
  /** Only changes made at this time or later. */
  since?: Date | undefined
  orderId?: string | undefined
}

interface OrderEventRow {
  order_id: string
  event_id: string
  facts: string | null
  changed_at: number
}

/** Puts the event of each version of each order into the ledger, as the rows of `orders` tell. Returns the number of orders. */
export async function readOrders(pool: Pool, ledger: Ledger, { since, orderId }: OrderFilter = {}): Promise<number> {
  let orders = 0
  for (let after = BEFORE_ALL; ; ) {
    const { rows } = await pool.query<OrderEventRow>(
      `select orders.id as order_id, orders.id || '.' || version.number as event_id, ${FACTS_IN_ORDERS} as facts,
        (extract(epoch from coalesce((status_history -> (version.number - 1) ->> 'at')::timestamptz, updated_at)) * 1000)::bigint
          as changed_at
      from (
        select id, number, user_id, items, total_amount, currency, version, status_history, updated_at
        from orders
        where id > $1 and ($3::uuid is null or id = $3)
        order by id
        limit $2
      ) as orders
      cross join lateral generate_series(1, orders.version) as version (number)
      order by orders.id, version.number`,
      [after, PAGE_SIZE, orderId ?? null],
    )
    const last = rows.at(-1)
    if (last === undefined) return orders
    orders += new Set(rows.map((row) => row.order_id)).size
    await ledger.add('order_events', since === undefined ? rows : rows.filter((row) => row.changed_at >= since.getTime()))
    after = last.order_id
  }
}

/** Rows of `orders` as the change stream would carry them. */
export async function getOrderRecords(pool: Pool, ids: readonly string[]): Promise<OrderRecord[]> {
  const { rows } = await pool.query<OrderRecord>(
    `select id, number::text, user_id, status, items, total_amount::text, currency, client_reference, shipping_address, note, version,
      status_history, traceparent, created_at, updated_at
    from orders
    where id = any ($1::uuid[])`,
    [ids],
  )
  return rows
}

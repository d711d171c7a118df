import type { Pool } from '../../db/pool.ts'
import type { OrderRecord } from '../../orders/events.ts'
import { FACTS_IN_ORDERS } from './facts.ts'
import type { Ledger } from './ledger.ts'

const PAGE_SIZE = 5_000
const BEFORE_ALL = '00000000-0000-0000-0000-000000000000'
// What somebody else has written into a row must not stop the comparison of all others: it is looked at before it is cast.
const CHANGED_AT = `
  case
    when status_history -> (version.number - 1) ->> 'at' ~ '^\\d{4}-[01]\\d-[0-3]\\dT[0-2]\\d:[0-5]\\d:[0-5]\\d(\\.\\d+)?Z$'
      then (status_history -> (version.number - 1) ->> 'at')::timestamptz
    when isfinite(updated_at) then updated_at
    else now()
  end`

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
        (extract(epoch from ${CHANGED_AT}) * 1000)::bigint as changed_at
      from (
        select id, number, user_id, items, total_amount, currency, version, status_history, updated_at,
          case when json_typeof(items) = 'array' and jsonb_typeof(status_history) = 'array'
            then jsonb_array_length(status_history) = version else false end as is_whole
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

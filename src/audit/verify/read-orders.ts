import type { Pool } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { OrderRecord } from '../../orders/events.ts'
import type { ComparisonTables } from './comparison-tables.ts'
import { EVENT_DIGEST_IN_ORDERS, MOVE_DETAILS_IN_ORDERS } from './event-digest.ts'

const PAGE_SIZE = 5_000
const BEFORE_ALL = '00000000-0000-0000-0000-000000000000'

export interface OrderFilter {
  /** Only changes made at this time or later, and the versions of the same orders before them. */
  since?: Date | undefined
  orderId?: string | undefined
}

// An entry of the history names its version where that is not its place: see decision 0140.
const VERSION_OF_LAST = sql`
  case jsonb_typeof(status_history -> -1 -> 'version')
    when 'number' then (status_history -> -1 ->> 'version')::numeric else jsonb_array_length(status_history)
  end`
/** Of a row `orders`. A version that somebody has set to two thousand million must not make as many rows. */
const EACH_VERSION = sql`
  select
    case when jsonb_path_exists(entry, '$.version ? (@ >= 1 && @ <= 2147483647 && @ % 1 == 0)', '{}', true)
      then (entry ->> 'version')::numeric::integer else place::integer end,
    place::integer
  from jsonb_path_query(case when orders.is_whole then status_history end, '$[*]') with ordinality as change (entry, place)
  union all
  select number, number from generate_series(1, least(orders.version, 10000)) as number where not orders.is_whole
  union all
  select orders.version, orders.version where not orders.is_whole and orders.version > 10000`

interface OrderEventRow {
  order_id: string
  event_id: string
  event_digest: string | null
  move_details: string | null
  /** Of the history's entry: anything that somebody may have written there. */
  at: string | null
  /** A number when it is infinite. */
  updated_at: Date | number
}

/** Puts the event of each version of each order into the tables, as the rows of `orders` tell. Returns the number of orders. */
export async function readOrders(pool: Pool, tables: ComparisonTables, { since, orderId }: OrderFilter = {}): Promise<number> {
  let orders = 0
  for (let after = BEFORE_ALL; ; ) {
    const { rows } = await pool.query<OrderEventRow>(
      sql`select orders.id as order_id, orders.id || '.' || version.number as event_id, ${EVENT_DIGEST_IN_ORDERS} as event_digest,
        ${MOVE_DETAILS_IN_ORDERS} as move_details,
        status_history -> (version.place - 1) ->> 'at' as at, updated_at
      from (
        select id, number, user_id, items, total_amount, currency, version, status_history, updated_at,
          case when json_typeof(items) = 'array' and jsonb_typeof(status_history) = 'array'
            then ${VERSION_OF_LAST} = version else false end as is_whole
        from orders
        where id > ${after} and (${orderId ?? null}::uuid is null or id = ${orderId ?? null})
        order by id
        limit ${PAGE_SIZE}
      ) as orders
      cross join lateral (${EACH_VERSION}) as version (number, place)
      order by orders.id, version.number`,
    )
    const last = rows.at(-1)
    if (last === undefined) return orders
    orders += new Set(rows.map((row) => row.order_id)).size
    const events = rows.map((row) => ({ ...row, changed_at: changedAt(row) }))
    await tables.add('order_events', since === undefined ? events : withEarlierVersions(events, since.getTime()))
    after = last.order_id
  }
}

/** In milliseconds. What somebody has written into a row must not stop the comparison of all others, so the database casts nothing. */
function changedAt({ at, updated_at }: OrderEventRow): number {
  const time = Date.parse(at ?? '')
  if (!Number.isNaN(time)) return time
  const updatedAt = Number(updated_at)
  return Number.isFinite(updatedAt) ? updatedAt : Date.now()
}

/** Of rows by order and version those at or behind `since`, and those before them: no later version may be published before its earlier ones. */
function withEarlierVersions<Row extends { order_id: string; changed_at: number }>(rows: readonly Row[], since: number): Row[] {
  const wanted: Row[] = []
  for (const row of rows.toReversed()) {
    if (row.changed_at >= since || wanted.at(-1)?.order_id === row.order_id) wanted.push(row)
  }
  return wanted.reverse()
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

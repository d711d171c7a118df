import type { Pool } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { OrderRecord } from '../../orders/events.ts'
import { STREAMED_COLUMNS } from '../../orders/order-column-sql.ts'
import { countOf, type OnStep } from '../on-step.ts'
import type { ComparisonTables } from './comparison-tables.ts'
import { EVENT_DIGEST_IN_ORDERS, MOVE_DETAILS_IN_ORDERS } from './event-digest.ts'
import { findOrderFault, type InvalidRows, ORDER_CHECKS, type OrderChecks } from './invalid-rows.ts'

const PAGE_SIZE = 1_000
const BEFORE_ALL = '00000000-0000-0000-0000-000000000000'

const UNCHECKED = sql`true as are_lines_sound, true as is_history_whole, true as do_changes_add_up`

export interface OrderFilter {
  /** Selects changes made at this time or later, and the earlier versions of the same orders. */
  since?: Date | undefined
  orderId?: string | undefined
}

// An entry of the history contains its version if that differs from its place: see decision 0140.
const VERSION_OF_LAST = sql`
  case jsonb_typeof(status_history -> -1 -> 'version')
    when 'number' then (status_history -> -1 ->> 'version')::numeric else jsonb_array_length(status_history)
  end`
/** The versions of a row `orders`. Bounded, because a corrupt version of two billion must not produce as many rows. */
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

interface OrderEventRow extends OrderChecks {
  order_id: string
  /** The event id; null for an order without versions. */
  event_id: string | null
  event_digest: string | null
  move_details: string | null
  /** Unvalidated text of the history's entry. */
  at: string | null
  /** A number for an infinite time. */
  updated_at: Date | number
}

/**
 * Copies the event of each version of each order into `order_events`, made from the rows of `orders`, and adds rows that break a rule to
 * `invalid`. Returns the number of orders.
 */
export async function readOrders(
  pool: Pool,
  tables: ComparisonTables,
  { since, orderId }: OrderFilter = {},
  invalid?: InvalidRows,
  onStep: OnStep = () => {},
): Promise<number> {
  let orders = 0
  for (let after = BEFORE_ALL; ; ) {
    const { rows } = await pool.query<OrderEventRow>(
      sql`select orders.id as order_id, orders.id || '.' || version.number as event_id, ${EVENT_DIGEST_IN_ORDERS} as event_digest,
        ${MOVE_DETAILS_IN_ORDERS} as move_details,
        status_history -> (version.place - 1) ->> 'at' as at, updated_at, are_lines_sound, is_history_whole,
        do_changes_add_up
      from (
        select id, number, user_id, items, total_amount, currency, version, status_history, updated_at,
          case when json_typeof(items) = 'array' and jsonb_typeof(status_history) = 'array'
            then ${VERSION_OF_LAST} = version else false end as is_whole,
          ${invalid === undefined ? UNCHECKED : ORDER_CHECKS}
        from orders
        where id > ${after} and (${orderId ?? null}::uuid is null or id = ${orderId ?? null})
        order by id
        limit ${PAGE_SIZE}
      ) as orders
      left join lateral (${EACH_VERSION}) as version (number, place) on true
      order by orders.id, version.number`,
    )
    if (rows.length === 0) return orders
    for (const row of rows) {
      if (row.order_id === after) continue
      after = row.order_id
      orders += 1
      const fault = findOrderFault(row)
      if (fault !== null) invalid?.add(row.order_id, fault)
    }
    const events = rows.flatMap(({ event_id, ...row }) => (event_id === null ? [] : { ...row, event_id, changed_at: changedAt(row) }))
    onStep(`read ${countOf(orders)} orders`)
    await tables.add('order_events', since === undefined ? events : withEarlierVersions(events, since.getTime()))
  }
}

/**
 * Time of the change in milliseconds. The database casts nothing: a malformed row must not fail the comparison of all
 * others.
 */
function changedAt({ at, updated_at }: Pick<OrderEventRow, 'at' | 'updated_at'>): number {
  const time = Date.parse(at ?? '')
  if (!Number.isNaN(time)) return time
  const updatedAt = Number(updated_at)
  return Number.isFinite(updatedAt) ? updatedAt : Date.now()
}

/**
 * Selects the rows at or after `since` and the earlier versions of the same orders: no version may be published before
 * an earlier one. `rows` are sorted by order and version.
 */
function withEarlierVersions<Row extends { order_id: string; changed_at: number }>(rows: readonly Row[], since: number): Row[] {
  const wanted: Row[] = []
  for (const row of rows.toReversed()) {
    if (row.changed_at >= since || wanted.at(-1)?.order_id === row.order_id) wanted.push(row)
  }
  return wanted.reverse()
}

/** Rows of `orders` as the change stream would deliver them. */
export async function getOrderRecords(pool: Pool, ids: readonly string[]): Promise<OrderRecord[]> {
  const { rows } = await pool.query<OrderRecord>(sql`select ${STREAMED_COLUMNS} from orders where id = any (${ids}::uuid[])`)
  return rows
}

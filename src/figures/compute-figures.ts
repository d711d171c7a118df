import type { Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { statusesWhere } from '../orders/order-status.ts'
import { type NetAmountSource, netAmountOf } from './net-amount.ts'

/** The days for which figures are kept: the 30 days that are shown, the preceding 30, and one more. */
export const KEPT_DAYS = 61
/** Number of minutes, or ten-minute slices, per statement. */
const SLICES_AT_ONCE = 100
/** Number of orders whose histories are in memory at once. */
const ORDERS_AT_ONCE = 500
const SLICE_MS = 600_000

const [CANCELLED] = statusesWhere(({ moves }) => moves === 'cancelled')
const [RETURNED] = statusesWhere(({ moves }) => moves === 'returned')

/** Orders that were placed in this store and not imported from another one. */
const IS_PLACED_HERE = sql`(status_history -> 0 -> 'imported') is null`
/** The condition of the index `orders_changed_updated_at_idx`. */
export const MAY_DIFFER = sql`(status_history -> 1) is not null
    and ${IS_PLACED_HERE}
    and status_history @? '$[*] ? (@.status == "cancelled" || @.status == "returned" || @.change.type == "returned" || @.change.state == "refunded" || exists (@.change.amount) || exists (@.change.refund))'`

export type OnUnreadable = (orderId: string, error: unknown) => void

/** Recomputes the figures of these minutes, and of the ten-minute slices that contain them, from the orders. */
export async function computeFigures(
  tx: Transaction,
  minutes: readonly Date[],
  { withProducts = true, onUnreadable }: { withProducts?: boolean; onUnreadable: OnUnreadable },
): Promise<void> {
  // With outdated statistics the planner would read the whole table for each minute.
  await tx.query('set local enable_seqscan = off')
  await mayDeleteOld(tx)
  for (const part of inParts(minutes)) await computeMinutes(tx, part, onUnreadable)
  if (withProducts) for (const part of inParts(slicesOf(minutes))) await computeProducts(tx, part)
}

/** The previous release may not delete old figures. See docs/decisions/figures.md#upgrades. */
export async function mayDeleteOld(tx: Transaction): Promise<void> {
  await tx.query(sql`select set_config('storefront.figure_days', ${String(KEPT_DAYS)}, true)`)
}

async function computeMinutes(tx: Transaction, minutes: readonly Date[], onUnreadable: OnUnreadable): Promise<void> {
  const lost = await sumLost(tx, minutes, onUnreadable)
  await tx.query(sql`delete from order_figures where minute = any(${minutes}::timestamptz[])`)
  await tx.query(
    sql`insert into order_figures (minute, currency, orders, revenue, net_revenue, cancelled, returned)
    select counted.minute, counted.currency, orders, revenue, revenue - coalesce(lost.amount, 0), cancelled, returned
    from (
      select computed.minute, placed.currency, count(*) as orders, sum(placed.total_amount) as revenue,
        count(*) filter (where status = ${CANCELLED}) as cancelled, count(*) filter (where status = ${RETURNED}) as returned
      from unnest(${minutes}::timestamptz[]) as computed (minute)
      join orders as placed on placed.created_at >= computed.minute and placed.created_at < computed.minute + interval '1 minute'
      where ${IS_PLACED_HERE}
      group by computed.minute, placed.currency
    ) as counted
    left join unnest(${lost.map(({ minute }) => minute)}::timestamptz[], ${lost.map(({ currency }) => currency)}::text[], ${lost.map(({ amount }) => String(amount))}::numeric[])
      as lost (minute, currency, amount) using (minute, currency)`,
  )
}

interface Lost {
  minute: Date
  currency: string
  /** Minor units. Negative when the orders are worth more than when they were placed. */
  amount: bigint
}

/** By how much the orders of these minutes have lost value since they were placed. */
async function sumLost(tx: Transaction, minutes: readonly Date[], onUnreadable: OnUnreadable): Promise<Lost[]> {
  const { rows: changed } = await tx.query<{ id: string; minute: Date }>(
    // With "offset 0" the planner finds the orders by their times and not by the index of changed ones.
    sql`select id, minute
    from (
      select id, computed.minute, status_history
      from unnest(${minutes}::timestamptz[]) as computed (minute)
      join orders on created_at >= computed.minute and created_at < computed.minute + interval '1 minute'
      offset 0
    ) as found
    where ${MAY_DIFFER}`,
  )
  const minuteOf = new Map(changed.map(({ id, minute }) => [id, minute]))
  const sums = new Map<string, Lost>()
  for (const ids of inParts([...minuteOf.keys()], ORDERS_AT_ONCE)) {
    const { rows } = await tx.query<NetAmountSource & { id: string }>(
      sql`select id, status, currency, items, total_amount, status_history from orders where id = any(${ids}::uuid[])`,
    )
    for (const order of rows) {
      const { id, currency } = order
      const minute = minuteOf.get(id) as Date
      const key = `${minute.getTime()} ${currency}`
      const amount = lostOf(order, onUnreadable) + (sums.get(key)?.amount ?? 0n)
      sums.set(key, { minute, currency, amount })
    }
  }
  return [...sums.values()]
}

/** A malformed history counts as placed, and does not stop the figures of all orders. */
function lostOf(order: NetAmountSource & { id: string }, onUnreadable: OnUnreadable): bigint {
  try {
    return BigInt(order.total_amount - netAmountOf(order))
  } catch (error) {
    onUnreadable(order.id, error)
    return 0n
  }
}

async function computeProducts(tx: Transaction, slices: readonly Date[]): Promise<void> {
  await tx.query(sql`delete from product_figures where slice = any(${slices}::timestamptz[])`)
  await tx.query(
    sql`insert into product_figures (slice, product_id, currency, quantity, revenue)
    select computed.slice, line.product_id, placed.currency, sum(line.quantity), sum((line.total ->> 'amount')::numeric)
    from unnest(${slices}::timestamptz[]) as computed (slice)
    join orders as placed on placed.created_at >= computed.slice and placed.created_at < computed.slice + interval '10 minutes'
    cross join json_to_recordset(placed.items) as line (product_id uuid, quantity bigint, total json)
    where ${IS_PLACED_HERE}
    group by computed.slice, line.product_id, placed.currency`,
  )
}

function slicesOf(minutes: readonly Date[]): Date[] {
  const starts = new Set(minutes.map((minute) => startOfSlice(minute).getTime()))
  return [...starts].map((start) => new Date(start))
}

export function startOfSlice(instant: Date): Date {
  return new Date(Math.floor(instant.getTime() / SLICE_MS) * SLICE_MS)
}

function* inParts<T>(list: readonly T[], size = SLICES_AT_ONCE): Generator<T[]> {
  for (let start = 0; start < list.length; start += size) yield list.slice(start, start + size)
}

import type { Pool, Queryable } from '../db/pool.ts'
import { type Sql, sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { OLD_EVENTS_LOCK } from './catalogue-event.ts'

/**
 * The inventory columns for a new level. `step` is the units between two events; `level` is that of the last event,
 * which stays. Both are null if stock events are off or `available` is 0 or null.
 */
export function stockEventColumns(available: Sql, previousLevel: Sql = sql`null`): { level: Sql; step: Sql } {
  const isUsed = sql`percent > 0 and ${available} > 0`
  return {
    level: sql`(select coalesce(${previousLevel}, ${available}) from stock_event_settings where ${isUsed})`,
    // Rounded up, since fewer units would be less than the percentage.
    step: sql`(select (${available} * percent + 99) / 100 from stock_event_settings where ${isUsed})`,
  }
}

/**
 * Stores the percentage for stock level events. 0 stops these events at once. Other values apply to levels that are set
 * later.
 */
export async function saveStockEventPercent(db: Queryable, percent: number): Promise<void> {
  await db.query(sql`update stock_event_settings set percent = ${percent} where percent <> ${percent}`)
}

const REMOVAL_SIZE = 5_000
const REMOVAL_MAX_MS = 5_000

/** The key of the last event that a removal has examined. */
export interface RemovalCursor {
  product_id: string | null
  stream: string | null
  version: string | null
}

const NONE: RemovalCursor = { product_id: null, stream: null, version: null }

/**
 * Removes events older than `days` (at least 31) with their messages. It keeps the newest event of each product, stock
 * and price, events that a subscriber still has to read, and all while a replay or refill runs. A call examines events
 * after `cursor` for some seconds and moves `cursor`. Returns the number of removed events.
 */
export async function removeOldProductEvents(pool: Pool, days: number, now: Date, cursor: RemovalCursor = { ...NONE }): Promise<number> {
  const before = new Date(now.getTime() - days * 86_400_000)
  const deadline = performance.now() + REMOVAL_MAX_MS
  for (let removed = 0; ; ) {
    const { product_id: id, stream, version } = cursor
    const rows = await inTransaction(pool, async (tx) => {
      const { rows: locks } = await tx.query<{ is_locked: boolean }>(
        sql`select pg_try_advisory_xact_lock(hashtextextended(${OLD_EVENTS_LOCK}, 0)) as is_locked`,
      )
      if (locks[0]?.is_locked !== true) return null
      const { rows } = await tx.query<RemovalCursor & { removed: number }>(
        sql`select removed, product_id, stream, version::text as version
        from remove_old_product_events(
          ${before}, coalesce(${id}::uuid, '00000000-0000-0000-0000-000000000000'), coalesce(${stream}, ''), coalesce(${version}::bigint, 0), ${REMOVAL_SIZE}
        )`,
      )
      return rows
    })
    if (rows === null) return removed
    const [{ removed: count, ...last } = { removed: 0, ...NONE }] = rows
    removed += count
    Object.assign(cursor, last)
    if (last.product_id === null || performance.now() > deadline) return removed
  }
}

import type { Pool } from '../db/pool.ts'
import { newTraceparent } from '../http/trace-context.ts'
import { moveOrders } from './move-orders.ts'

const AT_ONCE = 100
const REASON = 'not confirmed in time'

/**
 * Cancels orders that have been pending for longer than `ttlSeconds` and gives their stock back. An order that is confirmed meanwhile
 * stays. Right to run anywhere, several times at once. Returns how many it cancelled.
 */
export async function expireOrders(pool: Pool, ttlSeconds: number, now: Date): Promise<number> {
  const before = new Date(now.getTime() - ttlSeconds * 1_000)
  const traceparent = newTraceparent()
  let cancelled = 0
  for (;;) {
    const { rows } = await pool.query<{ id: string }>(
      `select id from orders where status = 'pending' and created_at < $1 order by created_at, id limit $2`,
      [before, AT_ONCE],
    )
    const moves = rows.map(({ id }) => ({
      orderId: id,
      to: 'cancelled' as const,
      from: 'pending' as const,
      actor: { type: 'system' as const, userId: null },
      reason: REASON,
      traceparent,
    }))
    const outcomes = moves.length === 0 ? [] : await moveOrders(pool, moves, now)
    const moved = outcomes.filter((outcome) => outcome.kind === 'moved').length
    cancelled += moved
    // What could not be moved was moved by somebody else, or comes again with the next run.
    if (moved === 0) return cancelled
  }
}

import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { OrderEvent } from '../orders/events.ts'

const PAUSE_MS = 20
const MAX_WAIT_MS = 2_000

/**
 * Waits until the orders of these events can be read in their versions, but at most two seconds. Throws if `signal`
 * aborts. The change stream sees a commit before other sessions do, on a busy machine by tens of milliseconds.
 */
export async function untilReadable(
  { pool, logger }: { pool: Pool; logger: Logger },
  events: readonly OrderEvent[],
  signal: AbortSignal,
): Promise<void> {
  const [ids, versions] = [events.map(({ data }) => data.order.id), events.map(({ data }) => data.order.version)]
  for (const deadline = performance.now() + MAX_WAIT_MS; performance.now() < deadline; ) {
    const { rows } = await pool.query<{ is_older: boolean }>(
      sql`select exists (
        select from unnest(${ids}::uuid[], ${versions}::integer[]) as wanted (id, version)
        left join orders on orders.id = wanted.id and orders.version >= wanted.version
        where orders.id is null
      ) as is_older`,
    )
    if (rows[0]?.is_older === false) return
    await delay(PAUSE_MS, undefined, { signal })
  }
  logger.warn({ event: events[0]?.id, events: events.length }, 'orders of events cannot be read yet: their mails are queued without a wait')
}

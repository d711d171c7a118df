import type { Pool } from '../db/pool.ts'
import type { Admission } from '../http/admission.ts'
import { LoadShedder } from '../http/load-shedder.ts'
import type { OrderBatcher } from '../orders/placing/order-batcher.ts'

/** A queue that is half full is at its limit: the other half is for a burst. */
const FULL = 2
const MAX_CONNECTION_WAIT_MS = 500

interface ShedderOptions {
  pool: Pool
  batcher: Pick<OrderBatcher, 'fullness'>
  admission: Admission
}

/** The load of the event loop, the orders, the database connections and the searches decides. */
export function createShedder({ pool, batcher, admission }: ShedderOptions): LoadShedder {
  const waitMs = watchWait(pool)
  return new LoadShedder({
    signals: [
      { sheds: 'orders', pressure: () => FULL * batcher.fullness },
      // Orders have their own connections.
      { sheds: 'lists', pressure: () => waitMs() / MAX_CONNECTION_WAIT_MS },
      { sheds: 'lists', pressure: () => FULL * admission.fullnessOf('page') },
      { sheds: 'search', pressure: () => FULL * admission.fullnessOf('search') },
    ],
  })
}

/** While requests wait for a connection, this waits for one, too, and measures the time. */
export function watchWait(pool: Pool): () => number {
  let since: number | null = null
  let lastMs = 0
  const wait = async (began: number) => {
    try {
      const client = await pool.connect()
      client.release()
    } catch {}
    lastMs = performance.now() - began
    since = null
  }
  return () => {
    if (since === null) {
      if (pool.waitingCount === 0) return 0
      since = performance.now()
      void wait(since)
    }
    return Math.max(lastMs, performance.now() - since)
  }
}

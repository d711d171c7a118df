import type { Pool } from '../db/pool.ts'
import type { Admission } from '../http/admission.ts'
import { LoadShedder } from '../http/load-shedder.ts'
import type { OrderBatcher } from '../orders/placing/order-batcher.ts'

/** A half-full queue has reached its limit. The other half is for a burst. */
const FULL = 2
const MAX_CONNECTION_WAIT_MS = 500

interface ShedderOptions {
  pool: Pool
  batcher: Pick<OrderBatcher, 'fullness'>
  admission: Admission
}

/** Creates the load shedder. Its signals are the event loop, the orders, the database connections and the searches. */
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

/** Measures how long a request waits for a connection. While requests wait, it waits for a connection itself. */
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

import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'
import { abandonClient } from './pool.ts'

/** Opens a connection of its own, so that a busy pool cannot delay the news. Ends at once when the signal aborts. */
export type Connect = (signal: AbortSignal) => Promise<pg.Client>

export interface FollowOptions {
  connect: Connect
  /** Returns when `signal` aborts, or the connection is broken. */
  work: (client: pg.Client) => Promise<void>
  /** Hears of each time that `connect` or `work` throws. */
  onFailure: (error: unknown) => void
  retryMs: number
  signal: AbortSignal
}

/** Keeps `work` going, on another connection whenever one has failed, until `signal` aborts. */
export async function follow({ connect, work, onFailure, retryMs, signal }: FollowOptions): Promise<void> {
  while (!signal.aborted) {
    let client: pg.Client | undefined
    try {
      client = await connect(signal)
      await work(client)
    } catch (error) {
      if (signal.aborted) return
      onFailure(error)
      await delay(retryMs, undefined, { signal }).catch(() => {})
    } finally {
      // Not waited for: a connection that hangs would not end either.
      if (signal.aborted && client !== undefined) abandonClient(client)
      else void client?.end().catch(() => {})
    }
  }
}

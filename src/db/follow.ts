import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'

export interface FollowOptions {
  /** Opens a connection of its own, so that a busy pool cannot delay the news. */
  connect: () => Promise<pg.Client>
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
      client = await connect()
      await work(client)
    } catch (error) {
      onFailure(error)
      await delay(retryMs, undefined, { signal }).catch(() => {})
    } finally {
      // Not waited for: a connection that hangs would not end either.
      void client?.end().catch(() => {})
    }
  }
}

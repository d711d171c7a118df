import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'
import { abandonClient } from './pool.ts'

/** Opens a connection outside the pool, which may be busy. Rejects at once when the signal aborts. */
export type Connect = (signal: AbortSignal) => Promise<pg.Client>

export interface ReconnectOptions {
  connect: Connect
  /** Returns when `signal` aborts: the connection has broken, or the work is to stop. */
  work: (client: pg.Client, signal: AbortSignal) => Promise<void>
  /** Called each time that `connect` or `work` throws. */
  onFailure: (error: unknown) => void
  /** Pause after a failure. */
  retryMs: number
  /** Stops the work. */
  signal: AbortSignal
}

/** Runs `work` on one connection after another, a new one whenever the last has failed, until `signal` aborts. */
export async function withReconnect({ connect, work, onFailure, retryMs, signal }: ReconnectOptions): Promise<void> {
  while (!signal.aborted) {
    let client: pg.Client | undefined
    try {
      client = await connect(signal)
      const broken = new AbortController()
      const abort = () => broken.abort()
      client.on('error', abort).on('end', abort)
      await work(client, AbortSignal.any([signal, broken.signal]))
    } catch (error) {
      if (signal.aborted) return
      onFailure(error)
      await delay(retryMs, undefined, { signal }).catch(() => {})
    } finally {
      // Not awaited: a connection that hangs would not end either.
      if (signal.aborted && client !== undefined) abandonClient(client)
      else void client?.end().catch(() => {})
    }
  }
}

import type pg from 'pg'
import { Loop, type LoopOptions } from '../loop.ts'
import { abandonClient } from './pool.ts'

/** Opens a connection outside the pool, which may be busy. Rejects at once when the signal aborts. */
export type Connect = (signal: AbortSignal) => Promise<pg.Client>

export interface ReconnectOptions extends Pick<LoopOptions, 'onFailure' | 'onRecovered' | 'retryMs'> {
  connect: Connect
  /** Returns when `signal` aborts: the connection has broken, or the loop stops. Calls `well` whenever it has worked. */
  work: (client: pg.Client, signal: AbortSignal, well: () => void) => Promise<void>
}

/** Runs `work` on one connection after another, a new one whenever the last has failed. */
export function withReconnect({ connect, work, ...options }: ReconnectOptions): Loop {
  return new Loop({
    ...options,
    everyMs: 0,
    async work(signal, well) {
      const client = await connect(signal)
      const broken = new AbortController()
      const abort = () => broken.abort()
      client.on('error', abort).on('end', abort)
      try {
        await work(client, AbortSignal.any([signal, broken.signal]), well)
      } finally {
        // The end is not awaited: a connection that hangs would not end either.
        if (signal.aborted) abandonClient(client)
        else void client.end().catch(() => {})
      }
    },
  })
}

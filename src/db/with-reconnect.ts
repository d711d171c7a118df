import type pg from 'pg'
import { Loop, type LoopOptions } from '../loop.ts'
import { abandonClient } from './pool.ts'

export type Connect = (signal: AbortSignal) => Promise<pg.Client>

export interface ReconnectOptions extends Pick<LoopOptions, 'onFailure' | 'onRecovered' | 'retryMs'> {
  connect: Connect
  /** Returns when `signal` aborts. Calls `well` whenever it has worked. */
  work: (client: pg.Client, signal: AbortSignal, well: () => void) => Promise<void>
}

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
        // The end is not awaited, because a hanging connection would not end either.
        if (signal.aborted) abandonClient(client)
        else void client.end().catch(() => {})
      }
    },
  })
}

import type { Logger } from 'pino'
import { isDatabaseOutage } from '../db/failures.ts'
import { loggableError } from '../db/loggable-error.ts'
import type { Pool } from '../db/pool.ts'
import { rollUpOrders } from '../figures/roll-up-orders.ts'
import type { Service } from './service.ts'

/** After the start, which it must not slow down. Later runs are at the beginning of each minute. */
const FIRST_MS = 5_000
const MINUTE_MS = 60_000
/** Of two processes the first computes the minute. */
const NOT_WITHIN_SECONDS = 10

/** Computes the figures of orders once a minute. Nothing waits for it: while the database is unavailable, it pauses. */
export function createFigures({ pool, logger }: { pool: Pool; logger: Logger }): Service {
  const stopping = new AbortController()
  const { signal } = stopping
  let timer: NodeJS.Timeout | undefined
  let inFlight: Promise<void> | null = null

  async function collect(): Promise<void> {
    try {
      await rollUpOrders(pool, { notWithinSeconds: NOT_WITHIN_SECONDS, signal })
    } catch (error) {
      const detail = { err: loggableError(error) }
      if (isDatabaseOutage(error)) logger.warn(detail, 'figures wait for the database')
      else logger.error(detail, 'the figures could not be stored; they are retried in a minute')
    }
  }

  function schedule(ms: number): void {
    timer = setTimeout(() => {
      inFlight = collect().finally(() => {
        inFlight = null
        if (!signal.aborted) schedule(MINUTE_MS - (Date.now() % MINUTE_MS))
      })
    }, ms)
  }

  return {
    async start() {
      schedule(FIRST_MS)
    },
    async stop() {
      stopping.abort()
      clearTimeout(timer)
      await inFlight
    },
  }
}

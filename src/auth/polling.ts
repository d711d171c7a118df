import type { Logger } from 'pino'
import { isTemporary } from '../db/failures.ts'

/** Runs a check at an interval, one at a time. Others log outages of the database. `stop` is idempotent and safe before `start`. */
export function createPolling(everyMs: number, logger: Logger, check: () => Promise<void>) {
  let timer: NodeJS.Timeout | undefined
  let running: Promise<void> | null = null
  const run = async () => {
    try {
      await check()
    } catch (error) {
      if (!isTemporary(error)) logger.warn({ err: error }, 'a periodic check failed; it is repeated')
    } finally {
      running = null
    }
  }
  return {
    async start() {
      timer ??= setInterval(() => {
        running ??= run()
      }, everyMs)
    },
    async stop() {
      clearInterval(timer)
      await running
    },
  }
}
